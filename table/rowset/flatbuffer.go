package rowset

import "encoding/binary"

// The few parts of the FlatBuffers wire format that an Arrow footer needs. Every
// access is checked: what lies outside the bytes reads as absent or zero, as a
// field that the writer left out does.

type buffer []byte

// slice gives size bytes at an offset, false if they are not all there.
func (b buffer) slice(offset, size int64) (buffer, bool) {
	n := int64(len(b))
	if offset < 0 || size < 0 || offset > n || size > n-offset {
		return nil, false
	}
	return b[offset : offset+size], true
}

func (b buffer) uint16At(at int64) uint16 {
	if s, ok := b.slice(at, 2); ok {
		return binary.LittleEndian.Uint16(s)
	}
	return 0
}

func (b buffer) uint32At(at int64) uint32 {
	if s, ok := b.slice(at, 4); ok {
		return binary.LittleEndian.Uint32(s)
	}
	return 0
}

func (b buffer) int32At(at int64) int32 { return int32(b.uint32At(at)) }

func (b buffer) int64At(at int64) int64 {
	if s, ok := b.slice(at, 8); ok {
		return int64(binary.LittleEndian.Uint64(s))
	}
	return 0
}

// follow resolves the forward reference at a place.
func (b buffer) follow(at int64) (int64, bool) {
	if _, ok := b.slice(at, 4); !ok {
		return 0, false
	}
	step := int64(b.uint32At(at))
	return at + step, step > 0 && at+step < int64(len(b))
}

// table is a FlatBuffers table: at its place an offset back to the vtable,
// which holds for each field its distance from the table, 0 if absent.
type table struct {
	b      buffer
	at     int64
	vtable int64
	size   int64 // of the vtable
}

// rootTable gives the outermost table of a buffer.
func rootTable(b buffer) (table, bool) {
	at, ok := b.follow(0)
	if !ok {
		return table{}, false
	}
	return tableAt(b, at)
}

func tableAt(b buffer, at int64) (table, bool) {
	if _, ok := b.slice(at, 4); !ok {
		return table{}, false
	}
	t := table{b: b, at: at, vtable: at - int64(b.int32At(at))}
	t.size = int64(b.uint16At(t.vtable))
	_, ok := b.slice(t.vtable, t.size)
	return t, ok && t.size >= 4
}

// field gives the place of a field by its number.
func (t table) field(number int64) (int64, bool) {
	entry := 4 + 2*number
	if entry+2 > t.size {
		return 0, false
	}
	distance := int64(t.b.uint16At(t.vtable + entry))
	return t.at + distance, distance != 0
}

func (t table) uint8(number int64) uint8 {
	if at, ok := t.field(number); ok {
		if s, ok := t.b.slice(at, 1); ok {
			return s[0]
		}
	}
	return 0
}

func (t table) int32(number int64) int32 {
	if at, ok := t.field(number); ok {
		return t.b.int32At(at)
	}
	return 0
}

func (t table) int64(number int64) int64 {
	if at, ok := t.field(number); ok {
		return t.b.int64At(at)
	}
	return 0
}

func (t table) table(number int64) (table, bool) {
	at, ok := t.field(number)
	if !ok {
		return table{}, false
	}
	if at, ok = t.b.follow(at); !ok {
		return table{}, false
	}
	return tableAt(t.b, at)
}

// vector gives the elements of a vector field, each of so many bytes, and
// where they start. The count is -1 if they are not all there.
func (t table) vector(number, width int64) (elements buffer, start, count int64) {
	at, ok := t.field(number)
	if !ok {
		return nil, 0, 0
	}
	if at, ok = t.b.follow(at); !ok {
		return nil, 0, -1
	}
	count = int64(t.b.uint32At(at))
	start = at + 4
	if elements, ok = t.b.slice(start, count*width); !ok {
		return nil, 0, -1
	}
	return elements, start, count
}

// structs gives a vector of fixed-size structs.
func (t table) structs(number, width int64) (elements buffer, count int64) {
	elements, _, count = t.vector(number, width)
	return elements, count
}

func (t table) text(number int64) string {
	s, _, _ := t.vector(number, 1)
	return string(s)
}

// tableVector is a vector of references to tables.
type tableVector struct {
	b     buffer
	start int64
}

func (t table) tables(number int64) (tableVector, int64) {
	_, start, count := t.vector(number, 4)
	return tableVector{b: t.b, start: start}, count
}

func (v tableVector) at(i int64) (table, bool) {
	at, ok := v.b.follow(v.start + 4*i)
	if !ok {
		return table{}, false
	}
	return tableAt(v.b, at)
}

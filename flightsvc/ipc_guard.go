package flightsvc

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow/flight"
	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/flightblob/flightblob/internal/fault"
)

// The library that reads Arrow streams allocates what a message claims before it
// looks whether that much is there, and an allocation that fails ends the
// process. So every message of a client is looked at first: lengths of vectors
// against the bytes that there are, sizes of compressed buffers and numbers of
// rows against limits.

const (
	mostUncompressed = 1 << 30 // bytes of one message
	mostBareRows     = 1 << 24 // rows beyond what the bytes of a message can hold
	mostFields       = 1 << 16 // of a schema, nested ones included
	deepestField     = 128
)

// Field numbers of Arrow's Message.fbs and Schema.fbs, as vtable offsets.
const (
	slot0 = 4
	slot1 = 6
	slot2 = 8
	slot4 = 12
	slot5 = 14
	slot6 = 16

	messageSchema     = 1
	messageDictionary = 2
	messageBatch      = 3
)

// checkMessage refuses a message whose lengths lie.
func checkMessage(m *flight.FlightData) (err error) {
	header := m.GetDataHeader()
	if len(header) == 0 {
		return nil
	}
	defer func() {
		if recover() != nil { // an offset that leads out of the bytes
			err = fault.New(fault.Invalid, "the header of a message is no Arrow message")
		}
	}()
	c := &messageCheck{body: m.GetDataBody()}
	if len(header) < 8 {
		c.refuse()
	}
	root := flatbuffers.Table{Bytes: header, Pos: flatbuffers.GetUOffsetT(header)}
	c.vector(root, slot4, 4)
	inside, ok := below(root, slot2)
	if !ok {
		return nil // the library says what it thinks of a message without a header
	}
	switch root.GetByteSlot(slot1, 0) {
	case messageSchema:
		c.fields(inside, slot1, 0)
		c.pairs(inside, slot2)
		c.vector(inside, slot0+6, 8)
	case messageDictionary:
		if batch, ok := below(inside, slot1); ok {
			c.batch(batch)
		}
	case messageBatch:
		c.batch(inside)
	}
	return c.err
}

type messageCheck struct {
	body []byte
	seen int
	err  error
}

func (c *messageCheck) refuse() { panic("no Arrow message") }

// below is the table that a field refers to.
func below(t flatbuffers.Table, slot flatbuffers.VOffsetT) (flatbuffers.Table, bool) {
	o := t.Offset(slot)
	if o == 0 {
		return flatbuffers.Table{}, false
	}
	return flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(t.Pos + flatbuffers.UOffsetT(o))}, true
}

// vector checks that all elements of a vector are there, and gives its place.
func (c *messageCheck) vector(t flatbuffers.Table, slot flatbuffers.VOffsetT, size int) (at flatbuffers.UOffsetT, n int) {
	o := t.Offset(slot)
	if o == 0 {
		return 0, 0
	}
	n, at = t.VectorLen(flatbuffers.UOffsetT(o)), t.Vector(flatbuffers.UOffsetT(o))
	if n < 0 || int64(n)*int64(size) > int64(len(t.Bytes))-int64(at) {
		c.refuse()
	}
	return at, n
}

// tables visits the elements of a vector of tables.
func (c *messageCheck) tables(t flatbuffers.Table, slot flatbuffers.VOffsetT, visit func(flatbuffers.Table)) {
	at, n := c.vector(t, slot, 4)
	for i := range n {
		if c.seen++; c.seen > mostFields {
			c.refuse()
		}
		visit(flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(at + flatbuffers.UOffsetT(4*i))})
	}
}

func (c *messageCheck) pairs(t flatbuffers.Table, slot flatbuffers.VOffsetT) {
	c.tables(t, slot, func(pair flatbuffers.Table) {
		c.vector(pair, slot0, 1)
		c.vector(pair, slot1, 1)
	})
}

func (c *messageCheck) fields(t flatbuffers.Table, slot flatbuffers.VOffsetT, depth int) {
	if depth > deepestField {
		c.refuse()
	}
	c.tables(t, slot, func(f flatbuffers.Table) {
		c.vector(f, slot0, 1)
		if kind, ok := below(f, slot0+6); ok {
			const union = 14
			if f.GetByteSlot(slot2, 0) == union {
				c.vector(kind, slot1, 4)
			}
		}
		c.fields(f, slot5, depth+1)
		c.pairs(f, slot6)
	})
}

// batch checks a record batch.
func (c *messageCheck) batch(t flatbuffers.Table) {
	c.vector(t, slot1, 16)
	c.vector(t, slot4, 8)
	held := int64(len(c.body))
	at, n := c.vector(t, slot2, 16)
	if _, compressed := below(t, slot0+6); compressed {
		for i := range n {
			buffer := t.Bytes[int(at)+16*i:]
			offset, length := int64(binary.LittleEndian.Uint64(buffer)), int64(binary.LittleEndian.Uint64(buffer[8:]))
			if length < 8 || offset < 0 || offset > int64(len(c.body))-8 {
				continue // empty, or for the library to refuse
			}
			size := int64(binary.LittleEndian.Uint64(c.body[offset:]))
			if held += max(size, 0); size > mostUncompressed || held > mostUncompressed {
				c.err = fault.New(fault.Exhausted, "a message holds more than %d bytes when it is uncompressed; send smaller batches", mostUncompressed)
				return
			}
		}
	}
	if rows := t.GetInt64Slot(slot0, 0); rows < 0 || rows > mostBareRows+8*held {
		c.err = fault.New(fault.Invalid, "a batch claims %d rows in %d bytes", rows, held)
	}
}

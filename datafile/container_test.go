package datafile

import (
	"context"
	"encoding/binary"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// memory is an object that counts its reads.
type memory struct {
	objstore.Store
	data  []byte
	reads atomic.Int64
}

func (m *memory) ReadAt(_ context.Context, _ string, p []byte, off int64) error {
	m.reads.Add(1)
	if off < 0 || off+int64(len(p)) > int64(len(m.data)) {
		return fault.Corruptf(off, "read past the end")
	}
	copy(p, m.data[off:])
	return nil
}

func (m *memory) Size(context.Context, string) (int64, error) { return int64(len(m.data)), nil }
func (m *memory) URI(path string) string                      { return path }

// container makes a file of so many bytes of data and columns with metadata of
// one size, ending in a footer that edit may change.
func container(data, columns, meta int, edit func(footer []byte)) []byte {
	out := make([]byte, data+columns*meta)
	table := len(out)
	for i := range columns {
		out = binary.LittleEndian.AppendUint64(out, uint64(data+i*meta))
		out = binary.LittleEndian.AppendUint64(out, uint64(meta))
	}
	buffers := len(out)
	for _, v := range []int{data, table, buffers} {
		out = binary.LittleEndian.AppendUint64(out, uint64(v))
	}
	out = binary.LittleEndian.AppendUint32(out, 0)
	out = binary.LittleEndian.AppendUint32(out, uint32(columns))
	out = append(out, 2, 0, 2, 0, 'L', 'A', 'N', 'C')
	if edit != nil {
		edit(out[len(out)-footerSize:])
	}
	return out
}

func openBytes(t testing.TB, data []byte, size int64) (*Reader, *memory, error) {
	t.Helper()
	m := &memory{data: data}
	r, err := Open(t.Context(), objstore.Location{Store: m, Path: "f.lance"}, size, Options{})
	return r, m, err
}

func TestFooterErrors(t *testing.T) {
	t.Parallel()
	put64 := func(at int, v uint64) func([]byte) {
		return func(f []byte) { binary.LittleEndian.PutUint64(f[at:], v) }
	}
	put32 := func(at int, v uint32) func([]byte) {
		return func(f []byte) { binary.LittleEndian.PutUint32(f[at:], v) }
	}
	version := func(major, minor uint16) func([]byte) {
		return func(f []byte) {
			binary.LittleEndian.PutUint16(f[32:], major)
			binary.LittleEndian.PutUint16(f[34:], minor)
		}
	}
	legacy := append(make([]byte, 8), 0, 0, 2, 0, 'L', 'A', 'N', 'C')
	for _, c := range []struct {
		name string
		data []byte
		kind fault.Kind
		text string
	}{
		{"format 0.1", legacy, fault.Unsupported, "format 0.1"},
		{"format 0.1 of a long file", container(100, 1, 8, version(0, 2)), fault.Unsupported, "format 0.1"},
		{"format 2.4", container(0, 1, 8, version(2, 4)), fault.Unsupported, "format 2.4"},
		{"format 3.0", container(0, 1, 8, version(3, 0)), fault.Unsupported, "format 3.0"},
		{"magic", container(0, 1, 8, func(f []byte) { f[39] = 'X' }), fault.Corrupt, "f.lance at byte 60: datafile: a Lance file ends with LANC"},
		{"empty", nil, fault.Corrupt, "LANC"},
		{"only a magic", []byte("LANC"), fault.Corrupt, "LANC"},
		{"cut before the positions", container(0, 0, 0, nil)[8:], fault.Corrupt, "a file of 32 bytes"},
		{"column table outside", container(0, 1, 8, put64(8, 1<<40)), fault.Corrupt, "outside the file"},
		{"column table runs into the footer", container(0, 1, 8, put32(28, 2)), fault.Corrupt, "outside the file"},
		{"more columns than bytes", container(0, 1, 8, put32(28, 1<<32-1)), fault.Corrupt, "outside the file"},
		{"buffer table outside", container(0, 1, 8, put64(16, 1<<63)), fault.Corrupt, "outside the file"},
		{"more buffers than bytes", container(0, 1, 8, put32(24, 1<<31)), fault.Corrupt, "outside the file"},
	} {
		_, _, err := openBytes(t, c.data, 0)
		if fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestColumnTableErrors: entries of the column table that lead elsewhere.
func TestColumnTableErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		offset, size uint64
	}{
		{"past the end", 1 << 20, 8},
		{"size past the end", 16, 1 << 40},
		{"sum overflows", 16, 1<<64 - 8},
		{"into the tables", 16, 12},
		{"below what the footer says", 0, 4},
	} {
		data := container(70_000, 1, 8, nil)
		if c.offset == 16 {
			c.offset = 70_000
		}
		binary.LittleEndian.PutUint64(data[70_008:], c.offset)
		binary.LittleEndian.PutUint64(data[70_016:], c.size)
		if _, _, err := openBytes(t, data, 0); fault.KindOf(err) != fault.Corrupt || !strings.Contains(err.Error(), "metadata of column 0") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestOpenCost: one request for small metadata, two for any other, and no
// trust in a size that the manifest got wrong.
func TestOpenCost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		data, columns, meta int
		reads               int64
	}{
		{0, 0, 0, 1}, {1 << 20, 3, 100, 1}, {1 << 20, 30, 10_000, 2}, {0, 3000, 100, 2},
	} {
		data := container(c.data, c.columns, c.meta, nil)
		r, m, err := openBytes(t, data, int64(len(data)))
		if err != nil || m.reads.Load() != c.reads || r.Columns() != c.columns || r.Version() != encoding.V2_2 {
			t.Errorf("%+v: %d reads, %v", c, m.reads.Load(), err)
			continue
		}
		if want := c.columns * c.meta; len(r.meta) != want || r.Size() < int64(want) {
			t.Errorf("%+v: keeps %d bytes, says %d", c, len(r.meta), r.Size())
		}
	}
	data := container(100, 1, 8, nil)
	for _, size := range []int{len(data) - 1, len(data) + 1} {
		if _, _, err := openBytes(t, data, int64(size)); fault.KindOf(err) != fault.Corrupt {
			t.Errorf("size %d of %d: %v", size, len(data), err)
		}
	}
}

func TestJoin(t *testing.T) {
	t.Parallel()
	type list = []encoding.Extent
	e := func(offset, size uint64) encoding.Extent { return encoding.Extent{Offset: offset, Size: size} }
	for _, c := range []struct {
		name    string
		extents list
		want    []joined
	}{
		{"none", nil, nil},
		{"empty ones are not read", list{e(5, 0), e(1<<40, 0)}, nil},
		{"neighbours in any order", list{e(10, 5), e(0, 10)}, []joined{{0, 15, []int{1, 0}}}},
		{"a gap of the limit", list{e(0, 10), e(10+fetchGap, 1)}, []joined{{0, 11 + fetchGap, []int{0, 1}}}},
		{"a gap above it", list{e(0, 10), e(11+fetchGap, 1)}, []joined{{0, 10, []int{0}}, {11 + fetchGap, 12 + fetchGap, []int{1}}}},
		{"overlapping and inside", list{e(0, 100), e(20, 10), e(50, 100)}, []joined{{0, 150, []int{0, 1, 2}}}},
		{"the same twice", list{e(7, 3), e(7, 3)}, []joined{{7, 10, []int{0, 1}}}},
		{"not past the largest read", list{e(0, fetchMax-10), e(fetchMax-5, 6)}, []joined{{0, fetchMax - 10, []int{0}}, {fetchMax - 5, fetchMax + 1, []int{1}}}},
		{"neighbours past the largest read", list{e(0, fetchMax), e(fetchMax, 1)}, []joined{{0, fetchMax, []int{0}}, {fetchMax, fetchMax + 1, []int{1}}}},
		{"one extent of any size", list{e(0, 10*fetchMax)}, []joined{{0, 10 * fetchMax, []int{0}}}},
	} {
		got := join(c.extents)
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(joined{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestFetch: each extent gets its own bytes, and no slice reaches into those of
// the next; released buffers are used again.
func TestFetch(t *testing.T) {
	t.Parallel()
	data := container(1<<20, 1, 8, nil)
	for i := range data[:1<<20] {
		data[i] = byte(i * 7)
	}
	r, m, err := openBytes(t, data, 0)
	if err != nil {
		t.Fatal(err)
	}
	m.reads.Store(0)
	extents := []encoding.Extent{{Offset: 500_000, Size: 40}, {Offset: 3, Size: 5}, {Offset: 9, Size: 0}, {Offset: 8, Size: 5000}}
	for range 3 {
		got, release, err := r.fetch(t.Context(), extents)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range extents {
			if string(got[i]) != string(data[e.Offset:e.Offset+e.Size]) || cap(got[i]) != len(got[i]) {
				t.Errorf("extent %v: %d bytes, room for %d", e, len(got[i]), cap(got[i]))
			}
		}
		release()
	}
	if n := m.reads.Load(); n != 6 {
		t.Errorf("%d reads for 3 times 2", n)
	}
	if _, _, err := r.fetch(t.Context(), []encoding.Extent{{Offset: 1 << 62, Size: 1 << 62}}); fault.KindOf(err) != fault.Corrupt {
		t.Errorf("bytes outside: %v", err)
	}
	for _, n := range []int{0, 1, 4096, 4097, fetchMax, fetchMax + 1} {
		b := takeBuffer(n)
		if len(*b) != n || cap(*b) > max(2*n, 4096) {
			t.Errorf("buffer of %d has %d of %d", n, len(*b), cap(*b))
		}
		giveBuffer(b)
	}
}

func TestCacheEviction(t *testing.T) {
	t.Parallel()
	c := NewCache(100)
	state := func() (held string) {
		for _, k := range []string{"a", "b", "c", "d"} {
			if _, ok := c.items[k]; ok {
				held += k
			}
		}
		return held
	}
	check := func(step, held string, used int64) {
		t.Helper()
		if got := state(); got != held || c.Used() != used || c.order.Len() != len(held) {
			t.Errorf("%s: holds %q with %d bytes, want %q with %d", step, got, c.Used(), held, used)
		}
	}
	c.Put("a", 1, 40)
	c.Put("b", 2, 40)
	check("two fit", "ab", 80)
	if v, ok := c.Get("a"); !ok || v != 1 {
		t.Errorf("a is %v, %v", v, ok)
	}
	c.Put("c", 3, 40)
	check("the one used longest ago goes", "ac", 80)
	c.Put("d", 4, 101)
	check("too large for the whole cache", "ac", 80)
	c.Put("c", 5, 60)
	check("another value of another size", "ac", 100)
	if v, _ := c.Get("c"); v != 5 {
		t.Errorf("c is %v", v)
	}
	c.Put("b", 6, 100)
	check("all go for one", "b", 100)
	if _, ok := c.Get("a"); ok {
		t.Error("a is still there")
	}
}

package storetest

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// replay repeats the random operations of a failure.
var replay = flag.Uint64("storetest.seed", 0, "seed of the random operations on stores; 0 draws one")

// operations is how many of them each store sees.
const operations = 400

// model is what a store should hold, and what it is asked for.
type model struct {
	t       *testing.T
	rand    *rand.Rand
	dir     objstore.Location
	objects map[string][]byte
	open    []*openWriter
	names   []string
	log     []string
}

type openWriter struct {
	name string
	w    objstore.Writer
	data []byte
}

// testRandom does random things to a store and to a map, and compares.
func testRandom(t *testing.T, s suite) {
	seed := *replay
	if seed == 0 {
		seed = rand.Uint64()
	}
	m := &model{
		t: t, rand: rand.New(rand.NewPCG(seed, 1)), dir: s.seed(t, nil).Join("model"), objects: make(map[string][]byte),
		names: s.names("a", "b", "d/a", "d/b", "d/e/a", "d-e/a", "d.lance/a b", "e/é", "e/%41", "f"),
	}
	defer func() {
		for _, o := range m.open {
			o.w.Abort()
		}
		if t.Failed() {
			last := m.log[max(0, len(m.log)-30):]
			t.Logf("replay with -storetest.seed=%d; the last operations were\n%s", seed, strings.Join(last, "\n"))
		}
	}()
	steps := []func(name string){
		m.put, m.put, m.putIfAbsent, m.putIfAbsent, m.remove, m.create, m.create, m.write, m.write, m.write, m.end, m.end,
		m.copy, m.copyRange, m.read, m.readRange, m.size, m.list, m.walk, m.removeAll,
	}
	for range operations {
		step := steps[m.rand.IntN(len(steps))]
		step(m.names[m.rand.IntN(len(m.names))])
		if t.Failed() {
			return
		}
	}
	m.walk("")
	for name := range m.objects {
		m.read(name)
	}
}

func (m *model) note(format string, args ...any) { m.log = append(m.log, fmt.Sprintf(format, args...)) }

func (m *model) bytes() []byte {
	n := m.rand.IntN(2000)
	if m.rand.IntN(30) == 0 {
		n = m.rand.IntN(300_000)
	}
	return Bytes(n, m.rand.Uint64())
}

func (m *model) ok(err error) bool {
	m.t.Helper()
	if err != nil {
		m.t.Errorf("%s: %v", m.log[len(m.log)-1], err)
	}
	return err == nil
}

// kind checks for an error of a kind.
func (m *model) kind(err error, kind fault.Kind) {
	m.t.Helper()
	if err == nil || fault.KindOf(err) != kind {
		m.t.Errorf("%s: %v, want %s", m.log[len(m.log)-1], err, kind)
	}
}

func (m *model) put(name string) {
	data := m.bytes()
	m.note("put %s %d", name, len(data))
	if m.ok(m.dir.Join(name).Put(m.t.Context(), data)) {
		m.objects[name] = data
	}
}

func (m *model) putIfAbsent(name string) {
	data := m.bytes()
	m.note("put if absent %s %d", name, len(data))
	err := m.dir.Join(name).PutIfAbsent(m.t.Context(), data)
	if _, there := m.objects[name]; there {
		m.kind(err, fault.Exists)
	} else if m.ok(err) {
		m.objects[name] = data
	}
}

func (m *model) remove(name string) {
	m.note("delete %s", name)
	if m.ok(m.dir.Join(name).Delete(m.t.Context())) {
		delete(m.objects, name)
	}
}

// removeAll deletes a folder's objects, or removes it as one.
func (m *model) removeAll(name string) {
	folder, _, deep := strings.Cut(name, "/")
	if !deep || m.rand.IntN(3) > 0 {
		return
	}
	for _, o := range m.open {
		if strings.HasPrefix(o.name, folder+"/") {
			return // what becomes of a writer whose folder vanishes is not said
		}
	}
	m.note("remove all of %s", folder)
	err := objstore.RemoveFolder(m.t.Context(), m.dir.Join(folder))
	if fault.KindOf(err) == fault.Unsupported {
		var all []objstore.Location
		for o, err := range objstore.Walk(m.t.Context(), m.dir.Join(folder)) {
			if !m.ok(err) {
				return
			}
			all = append(all, o.Location)
		}
		err = objstore.DeleteAll(m.t.Context(), all)
	}
	if m.ok(err) {
		maps.DeleteFunc(m.objects, func(n string, _ []byte) bool { return strings.HasPrefix(n, folder+"/") })
	}
}

func (m *model) create(name string) {
	if len(m.open) > 5 {
		return
	}
	m.note("create %s", name)
	w, err := m.dir.Join(name).Create(m.t.Context())
	if m.ok(err) {
		m.open = append(m.open, &openWriter{name: name, w: w})
	}
}

func (m *model) write(string) {
	if len(m.open) == 0 {
		return
	}
	o := m.open[m.rand.IntN(len(m.open))]
	data := m.bytes()
	m.note("write %s %d", o.name, len(data))
	n, err := o.w.Write(data)
	if m.ok(err) && n != len(data) {
		m.t.Errorf("%d of %d bytes were written", n, len(data))
	}
	o.data = append(o.data, data...)
}

func (m *model) end(string) {
	if len(m.open) == 0 {
		return
	}
	i := m.rand.IntN(len(m.open))
	o := m.open[i]
	m.open = slices.Delete(m.open, i, i+1)
	if m.rand.IntN(3) == 0 {
		m.note("abort %s", o.name)
		o.w.Abort()
		return
	}
	m.note("commit %s", o.name)
	if m.ok(o.w.Commit(m.t.Context())) {
		m.objects[o.name] = o.data
	}
	o.w.Abort()
}

func (m *model) copy(name string) {
	to := m.names[m.rand.IntN(len(m.names))]
	m.note("copy %s %s", name, to)
	err := objstore.Copy(m.t.Context(), m.dir.Join(name), m.dir.Join(to))
	data, there := m.objects[name]
	if !there {
		m.kind(err, fault.NotFound)
	} else if m.ok(err) {
		m.objects[to] = data
	}
}

func (m *model) copyRange(name string) {
	data, there := m.objects[name]
	if !there {
		return
	}
	to := m.names[m.rand.IntN(len(m.names))]
	off := m.rand.IntN(len(data) + 1)
	n := m.rand.IntN(len(data) - off + 1)
	m.note("copy range %s [%d,+%d) %s", name, off, n, to)
	if m.ok(objstore.CopyRange(m.t.Context(), m.dir.Join(name), int64(off), int64(n), m.dir.Join(to))) {
		m.objects[to] = data[off : off+n]
	}
}

func (m *model) read(name string) {
	m.note("read %s", name)
	got, err := objstore.ReadAll(m.t.Context(), m.dir.Join(name), 1<<30)
	want, there := m.objects[name]
	if !there {
		m.kind(err, fault.NotFound)
	} else if m.ok(err) && !bytes.Equal(got, want) {
		m.t.Errorf("%s holds %d other bytes, want %d", name, len(got), len(want))
	}
}

func (m *model) readRange(name string) {
	want, there := m.objects[name]
	off, n := m.rand.IntN(len(want)+10), 1+m.rand.IntN(len(want)+10)
	m.note("read %s [%d,+%d)", name, off, n)
	p := make([]byte, n)
	err := m.dir.Join(name).ReadAt(m.t.Context(), p, int64(off))
	switch {
	case !there:
		m.kind(err, fault.NotFound)
	case off+n > len(want):
		m.kind(err, fault.Corrupt)
	case m.ok(err) && !bytes.Equal(p, want[off:off+n]):
		m.t.Errorf("%s: other bytes", name)
	}
}

func (m *model) size(name string) {
	m.note("size %s", name)
	got, err := m.dir.Join(name).Size(m.t.Context())
	want, there := m.objects[name]
	if !there {
		m.kind(err, fault.NotFound)
	} else if m.ok(err) && got != int64(len(want)) {
		m.t.Errorf("%s has %d bytes, want %d", name, got, len(want))
	}
}

// list compares the children of the name's folder. Files of open writers, which
// a local store keeps beside the object, are none of them.
func (m *model) list(name string) {
	folder := name[:strings.LastIndexByte(name, '/')+1]
	m.note("list %s", folder)
	seen := make(map[string]bool)
	var want []string
	for n := range m.objects {
		rest, ok := strings.CutPrefix(n, folder)
		if !ok {
			continue
		}
		if child, _, deep := strings.Cut(rest, "/"); deep {
			rest = child + "/"
		}
		if !seen[rest] {
			seen[rest] = true
			want = append(want, rest)
		}
	}
	slices.Sort(want)
	var got []string
	for e, err := range m.dir.Join(folder).List(m.t.Context()) {
		switch {
		case !m.ok(err):
			return
		case strings.HasPrefix(e.Name, objstore.TempPrefix):
		case !e.Dir:
			got = append(got, e.Name)
			if e.Size != int64(len(m.objects[folder+e.Name])) {
				m.t.Errorf("%s%s is listed with %d bytes", folder, e.Name, e.Size)
			}
		case seen[e.Name+"/"] || !m.openIn(folder+e.Name+"/"):
			got = append(got, e.Name+"/")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		m.t.Errorf("list %q (-want +got)\n%s", folder, diff)
	}
}

// openIn reports that a writer is open below a folder.
func (m *model) openIn(folder string) bool {
	return slices.ContainsFunc(m.open, func(o *openWriter) bool { return strings.HasPrefix(o.name, folder) })
}

func (m *model) walk(string) {
	m.note("walk")
	var got []string
	for o, err := range objstore.Walk(m.t.Context(), m.dir) {
		if !m.ok(err) {
			return
		}
		if o.Path != m.dir.Path+"/"+o.Name || o.Entry.Dir {
			m.t.Errorf("%+v", o)
		}
		if name := o.Name[strings.LastIndexByte(o.Name, '/')+1:]; !strings.HasPrefix(name, objstore.TempPrefix) {
			got = append(got, o.Name)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(m.objects)), got); diff != "" {
		m.t.Errorf("walk (-want +got)\n%s", diff)
	}
}

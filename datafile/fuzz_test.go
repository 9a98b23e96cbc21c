package datafile_test

import (
	"context"
	"testing"

	"github.com/flightblob/flightblob/datafile"
	"github.com/flightblob/flightblob/objstore"
)

// FuzzOpen feeds any bytes to the container.
func FuzzOpen(f *testing.F) {
	for _, g := range goldens(f) {
		f.Add(g.data[max(0, len(g.data)-2000):])
	}
	f.Add(append(make([]byte, 12), "\x00\x00\x02\x00LANC"...))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &bytesStore{data: data}
		r, err := datafile.Open(context.Background(), objstore.Location{Store: s, Path: "data.lance"}, int64(len(data)), datafile.Options{})
		if err != nil {
			wellFormed(t, err)
			return
		}
		if r.Columns() > len(data)/16 {
			t.Fatalf("%d columns in %d bytes", r.Columns(), len(data))
		}
	})
}

// FuzzFile reads all columns of damaged files: container, layouts, codecs.
func FuzzFile(f *testing.F) {
	all := goldens(f)
	for i, g := range all {
		f.Add(uint8(i), g.data)
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		_ = all[int(which)%len(all)].readAll(t, data)
	})
}

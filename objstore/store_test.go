package objstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/objstore/storetest"
)

func seedLocal(s objstore.Store) storetest.Seed {
	return func(t *testing.T, objects map[string][]byte) objstore.Location {
		t.Helper()
		dir := realTempDir(t)
		for path, data := range objects {
			writeFile(t, filepath.Join(dir, path), data)
		}
		return objstore.Location{Store: s, Path: dir}
	}
}

func realTempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func seedMem(m *objstore.Mem, as func(objstore.Location) objstore.Location) storetest.Seed {
	var folders atomic.Int64
	return func(t *testing.T, objects map[string][]byte) objstore.Location {
		t.Helper()
		dir := fmt.Sprintf("seed-%d", folders.Add(1))
		for path, data := range objects {
			m.Set(dir+"/"+path, data)
		}
		return as(objstore.Location{Store: m, Path: dir})
	}
}

func wrapped(seed storetest.Seed, c *objstore.Counter) storetest.Seed {
	return func(t *testing.T, objects map[string][]byte) objstore.Location {
		loc := seed(t, objects)
		loc.Store = objstore.Counted(loc.Store, c)
		return objstore.Guard(loc, objstore.NewAccess(loc.String()))
	}
}

func TestStores(t *testing.T) {
	t.Parallel()
	plain := func(l objstore.Location) objstore.Location { return l }
	// One descriptor and one mapping: eviction while in use happens all the time.
	tiny := objstore.NewLocal(objstore.LocalOptions{OpenFiles: 1, Mappings: 1, MappedBytes: 1 << 10})
	local := objstore.NewLocal(objstore.LocalOptions{})
	counter := objstore.NewCounter(objstore.CounterOptions{Ranges: 4})
	for name, seed := range map[string]storetest.Seed{
		"local":                 seedLocal(local),
		"local, tiny caches":    seedLocal(tiny),
		"local, wrapped":        wrapped(seedLocal(local), counter),
		"memory":                seedMem(objstore.NewMem("m"), plain),
		"memory, wrapped":       wrapped(seedMem(objstore.NewMem("m"), plain), counter),
		"local, foreign around": wrapped(seedLocal(foreign{local}), counter),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, seed)
		})
	}
}

// foreign is a store of another room around ours: it lends no bytes and reads
// nothing whole.
type foreign struct{ objstore.Store }

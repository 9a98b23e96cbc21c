package table_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// newTable creates a table of one column and no rows in a folder of its own.
func newTable(t *testing.T, env *table.Env, root objstore.Location) *table.Table {
	t.Helper()
	s, err := schema.FromRecords([]schema.Record{{ID: 0, ParentID: schema.NoParent, Name: "id", LogicalType: "int64", Nullable: true}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tbl := table.New(env, root, "t")
	if _, err := tbl.Commit(t.Context(), "", transaction(0, &manifest.Overwrite{Schema: s}), table.CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	return tbl
}

func transaction(readVersion uint64, op manifest.Operation) *manifest.Transaction {
	return &manifest.Transaction{ReadVersion: readVersion, UUID: uuid.NewString(), Op: op}
}

func setKey(key, value string) *manifest.UpdateConfig {
	return &manifest.UpdateConfig{Config: &manifest.UpdateMap{Entries: []manifest.UpdateEntry{{Key: key, Value: &value}}}}
}

// environment is a process of its own as far as tables go.
func environment(t *testing.T, root string) (*table.Env, objstore.Location) {
	t.Helper()
	registry := objstore.NewRegistry(objstore.Options{})
	t.Cleanup(func() { _ = registry.Close() })
	env := table.NewEnv(registry, objstore.NewAccess(root), table.Limits{})
	loc, err := env.Locate(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	return env, loc.Join("t.lance")
}

func TestCommitsOfManyAtOnceAllWin(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 10
	dir := t.TempDir()
	env, root := environment(t, dir)
	newTable(t, env, root)
	var group sync.WaitGroup
	for w := range writers {
		env, root := env, root
		if w%2 == 1 { // a second environment does not stand in the first one's queue
			env, root = environment(t, dir)
		}
		group.Go(func() {
			tbl := table.New(env, root, "t")
			for i := range each {
				key := fmt.Sprintf("w%d.%d", w, i)
				if _, err := tbl.Commit(t.Context(), "", transaction(1, setKey(key, strconv.Itoa(i))), table.CommitOptions{}); err != nil {
					t.Errorf("writer %d, commit %d: %v", w, i, err)
				}
			}
		})
	}
	group.Wait()
	snapshot, err := table.New(env, root, "t").At(t.Context(), table.Ref{})
	if err != nil {
		t.Fatal(err)
	}
	if got := snapshot.Version(); got != writers*each+1 {
		t.Errorf("version %d, want %d", got, writers*each+1)
	}
	config := snapshot.Manifest().Config
	for w := range writers {
		for i := range each {
			if key := fmt.Sprintf("w%d.%d", w, i); config[key] != strconv.Itoa(i) {
				t.Errorf("config %s = %q, want %d", key, config[key], i)
			}
		}
	}
	if stray := strays(t, root); len(stray) != writers*each+1 {
		t.Errorf("%d transaction files for %d versions", len(stray), writers*each+1)
	}
}

func strays(t *testing.T, root objstore.Location) []string {
	t.Helper()
	var names []string
	for e, err := range root.Join(manifest.TransactionsDir).List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, e.Name)
	}
	return names
}

func TestCommitRefusals(t *testing.T) {
	t.Parallel()
	env, root := environment(t, t.TempDir())
	tbl := newTable(t, env, root)
	if _, err := tbl.Commit(t.Context(), "", transaction(1, setKey("k", "1")), table.CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	s := func() *schema.Schema {
		snapshot, err := tbl.At(t.Context(), table.Ref{})
		if err != nil {
			t.Fatal(err)
		}
		return snapshot.Schema()
	}()
	for _, c := range []struct {
		name string
		tx   *manifest.Transaction
		want fault.Kind
	}{
		{"creation of a table that exists", transaction(0, &manifest.Overwrite{Schema: s}), fault.Exists},
		{"the same key, changed meanwhile", transaction(1, setKey("k", "2")), fault.Conflict},
		{"a version that is not there yet", transaction(9, setKey("n", "2")), fault.Invalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := strays(t, root)
			_, err := tbl.Commit(t.Context(), "", c.tx, table.CommitOptions{})
			if fault.KindOf(err) != c.want {
				t.Errorf("error %v, want kind %v", err, c.want)
			}
			if after := strays(t, root); len(after) != len(before) {
				t.Errorf("transaction files %v, before %v", after, before)
			}
			snapshot, err := tbl.At(t.Context(), table.Ref{})
			if err != nil || snapshot.Version() != 2 {
				t.Errorf("the table is at version %v, %v; want 2", snapshot, err)
			}
		})
	}
}

func TestCommitStopsWithItsContext(t *testing.T) {
	t.Parallel()
	env, root := environment(t, t.TempDir())
	tbl := newTable(t, env, root)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := tbl.Commit(ctx, "", transaction(1, setKey("k", "1")), table.CommitOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

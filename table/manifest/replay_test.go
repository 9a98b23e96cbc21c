package manifest

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
)

// TestApplyAsReference builds every version of the fixtures anew, from the
// version before and the transaction that the reference recorded, and compares
// all but time, writer and index entries with the manifest that the reference
// made of them.
func TestApplyAsReference(t *testing.T) {
	t.Parallel()
	replayed := map[string]int{}
	err := filepath.WalkDir(fixtures, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || d.Name() != VersionsDir {
			return err
		}
		replayTable(t, filepath.Dir(path), replayed)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Append", "Delete", "Overwrite", "Rewrite", "Merge", "Project", "Restore", "ReserveFragments", "Update", "UpdateConfig", "Clone"} {
		if replayed[name] == 0 {
			t.Errorf("no version was made by %s", name)
		}
	}
}

func replayTable(t *testing.T, root string, replayed map[string]int) {
	t.Helper()
	versions := manifestsBelow(t, root)
	for version, want := range versions {
		base := versions[version-1]
		data := read(t, filepath.Join(root, Path(version, V2)))
		tx, err := InlineTransaction(data)
		if err != nil || tx == nil {
			t.Fatalf("%s version %d: %v", root, version, err)
		}
		if _, clone := tx.Op.(*Clone); base == nil && version > 1 && !clone {
			continue // its predecessor was cleaned up
		}
		o := ApplyOptions{Now: want.Timestamp, Writer: want.WriterVersion}
		switch op := tx.Op.(type) {
		case *Overwrite:
			o.Format, o.StableRowIDs = want.DataFormat, want.StableRowIDs()
			// The reference leaves the metadata of the schema out here.
			op.Schema = op.Schema.WithMetadata(want.Schema.Metadata)
		case *Restore:
			if o.Source = versions[op.Version]; o.Source == nil {
				continue
			}
		case *Clone:
			source := filepath.Join(fixtures, strings.TrimPrefix(op.RefPath, "/tmp/flightblob-fixtures/tables"))
			if o.Source = manifestsBelow(t, source)[op.RefVersion]; o.Source == nil {
				t.Fatalf("%s: the clone is of version %d of %s", root, op.RefVersion, source)
			}
			if managed := o.Source.ManagedBlobs(); managed && !op.Shallow {
				continue // objects were copied to new names, and descriptors with them
			}
		}
		got, err := Apply(base, tx, o)
		if err != nil {
			t.Errorf("%s version %d: %v", root, version, err)
			continue
		}
		replayed[tx.Op.Kind().String()]++
		again, err := got.Encode(nil)
		if err != nil {
			t.Fatal(err)
		}
		wanted, _ := bare(t, data)
		made, _ := bare(t, again)
		if !proto.Equal(wanted, made) {
			t.Errorf("%s version %d, %s:\nwant %v\ngot  %v", root, version, tx.Op.Kind(), wanted, made)
		}
	}
}

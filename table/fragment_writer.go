package table

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/datafile"
	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/manifest"
)

// target is where the files of a write go.
type target struct {
	base objstore.Location // what paths of managed objects are relative to
	dir  objstore.Location // of data files (RES-2)
	id   *uint32           // nil for the table's own folder
}

// target finds a base by name or path, the branch's own folder for "".
func (t *Table) target(ctx context.Context, branch string, bases map[uint32]manifest.Base, name string) (target, error) {
	if name == "" {
		root, err := t.line(ctx, branch)
		return target{base: root, dir: root.Join(manifest.DataDir)}, err
	}
	for id, b := range bases {
		if b.Name != name && strings.TrimRight(b.Path, "/") != strings.TrimRight(name, "/") {
			continue
		}
		loc, err := t.env.registry.Locator(t.env.access.With(b.Path))(ctx, b.Path)
		if err != nil {
			return target{}, fmt.Errorf("table: base %q of %s: %w", name, t.name, err)
		}
		found := target{base: loc, dir: loc, id: &id}
		if b.IsDatasetRoot {
			found.dir = loc.Join(manifest.DataDir)
		}
		return found, nil
	}
	return target{}, fault.New(fault.NotFound, "table: %s has no base %q; %s", t.name, name, existing("base", baseNames(bases)))
}

func baseNames(bases map[uint32]manifest.Base) []string {
	var names []string
	for _, b := range bases {
		if b.Name != "" {
			names = append(names, b.Name)
		} else {
			names = append(names, b.Path)
		}
	}
	return names
}

// dataFileName is a new name: a random UUID whose first three bytes are written
// as binary digits, so that object stores spread the load (section 1).
func dataFileName() string {
	id := uuid.New()
	var b strings.Builder
	for _, x := range id[:3] {
		fmt.Fprintf(&b, "%08b", x)
	}
	b.WriteString(hex.EncodeToString(id[3:]))
	return b.String()
}

// fragmentWriter makes one fragment: a data file and the objects of its blobs.
type fragmentWriter struct {
	file     *datafile.Writer
	placer   *blob.Placer
	location objstore.Location
	fragment manifest.Fragment
	rows     uint64
}

func (a *Appender) newFragment(ctx context.Context) (*fragmentWriter, error) {
	w, err := newFragmentWriter(ctx, a.target, a.schema, a.version, a.policy)
	if err != nil {
		return nil, fmt.Errorf("table: write to %s: %w", a.table.name, err)
	}
	return w, nil
}

func newFragmentWriter(ctx context.Context, to target, s *schema.Schema, version encoding.Version, policy blob.Policy) (*fragmentWriter, error) {
	key := dataFileName()
	w := &fragmentWriter{location: to.dir.Join(key + ".lance")}
	sink, err := w.location.Create(ctx)
	if err != nil {
		return nil, err
	}
	if w.file, err = datafile.NewWriter(sink, s, datafile.WriterOptions{Version: version}); err != nil {
		return nil, err
	}
	owner := &blob.Owner{File: w.location, Key: key, Dir: to.dir, Base: to.base, BaseID: to.id, Immutable: true}
	if w.placer, err = blob.NewPlacer(ctx, policy, owner, w.file); err != nil {
		w.file.Abort()
		return nil, err
	}
	w.fragment.Files = []manifest.DataFile{{Path: key + ".lance", BaseID: to.id}}
	return w, nil
}

// write stores the payloads of a batch and then its rows.
func (w *fragmentWriter) write(ctx context.Context, inputs *blob.Inputs, rows int64) error {
	described, err := w.placer.Place(ctx, memory.DefaultAllocator, inputs)
	if err != nil {
		return err
	}
	defer described.Release()
	if err := w.file.Write(ctx, described); err != nil {
		return err
	}
	w.rows += uint64(rows)
	return nil
}

// commit makes payloads and then the data file durable.
func (w *fragmentWriter) commit(ctx context.Context) error {
	if err := w.placer.Commit(ctx); err != nil {
		return err
	}
	sum, err := w.file.Commit(ctx)
	if err != nil {
		return err
	}
	f := &w.fragment.Files[0]
	f.Fields, f.Columns, f.Major, f.Minor, f.Size = sum.Fields, sum.Columns, sum.Major, sum.Minor, uint64(sum.Size)
	w.fragment.PhysicalRows = sum.Rows
	return nil
}

// abort gives up what is not committed; what is, goes too.
func (w *fragmentWriter) abort(ctx context.Context) {
	w.file.Abort()
	w.placer.Abort(ctx)
}

// remove takes back what was committed. What stays after a failure is removed by
// any cleanup.
func (w *fragmentWriter) remove(ctx context.Context) {
	_ = w.location.Delete(ctx)
	w.placer.Abort(ctx)
}

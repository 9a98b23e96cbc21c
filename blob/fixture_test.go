package blob_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/blob/blobtest"
	"github.com/flightblob/flightblob/internal/fault"
)

const fixtures = "../conformance/fixtures/tables"

// TestGolden resolves and reads every value of the golden fixtures and judges
// the bytes by what the reference read.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rules, fixture string
		failing        int // values that must not read, over all snapshots
	}{
		{"RES-3 RES-4 RES-5 DESC-5 NUL-6", "kinds_basic_v22", 0},
		{"RES-3 RES-4", "kinds_basic_v23", 0},
		{"RES-7 NUL-9 NUL-10", "kinds_external_absolute", 0},
		{"RES-8 EXT-5 EXT-10", "external_bases", 0},
		{"RES-8", "external_many", 0},
		{"EXT-12", "external_ingest", 0},
		{"RES-14 REJ-6 EXT-11", "external_missing", 3},
		{"NUL-1 NUL-3", "all_null", 0},
		{"PCK-8", "many_inline", 0},
		{"NUL-11", "nested_v22", 0},
		{"NUL-11", "nested_v23", 0},
		{"RES-6", "columns_share_ids", 0},
		{"PCK-7", "batches_interleave_ids", 0},
		{"PCK-7", "thresholds_odd", 0},
		{"RES-1 RES-6", "fragments_and_deletions", 0},
		{"RES-12", "managed_fresh", 0},
		{"RES-12 RES-13", "managed_lifecycle", 0},
		{"NUL-8 RES-12 RES-13", "managed_prepared", 0},
		{"RES-12 RES-13", "managed_registered_base_root", 0},
		{"RES-2 RES-13", "managed_registered_base_plain", 0},
		{"DESC-8", "managed_optout_compacted", 0},
		{"RES-13 GC-7", "managed_adopted_cleaned", 0},
		{"RES-2", "sidecars_in_bases", 0},
		{"RES-13", "sidecars_in_bases_adopted", 0},
		{"CLN-1 CLN-2 CLN-3 DIFF-2", "clone_shallow", 0},
		{"CLN-1", "clone_of_clone", 0},
		{"CLN-5", "clone_deep", 0},
		{"CLN-6", "branches_managed", 0},
		{"CLN-6", "tags_and_branches", 0},
		{"LEG-9", "legacy_v20", 0},
		{"LEG-9", "legacy_v21", 0},
		{"LEG-6", "legacy_mixed", 0},
		{"RES-1", "column_added_later", 0},
		{"RES-1", "merge_insert_update", 0},
		{"REJ-2 REJ-3 REJ-6 NUL-6 NUL-7 DESC-6", "descriptors_crafted", 5},
	} {
		t.Run(c.rules+" "+c.fixture, func(t *testing.T) {
			t.Parallel()
			g := golden{t: t}
			for _, s := range blobtest.Open(t, fixtures, c.fixture) {
				g.snapshot(s)
			}
			if g.values == 0 {
				t.Error("no value was compared")
			}
			if g.failed != c.failing {
				t.Errorf("%d values failed to read, want %d", g.failed, c.failing)
			}
		})
	}
}

// golden walks the values of snapshots.
type golden struct {
	t              *testing.T
	s              *blobtest.Snapshot
	values, failed int
}

func (g *golden) snapshot(s *blobtest.Snapshot) {
	g.s = s
	for i, row := range s.Rows {
		for _, f := range s.Fields {
			if f.Parent < 0 {
				if d, ok := s.Descriptors[i][f.Name]; ok {
					g.walk(fmt.Sprintf("%s row %d %s", s.Name, i, f.Name), f, s.Fragment(i), d, row[f.Name])
				}
			}
		}
	}
}

func (g *golden) walk(at string, f blobtest.Field, fragment uint64, desc, want any) {
	switch {
	case f.Blob():
		g.value(at, f, fragment, desc, want)
	case desc == nil:
		if want != nil {
			g.t.Errorf("%s: the fixture disagrees with itself", at)
		}
	case strings.Contains(f.Logical, "list"):
		for _, c := range g.children(f) {
			for k, d := range desc.([]any) {
				g.walk(fmt.Sprintf("%s[%d]", at, k), c, fragment, d, want.([]any)[k])
			}
		}
	case f.Logical == "struct":
		for _, c := range g.children(f) {
			if d, ok := desc.(map[string]any)[c.Name]; ok {
				g.walk(at+"."+c.Name, c, fragment, d, want.(map[string]any)[c.Name])
			}
		}
	}
}

func (g *golden) children(f blobtest.Field) (children []blobtest.Field) {
	for _, c := range g.s.Fields {
		if c.Parent == f.ID {
			children = append(children, c)
		}
	}
	return children
}

func (g *golden) value(at string, f blobtest.Field, fragment uint64, desc, want any) {
	g.values++
	d, null := blobtest.Descriptor(desc)
	if null || want == nil {
		if null != (want == nil) {
			g.t.Errorf("%s: null is %t, want %v", at, null, want)
		}
		return
	}
	w := want.(map[string]any)
	data, err := g.read(d, g.s.Owner(fragment, f.ID))
	if w["error"] != nil || err != nil {
		if err == nil || w["error"] == nil {
			g.t.Errorf("%s: error %v, want %v", at, err, w)
		}
		g.failed++
		return
	}
	sum := sha256.Sum256(data)
	if fmt.Sprint(len(data)) != fmt.Sprint(w["len"]) || hex.EncodeToString(sum[:]) != w["sha256"] {
		g.t.Errorf("%s: got %d other bytes, want %v", at, len(data), w)
	}
}

func (g *golden) read(d blob.Descriptor, o *blob.Owner) ([]byte, error) {
	ctx := g.t.Context()
	e, err := g.s.Resolver.Resolve(ctx, d, o)
	if err != nil {
		return nil, err
	}
	if e.Whole {
		n, err := blob.Length(ctx, e)
		if err != nil {
			return nil, err
		}
		e = e.Sized(n)
	}
	if e.Length == 0 {
		return nil, nil
	}
	if e.Length > 1<<20 {
		n, err := e.Object.Size(ctx)
		if err != nil {
			return nil, err
		}
		if e.Length > uint64(n) {
			return nil, fault.New(fault.Corrupt, "%s ends early", e.Object)
		}
	}
	p := make([]byte, e.Length)
	return p, e.Object.ReadAt(ctx, p, int64(e.Offset))
}

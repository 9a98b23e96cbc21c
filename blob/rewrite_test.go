package blob

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/manifest"
)

// source is the data file that stored values come from; its objects lie on the
// desk's store.
func (d *desk) source(dir, base string, id *uint32) *Owner {
	at := func(path string) objstore.Location { return objstore.Location{Store: d.store, Path: path} }
	return &Owner{File: at(dir + "/old.lance"), Key: "old", Dir: at(dir), Base: at(base), BaseID: id, Immutable: true}
}

func number(id uint32) *uint32 { return &id }

// TestRewriteTable is the table of "rewrites per kind": what each kind becomes
// within its table and between tables, with and without the opt-in.
func TestRewriteTable(t *testing.T) {
	t.Parallel()
	bases := basesOf(
		manifest.Base{ID: 0, Path: "mem://desk/clone"}, manifest.Base{ID: 3, Path: "mem://desk/plain"},
		manifest.Base{ID: 4, Path: "mem://desk/root2", IsDatasetRoot: true}, manifest.Base{ID: 9, Path: "mem://desk/ext"},
	)
	const sidecar = "10000000000000000000000000000000.blob"
	type when struct{ managed, same bool }
	within, between := when{true, true}, when{true, false}
	plain := when{false, true}
	copied := func(inline bool) string { return fmt.Sprintf("bytes, inline %v", inline) }
	d := newDesk(t)
	root := d.source("root/data", "root", nil)
	inPlain := d.source("plain", "plain", number(3))
	inRoot2 := d.source("root2/data", "root2", number(4))
	clone := d.source("clone/data", "clone", number(0))
	for _, c := range []struct {
		rule   string
		d      Descriptor
		owner  *Owner
		when   when
		target *uint32 // base of the new data file
		want   string  // kind, id, uri, position and size kept; or bytes; or words of the refusal
	}{
		{"RWR 0 stays inline", Descriptor{Size: 5}, root, within, nil, copied(true)},
		{"RWR 0 between tables", Descriptor{Size: 5}, root, between, nil, copied(false)},
		{"RWR 0 without opt-in", Descriptor{Size: 5}, root, plain, nil, copied(false)},
		{"RWR-3 1 adopted", Descriptor{Kind: Packed, Position: 7, Size: 5, ID: 1}, root, within, nil, "4 id 0 data/old/" + sidecar},
		{"RWR-3 2 adopted", Descriptor{Kind: Dedicated, Size: 5, ID: 1}, root, within, nil, "4 id 0 data/old/" + sidecar},
		{"RWR-3 1 of a plain base", Descriptor{Kind: Packed, Position: 7, Size: 5, ID: 1}, inPlain, within, nil, "5 id 3 old/" + sidecar},
		{"RWR-3 1 of a plain base, written there", Descriptor{Kind: Packed, Size: 5, ID: 1}, inPlain, within, number(3), "4 id 0 old/" + sidecar},
		{"RWR-3 1 of a root base", Descriptor{Kind: Packed, Size: 5, ID: 1}, inRoot2, within, nil, "5 id 4 data/old/" + sidecar},
		{"RWR-3 1 of a clone's source", Descriptor{Kind: Packed, Size: 5, ID: 1}, clone, within, nil, "5 id 0 data/old/" + sidecar},
		{"RWR-5 1 from elsewhere", Descriptor{Kind: Packed, Size: 5, ID: 1}, root, within, number(3), "register a base for the table's folder first"},
		{"RWR-5 4 from elsewhere", Descriptor{Kind: Managed, Size: 5, URI: "_blobs/x"}, root, within, number(3), "register a base for the table's folder first"},
		{"RWR 1 between tables", Descriptor{Kind: Packed, Size: 5, ID: 1}, root, between, nil, copied(false)},
		{"RWR 1 without opt-in", Descriptor{Kind: Packed, Size: 5, ID: 1}, root, plain, nil, copied(false)},
		{"RWR 2 without opt-in", Descriptor{Kind: Dedicated, Size: 5, ID: 1}, root, plain, nil, copied(false)},
		{"RWR 3 kept", Descriptor{Kind: External, Position: 1, Size: 2, URI: "s3://a/b"}, root, within, nil, "3 id 0 s3://a/b"},
		{"RWR 3 kept, id too", Descriptor{Kind: External, Size: 2, ID: 9, URI: "x/y"}, nil, within, nil, "3 id 9 x/y"},
		{"RWR 3 without opt-in", Descriptor{Kind: External, ID: 9, URI: "x/y"}, nil, plain, nil, "3 id 9 x/y"},
		{"DIFF-3 the sentinel with a position", Descriptor{Kind: External, Position: 5, ID: 9, URI: "x/y"}, nil, plain, nil, "3 id 9 x/y"},
		{"RWR 3 between tables, by base", Descriptor{Kind: External, Size: 2, ID: 9, URI: "x y/é"}, nil, between, nil, "3 id 9 x y/é"},
		{"RWR 3 between tables, no base", Descriptor{Kind: External, Position: 5, URI: "s3://a/b%20c"}, nil, between, nil, "3 id 0 s3://a/b%20c"},
		{"RWR 4 kept", Descriptor{Kind: Managed, Position: 1, Size: 5, URI: "_blobs/x"}, root, within, nil, "4 id 0 _blobs/x"},
		{"RWR 4 of a clone's source", Descriptor{Kind: Managed, Size: 5, URI: "_blobs/x"}, clone, within, nil, "5 id 0 _blobs/x"},
		{"RWR 4 of a base", Descriptor{Kind: Managed, Size: 5, URI: "_blobs/x"}, inPlain, within, nil, "5 id 3 _blobs/x"},
		{"RWR 4 without opt-in", Descriptor{Kind: Managed, Size: 5, URI: "_blobs/x"}, root, plain, nil, copied(false)},
		{"RWR 5 kept", Descriptor{Kind: ManagedBase, Size: 5, ID: 3, URI: "_blobs/x"}, nil, within, nil, "5 id 3 _blobs/x"},
		{"RWR 5 without opt-in", Descriptor{Kind: ManagedBase, Size: 5, ID: 3, URI: "_blobs/x"}, nil, plain, nil, copied(false)},
		{"RWR 5 between tables", Descriptor{Kind: ManagedBase, Size: 5, ID: 3, URI: "_blobs/x"}, nil, between, nil, copied(false)},
		{"NUL-7 empty ones need no object", Descriptor{Kind: Packed}, root, within, nil, copied(true)},
		{"NUL-8 empty ones need no object", Descriptor{Kind: ManagedBase, ID: 3, URI: "a"}, nil, within, nil, copied(true)},
		{"ERR-11 an unknown kind", Descriptor{Kind: 6}, root, within, nil, "unknown descriptor kind 6"},
		{"ERR-12 an unknown base", Descriptor{Kind: ManagedBase, ID: 77, URI: "a"}, root, within, nil, "names base 77"},
		{"ERR-13 a bad path", Descriptor{Kind: Managed, URI: "../a"}, root, within, nil, `managed path "../a"`},
	} {
		t.Run(c.rule, func(t *testing.T) {
			d := newDesk(t)
			d.policy.Managed, d.policy.TargetBase, d.policy.Bases = c.when.managed, c.target, bases
			d.owner.BaseID = c.target
			owner := c.owner
			if owner != nil { // on this desk's store
				o := *owner
				o.Dir.Store, o.Base.Store, o.File.Store = d.store, d.store, d.store
				owner = &o
			}
			got, _, err := d.open().rewrite(t.Context(), c.d, Origin{Resolver: NewResolver(bases, d.locate), Owner: owner, Same: c.when.same})
			text := fmt.Sprintf("%d id %d %s", got.d.Kind, got.d.ID, got.d.URI)
			switch {
			case err != nil:
				if !strings.Contains(err.Error(), c.want) || strings.HasPrefix(c.want, "bytes") {
					t.Errorf("%v, want %s", err, c.want)
				}
				return
			case !got.keep:
				text = copied(got.inline)
				if got.from.Length != c.d.Size {
					t.Errorf("%+v", got)
				}
			case got.d.Size != c.d.Size || got.d.Position != c.d.Position:
				t.Errorf("%+v of %+v", got.d, c.d)
			}
			if text != c.want {
				t.Errorf("%s, want %s", text, c.want)
			}
		})
	}
	t.Run("RWR-5 with a base for the table's folder", func(t *testing.T) {
		d := newDesk(t)
		d.policy.Managed, d.policy.TargetBase, d.owner.BaseID = true, number(3), number(3)
		d.policy.Bases = basesOf(bases[3], manifest.Base{ID: 12, Path: "mem://desk/root", IsDatasetRoot: true})
		got, _, err := d.open().rewrite(t.Context(), Descriptor{Kind: Packed, Position: 1, Size: 5, ID: 1},
			Origin{Resolver: NewResolver(bases, d.locate), Owner: d.source("root/data", "root", nil), Same: true})
		if want := (Descriptor{Kind: ManagedBase, Position: 1, Size: 5, ID: 12, URI: "data/old/" + sidecar}); err != nil || got.d != want {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("DIFF-9 the position of a dedicated value means nothing", func(t *testing.T) {
		d := newDesk(t)
		d.policy.Managed = true
		got, _, err := d.open().rewrite(t.Context(), Descriptor{Kind: Dedicated, Position: 1 << 63, Size: 1 << 63, ID: 1},
			Origin{Resolver: NewResolver(nil, d.locate), Owner: d.source("root/data", "root", nil), Same: true})
		if err != nil || got.d.Position != 0 || got.d.Size != 1<<63 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// TestPlaceStored rewrites a column of all kinds and checks that the bytes
// survive.
func TestPlaceStored(t *testing.T) {
	t.Parallel()
	values := [][]byte{payload(10, 1), payload(100, 2), payload(300, 3), payload(50, 4), payload(60, 5), payload(70, 6), {}, nil, payload(5<<20, 8)}
	rows := `[{"b":{"kind":0,"position":64,"size":10,"blob_id":0,"blob_uri":"","source":1}},
		{"b":{"kind":1,"position":20,"size":100,"blob_id":1,"blob_uri":"","source":1}},
		{"b":{"kind":2,"position":0,"size":300,"blob_id":2,"blob_uri":"","source":1}},
		{"b":{"kind":3,"position":5,"size":50,"blob_id":9,"blob_uri":"a/b","source":2}},
		{"b":{"kind":4,"position":6,"size":60,"blob_id":0,"blob_uri":"_blobs/m","source":1}},
		{"b":{"kind":5,"position":7,"size":70,"blob_id":3,"blob_uri":"_blobs/n","source":2}},
		{"b":{"kind":4,"position":0,"size":0,"blob_id":0,"blob_uri":"gone","source":1}},
		{"b":null},
		{"b":{"kind":2,"position":0,"size":5242880,"blob_id":3,"blob_uri":"","source":1}}]`
	bases := basesOf(manifest.Base{ID: 3, Path: "mem://desk/plain"}, manifest.Base{ID: 9, Path: "mem://desk/ext"})
	for _, c := range []struct {
		name          string
		managed, same bool
		want          []string
	}{
		{"within the table, managed", true, true, []string{
			`0 at 0 size 10 id 0 ""`, `4 at 20 size 100 id 0 "data/old/10000000000000000000000000000000.blob"`, `4 at 0 size 300 id 0 "data/old/01000000000000000000000000000000.blob"`,
			`3 at 5 size 50 id 9 "a/b"`, `4 at 6 size 60 id 0 "_blobs/m"`, `5 at 7 size 70 id 3 "_blobs/n"`, `0 at 64 size 0 id 0 ""`, "null",
			`4 at 0 size 5242880 id 0 "data/old/11000000000000000000000000000000.blob"`,
		}},
		{"within the table", false, true, []string{
			`0 at 0 size 10 id 0 ""`, `1 at 0 size 100 id 1 ""`, `2 at 0 size 300 id 2 ""`, `3 at 5 size 50 id 9 "a/b"`,
			`0 at 64 size 60 id 0 ""`, `1 at 100 size 70 id 1 ""`, `0 at 128 size 0 id 0 ""`, "null", `2 at 0 size 5242880 id 3 ""`,
		}},
		{"between tables", false, false, []string{
			`0 at 0 size 10 id 0 ""`, `1 at 0 size 100 id 1 ""`, `2 at 0 size 300 id 2 ""`, `3 at 5 size 50 id 9 "a/b"`,
			`0 at 64 size 60 id 0 ""`, `1 at 100 size 70 id 1 ""`, `0 at 128 size 0 id 0 ""`, "null", `2 at 0 size 5242880 id 3 ""`,
		}},
	} {
		for _, inAny := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, any %v", c.name, inAny), func(t *testing.T) {
				t.Parallel()
				d := newDesk(t)
				d.policy.Managed, d.policy.Bases, d.bases = c.managed, bases, bases
				d.store.Set("root/data/old.lance", append(make([]byte, 64), values[0]...))
				d.store.Set("root/data/old/10000000000000000000000000000000.blob", append(make([]byte, 20), values[1]...))
				d.store.Set("root/data/old/01000000000000000000000000000000.blob", values[2])
				d.store.Set("root/data/old/11000000000000000000000000000000.blob", values[8])
				d.store.Set("ext/a/b", append(make([]byte, 5), values[3]...))
				d.store.Set("root/_blobs/m", append(make([]byte, 6), values[4]...))
				d.store.Set("plain/_blobs/n", append(make([]byte, 7), values[5]...))
				origins := func(source uint32) (Origin, error) {
					o := Origin{Resolver: NewResolver(bases, d.locate), Same: c.same}
					if source == 1 {
						o.Owner = d.source("root/data", "root", nil)
					}
					return o, nil
				}
				s := tableOf(t, limited("b", 64, 128, 400))
				batch := batchOf(t, rows, field("b", schema.ReferenceType))
				if inAny {
					batch = batchOf(t, strings.NewReplacer(`{"b":{`, `{"b":{"stored":{`, `}}`, `}}}`).Replace(rows), field("b", schema.AnyBlobType))
				}
				in, err := AsInputs(s, batch, origins)
				if err != nil {
					t.Fatal(err)
				}
				defer in.Release()
				mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
				defer mem.AssertSize(t, 0)
				got, err := d.open().Place(t.Context(), mem, in)
				if err != nil {
					t.Fatal(err)
				}
				defer got.Release()
				d.commit()
				if diff := cmp.Diff(c.want, shown(t, got.Column(0))); diff != "" {
					t.Error(diff)
				}
				column, err := AsColumn(got.Column(0))
				if err != nil {
					t.Fatal(err)
				}
				for i := range column.Len() {
					v, null, err := column.At(i)
					if err != nil || null != (values[i] == nil) || !null && string(d.read(v)) != string(values[i]) {
						t.Errorf("RWR-2: row %d: %+v, %v", i, v, err)
					}
				}
			})
		}
	}
	t.Run("IN-14 rules for input do not judge what is stored", func(t *testing.T) {
		d := newDesk(t) // a range of size 0 is IN-7 as input
		origins := func(uint32) (Origin, error) {
			return Origin{Resolver: NewResolver(nil, d.locate), Same: true}, nil
		}
		in, err := AsInputs(tableOf(t, blobField("b", whole)), batchOf(t, `[{"b":{"kind":3,"position":20,"size":0,"blob_id":0,"blob_uri":"s3://a/b","source":1}}]`, field("b", schema.ReferenceType)), origins)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Release()
		got, err := d.open().Place(t.Context(), memory.DefaultAllocator, in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{`3 at 20 size 0 id 0 "s3://a/b"`}, shown(t, got.Column(0))); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("RWR-4 no payload is read to adopt one", func(t *testing.T) {
		d := newDesk(t) // nothing is there
		d.policy.Managed, d.policy.Bases = true, bases
		origins := func(uint32) (Origin, error) {
			return Origin{Resolver: NewResolver(bases, d.locate), Owner: d.source("root/data", "root", nil), Same: true}, nil
		}
		in, err := AsInputs(tableOf(t, blobField("b", whole)), batchOf(t, `[{"b":{"kind":1,"position":20,"size":100,"blob_id":1,"blob_uri":"","source":1}}]`, field("b", schema.ReferenceType)), origins)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Release()
		if _, err := d.open().Place(t.Context(), memory.DefaultAllocator, in); err != nil {
			t.Error(err)
		}
	})
	for name, c := range map[string]struct {
		row  string
		t    arrow.DataType
		kind fault.Kind
		want string
	}{
		"a missing object of the table": {`{"kind":1,"position":20,"size":100,"blob_id":1,"blob_uri":"","source":1}`, schema.ReferenceType, fault.Corrupt, "column b, row 0: mem://desk/root/data/old/10000000000000000000000000000000.blob is missing"},
		"an unknown source":             {`{"kind":1,"position":20,"size":100,"blob_id":1,"blob_uri":"","source":5}`, schema.ReferenceType, fault.Internal, "column b, row 0: no source 5"},
		"ERR-11":                        {`{"kind":9,"position":20,"size":100,"blob_id":1,"blob_uri":"","source":1}`, schema.ReferenceType, fault.Corrupt, "column b, row 0: unknown descriptor kind 9"},
		"two at once":                   {`{"data":"YQ==","stored":{"kind":1,"position":20,"size":100,"blob_id":1,"blob_uri":"","source":1}}`, schema.AnyBlobType, fault.Internal, "a reference beside data or uri"},
		"bytes, checked as ever":        {`{"data":"YQ==","uri":"x"}`, schema.AnyBlobType, fault.Invalid, "(IN-1)"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			origins := func(source uint32) (Origin, error) {
				if source == 5 {
					return Origin{}, fault.New(fault.Internal, "no source 5")
				}
				return Origin{Resolver: NewResolver(bases, d.locate), Owner: d.source("root/data", "root", nil)}, nil
			}
			in, err := AsInputs(tableOf(t, blobField("b", whole)), batchOf(t, `[{"b":`+c.row+`}]`, field("b", c.t)), origins)
			if err == nil {
				defer in.Release()
				_, err = d.open().Place(t.Context(), memory.DefaultAllocator, in)
			}
			if err == nil || fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

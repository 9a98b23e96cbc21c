package query_test

import (
	_ "embed"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/query"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/tabletest"
)

//go:embed testdata/alltypes.py
var allTypes string

// whole reads all rows of a reader as one array per column.
func whole(t *testing.T, r array.RecordReader) []arrow.Array {
	t.Helper()
	columns := make([][]arrow.Array, r.Schema().NumFields())
	for r.Next() {
		for i, c := range r.RecordBatch().Columns() {
			c.Retain()
			columns[i] = append(columns[i], c)
		}
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	out := make([]arrow.Array, len(columns))
	for i, parts := range columns {
		if len(parts) == 0 {
			parts = []arrow.Array{array.MakeArrayOfNull(memory.DefaultAllocator, r.Schema().Field(i).Type, 0)}
		}
		var err error
		if out[i], err = array.Concatenate(parts, memory.DefaultAllocator); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// plainArray turns a dictionary array into its values.
func plainArray(t *testing.T, a arrow.Array) arrow.Array {
	t.Helper()
	d, ok := a.(*array.Dictionary)
	if !ok {
		return a
	}
	b := array.NewBuilder(memory.DefaultAllocator, d.Dictionary().DataType())
	for i := range d.Len() {
		if d.IsNull(i) {
			b.AppendNull()
			continue
		}
		if err := b.AppendValueFromString(d.Dictionary().ValueStr(d.GetValueIndex(i))); err != nil {
			t.Fatal(err)
		}
	}
	return b.NewArray()
}

// TestTypesPassThrough checks that columns of every type come out of SQL as they
// are in the table: type, nullability, metadata and values.
func TestTypesPassThrough(t *testing.T) {
	for _, version := range []string{"2.1", "2.2"} {
		t.Run(version, func(t *testing.T) {
			root := t.TempDir()
			tabletest.Pylance(t, allTypes, filepath.Join(root, "t.lance"), version)
			h := &house{tb: t, counter: objstore.NewCounter(objstore.CounterOptions{})}
			h.over([]catalog.Root{{URI: root}}, root)
			scan, err := tabletest.At(t, tabletest.Open(t, tabletest.Env(t, root), filepath.Join(root, "t.lance")), table.Ref{}).
				Scan(t.Context(), table.ScanRequest{})
			if err != nil {
				t.Fatal(err)
			}
			defer scan.Release()
			want := whole(t, scan)
			fields := scan.Schema().Fields()
			for i := range want {
				want[i] = plainArray(t, want[i])
				fields[i].Type = want[i].DataType()
			}
			n := want[0].Len()
			backwards := array.NewInt64Builder(memory.DefaultAllocator)
			for i := range n {
				backwards.Append(int64(n - 1 - i))
			}
			for _, tt := range []struct {
				sql      string
				reversed bool
			}{
				{"select * from t", false},
				{"select * from t order by id desc", true},
				{"with c as (select * from t) select c.* from c join (select id i from t) d on c.id = d.i order by id", false},
				{"select * from (select * from t where id < 2500 union all select * from t where id >= 2500) order by id", false},
			} {
				st, err := h.engine.Prepare(t.Context(), query.Session{}, tt.sql)
				if err != nil {
					t.Fatalf("%s: %v", tt.sql, err)
				}
				defer st.Close()
				r, err := st.Query(t.Context(), query.QueryOptions{View: schema.Materialized, AsPrepared: true})
				if err != nil {
					t.Fatalf("%s: %v", tt.sql, err)
				}
				got := whole(t, r)
				for i, f := range r.Schema().Fields() {
					if !f.Equal(fields[i]) {
						t.Errorf("%s: column %s is %v %s, want %v %s", tt.sql, f.Name, f, f.Metadata, fields[i], fields[i].Metadata)
					}
					if i < len(got) && got[i].Len() != n {
						t.Fatalf("%s: column %s has %d rows, want %d", tt.sql, f.Name, got[i].Len(), n)
					}
					if !tt.reversed && array.Equal(got[i], want[i]) {
						continue
					}
					for row := 0; row < n; row += 1 + row%13 { // a sample: comparing slices is slow
						at := row
						if tt.reversed {
							at = n - 1 - row
						}
						if !array.SliceEqual(got[i], int64(at), int64(at+1), want[i], int64(row), int64(row+1)) {
							t.Errorf("%s: column %s, row %d is %s, want %s", tt.sql, f.Name, row, got[i].ValueStr(at), want[i].ValueStr(row))
							break
						}
					}
				}
				r.Release()
			}
		})
	}
}

// TestTypesInSQL checks what expressions see of the types that SQL does not
// have.
func TestTypesInSQL(t *testing.T) {
	root := t.TempDir()
	tabletest.Pylance(t, allTypes, filepath.Join(root, "t.lance"), "2.2")
	h := &house{tb: t, counter: objstore.NewCounter(objstore.CounterOptions{})}
	h.over([]catalog.Root{{URI: root}}, root)
	for _, tt := range []struct{ sql, want string }{
		{"select f16 + 1 x from t where id = 8", `[{"x":2}`},
		{"select d256 * 2 x from t where id = 4", `[{"x":"2"}`},
		{"select d256wide x, d256wide::double y from t where id = 8", `[{"x":"0.5","y":0.5}`},
		{"select count(*) n from t where tz_ns < '1970-01-01 00:00:01'", `[{"n":857}`},
		{"select du_s + interval '1 day' > du_s x, du_ns // 1000000 y from t where id = 2", `[{"x":true,"y":2}`},
		{"select fsb = '00002'::blob x, octet_length(fsb) y from t where id = 2", `[{"x":true,"y":5}`},
		{"select dict || '!' x from t where id = 1", `[{"x":"green!"}`},
		{"select fsl[2] x, fslh x2, st.h y, lst[1].n z from t where id = 5", `[{"x":5.5,"x2":[1,2],"y":5,"z":"YWI="}`},
		{"select m['k1'] x, map_keys(m) y from t where id = 2", `[{"x":1,"y":["k0","k1"]}`},
		{"select nothing is null x, t32s x2, date64 + 1 y from t where id = 2", `[{"x":true,"x2":"00:00:02","y":"1967-04-10"}`},
	} {
		got := h.query(tt.sql)
		if len(got) < len(tt.want) || got[:len(tt.want)] != tt.want {
			t.Errorf("%s: %s, want %s", tt.sql, got, tt.want)
		}
	}
}

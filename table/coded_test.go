package table_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/tabletest"
)

const codedTable = `
import sys, lance, numpy as np, pyarrow as pa
path, version = sys.argv[1], sys.argv[2]
rng = np.random.default_rng(5)
n = 60_000
def few(k, nulls=False, long=False):
    words = np.array([("a longer word that is no number: " if long else "w") + str(i) + "é" * (i % 3) for i in range(k)])
    return pa.array(words[rng.integers(0, k, n)], mask=rng.random(n) < 0.1 if nulls else None)
t = pa.table({
    "few": few(10),
    "nulls": few(10, nulls=True, long=True),
    "many": few(5000, nulls=True),
    "unique": pa.array([f"row {i}" for i in range(n)]),
    "late": pa.concat_arrays([few(10)[: n // 2], pa.array([f"row {i}" for i in range(n - n // 2)])]),
    "bytes": few(20).cast(pa.binary()),
    "large": few(20, nulls=True).cast(pa.large_string()),
    "none": pa.nulls(n, pa.string()),
    "same": pa.array(["same"] * n),
    "id": pa.array(np.arange(n)),
    "inside": pa.StructArray.from_arrays([few(10)], ["s"]),
})
lance.write_dataset(t, path, data_storage_version=version, max_rows_per_file=40_000)
lance.dataset(path).delete("id % 7 = 3 or id between 30000 and 32000")
`

// columnsOf gives the values of a scan as text by column, and which columns came
// as dictionaries.
func columnsOf(t *testing.T, s *table.Snapshot, req table.ScanRequest) (map[string][]string, map[string]bool) {
	t.Helper()
	scan, err := s.Scan(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	defer scan.Release()
	columns, coded := map[string][]string{}, map[string]bool{}
	for scan.Next() {
		b := scan.RecordBatch()
		for i, c := range b.Columns() {
			name := b.ColumnName(i)
			d, isCoded := c.(*array.Dictionary)
			if isCoded {
				coded[name] = true
				if dt := d.DataType().(*arrow.DictionaryType); d.NullN() != 0 || dt.IndexType.ID() != arrow.UINT32 || !arrow.TypeEqual(dt.ValueType, scan.Schema().Field(i).Type) {
					t.Errorf("%s: a column of %s with %d null indices in one of %s", name, d.DataType(), d.NullN(), scan.Schema().Field(i).Type)
				}
			}
			for k := range c.Len() {
				if isCoded {
					columns[name] = append(columns[name], d.Dictionary().ValueStr(d.GetValueIndex(k)))
					continue
				}
				columns[name] = append(columns[name], c.ValueStr(k))
			}
		}
	}
	if err := scan.Err(); err != nil {
		t.Fatal(err)
	}
	return columns, coded
}

// TestCodedScans compares scans whose text may stay coded with those whose text
// does not, in full and in parts.
func TestCodedScans(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2.0", "2.1", "2.2", "2.3"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "t.lance")
			tabletest.Pylance(t, codedTable, path, version)
			snap := tabletest.At(t, tabletest.Open(t, tabletest.Env(t, filepath.Dir(path)), path), table.Ref{})
			seen := map[string]bool{}
			limit := uint64(20_000)
			for _, req := range []table.ScanRequest{
				{},
				{Offset: 22_222, Limit: &limit},
				{BatchRows: 700, Columns: []string{"few", "nulls", "many", "id"}},
				{Columns: []string{"inside.s", "late", "nulls"}},
				{Columns: []string{"few", "nulls"}, Rows: []uint64{9, 3, 45_000}},
			} {
				want, _ := columnsOf(t, snap, req)
				req.Coded = true
				got, coded := columnsOf(t, snap, req)
				for name, column := range want {
					if !slices.Equal(got[name], column) {
						t.Errorf("%s: %d rows as dictionaries, %d otherwise, or others", name, len(got[name]), len(column))
					}
					seen[name] = seen[name] || coded[name]
				}
				if req.Rows != nil && len(coded) > 0 {
					t.Error("rows by position came as dictionaries")
				}
			}
			for name, is := range seen {
				never := slices.Contains([]string{"unique", "none", "id", "inside", "inside.s"}, name)
				if is && never || version >= "2.2" && slices.Contains([]string{"few", "nulls", "large"}, name) && !is {
					t.Errorf("%s comes as a dictionary: %t", name, is)
				}
			}
		})
	}
}

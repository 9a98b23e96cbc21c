package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// coded makes a dictionary array as batches hold them: the last item is null.
func coded(mem memory.Allocator, values arrow.Array, picks []uint32) arrow.Array {
	b := array.NewUint32Builder(mem)
	defer b.Release()
	b.AppendValues(picks, nil)
	index := b.NewArray()
	defer index.Release()
	return array.NewDictionaryArray(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint32, ValueType: values.DataType()}, index, values)
}

// TestCodedColumns compares statements over columns that come as dictionaries,
// batch by batch others, with the same over plain ones.
func TestCodedColumns(t *testing.T) {
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	defer mem.AssertSize(t, 0)
	db, s := open(t)
	c := connect(t, db)
	rng := rand.New(rand.NewPCG(3, 4))

	schema := arrow.NewSchema([]arrow.Field{
		{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "b", Type: arrow.BinaryTypes.LargeBinary, Nullable: true},
		{Name: "n", Type: arrow.PrimitiveTypes.Uint32, Nullable: true},
	}, nil)
	var plain, mixed []arrow.RecordBatch
	row := uint32(0)
	for round, items := range []int{1, 10, 900, 0, 10, 1500, 5000, 3} { // 0: not coded
		const rows = 6000
		texts, bytes := array.NewStringBuilder(mem), array.NewBinaryBuilder(mem, arrow.BinaryTypes.LargeBinary)
		numbers := array.NewUint32Builder(mem)
		for i := range max(items, 1) - 1 {
			texts.Append(fmt.Sprintf("%s%d", strings.Repeat("é", rng.IntN(9)), i%700)) // some twice, some longer than a word
			bytes.Append([]byte{byte(i), 0, byte(i / 100)})
		}
		texts.AppendNull()
		bytes.AppendNull()
		st, bt := texts.NewArray(), bytes.NewArray()
		var picks []uint32
		for range rows {
			picks = append(picks, uint32(rng.IntN(max(items, 1))))
			numbers.Append(row)
			row++
		}
		texts.Release()
		bytes.Release()
		sc, bc, nc := coded(mem, st, picks), coded(mem, bt, picks), numbers.NewArray()
		numbers.Release()
		from := int64(round * 7)
		slice := func(a arrow.Array) arrow.Array {
			defer a.Release()
			return array.NewSlice(a, from, rows)
		}
		sc, bc, nc = slice(sc), slice(bc), slice(nc)
		sp, bp := flat(mem, sc), flat(mem, bc)
		add := func(to *[]arrow.RecordBatch, columns ...arrow.Array) {
			fields := schema.Fields()
			for i, a := range columns {
				fields[i].Type = a.DataType()
			}
			*to = append(*to, array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, rows-from))
		}
		add(&plain, sp, bp, nc)
		if items == 0 {
			add(&mixed, sp, bp, nc)
		} else {
			add(&mixed, sc, bc, nc)
		}
		for _, a := range []arrow.Array{st, bt, sc, bc, nc, sp, bp} {
			a.Release()
		}
	}
	s.put("plain", 0, plain...)
	s.put("mixed", 0, mixed...)
	s.tables["mixed"].schema = schema
	s.put("narrow", 100, mixed...)
	s.tables["narrow"].schema = schema

	for _, sql := range []string{
		"select n, s, b from T order by n",
		"select s, count(*), count(s), sum(n), min(b) from T group by s order by s",
		"select s, b, count(*) from T group by s, b order by s, b",
		"select upper(s), length(s), count(*) from T where n % 3 = 0 group by all order by all",
		"select distinct s from T order by s",
		"select count(distinct s), count(distinct b), min(s), max(s), approx_count_distinct(s) > 0 from T",
		"select n, s from T where s = 'é7' or b = '\\x05\\x00\\x00'::blob or s is null order by n desc limit 500",
		"select a.n, a.s, z.b from T a join T z on a.s = z.s and a.n + 6000 = z.n order by a.n",
		"select s, list(n order by n)[1:3], string_agg(s, '' order by n)[1:9] from T where n < 20000 group by s order by s",
		"select n, s, lag(s) over (order by n), row_number() over (partition by s order by n) from T where n < 12000 order by n",
		"select coalesce(s, 'none') || '!', case when s < 'é' then s end from T order by n",
		"select * from (select s from T union select 'x' || s from T) order by 1",
		"select n from T where s in (select s from T where n < 50) order by n",
		"select s like '%7', s is null, count(*) from T group by all order by all",
		"select n, struct_pack(x := s), [s, s] from T where n % 97 = 0 order by n",
	} {
		want := query(t, c, strings.ReplaceAll(sql, "T", "shelf('plain')"))
		for _, table := range []string{"mixed", "narrow"} {
			got := query(t, c, strings.ReplaceAll(sql, "T", "shelf('"+table+"')"))
			if !slices.Equal(got, want) {
				for i := range min(len(got), len(want)) {
					if got[i] != want[i] {
						t.Errorf("%s over %s: row %d is %s, want %s", sql, table, i, got[i], want[i])
						break
					}
				}
				t.Errorf("%s over %s: %d rows, want %d", sql, table, len(got), len(want))
			}
		}
	}
	for _, b := range append(plain, mixed...) {
		b.Release()
	}
}

// flat copies the values of a dictionary array.
func flat(mem memory.Allocator, a arrow.Array) arrow.Array {
	d := a.(*array.Dictionary)
	b := array.NewBuilder(mem, d.Dictionary().DataType())
	defer b.Release()
	for i := range d.Len() {
		at := d.GetValueIndex(i)
		switch values := d.Dictionary().(type) {
		case *array.String:
			if values.IsNull(at) {
				b.AppendNull()
				continue
			}
			b.(*array.StringBuilder).Append(values.Value(at))
		case *array.LargeBinary:
			if values.IsNull(at) {
				b.AppendNull()
				continue
			}
			b.(*array.BinaryBuilder).Append(values.Value(at))
		}
	}
	return b.NewArray()
}

// TestPositions checks columns that are no more than the number of a row, over
// batches that are cut and filtered.
func TestPositions(t *testing.T) {
	db, s := open(t)
	c := connect(t, db)
	var batches []arrow.RecordBatch
	at := int64(0)
	for _, n := range []int64{5000, 1, 2500} {
		b := array.NewInt64Builder(memory.DefaultAllocator)
		for range n {
			b.Append(at)
			at++
		}
		batches = append(batches, batch([]string{"a"}, b.NewArray()))
	}
	s.put("t", 700, batches...)
	s.tables["t"].schema = arrow.NewSchema([]arrow.Field{
		{Name: "a", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "p", Type: arrow.PrimitiveTypes.Uint64, Nullable: true, Metadata: PositionMetadata},
		{Name: "q", Type: arrow.PrimitiveTypes.Uint64, Nullable: true, Metadata: PositionMetadata},
	}, nil)
	for _, tt := range []struct{ sql, want string }{
		{"select count(*), count(p), sum(p), max(q) from shelf('t')", "7501|7501|28128750|7500"},
		{"select count(*) from shelf('t') where a = p and p = q", "7501"},
		{"select p, a from shelf('t') where a in (4999, 5000, 7500) order by 1", "4999|4999 5000|5000 7500|7500"},
		{"select q from shelf('t') order by p desc limit 2", "7500 7499"},
	} {
		for _, listed := range []bool{false, true} {
			s.tables["t"].listed = listed
			if got := strings.Join(query(t, c, tt.sql), " "); got != tt.want {
				t.Errorf("%s gives %s, want %s; positions listed: %t", tt.sql, got, tt.want, listed)
			}
		}
	}
}

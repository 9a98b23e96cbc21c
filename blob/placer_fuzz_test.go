package blob

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/validate"
	"github.com/flightblob/flightblob/table/manifest"
)

// modelValue is one element of a logical column, with what lies below a null.
type modelValue struct {
	null           bool
	data, uri      *string
	position, size *uint64
}

// rule is the specification's section on logical input, row by row.
func (v modelValue) rule() string {
	switch ranged := v.position != nil && v.size != nil; {
	case v.null:
		return ""
	case (v.position == nil) != (v.size == nil):
		return "IN-5"
	case ranged && v.uri == nil:
		return "IN-6"
	case (v.data == nil) == (v.uri == nil):
		return "IN-1"
	case v.uri != nil && *v.uri == "":
		return "IN-3"
	case ranged && *v.size == 0:
		return "IN-7"
	case ranged && *v.position+*v.size < *v.position:
		return "IN-8"
	case v.uri != nil && *v.uri == "rel":
		return "EXT-7"
	case v.uri != nil && *v.uri == "mem://other/x":
		return "EXT-6"
	}
	return ""
}

// kind is where the model puts a value of that makes no error.
func (v modelValue) kind(inline, dedicated uint64, managed bool) Kind {
	switch n := uint64(len(*orEmpty(v.data))); {
	case v.uri != nil:
		return External
	case n > dedicated && !managed:
		return Dedicated
	case n > inline && n > 0 && !managed:
		return Packed
	case n > dedicated || n > inline && n > 0:
		return Managed
	}
	return Inline
}

func orEmpty(s *string) *string {
	if s == nil {
		return new(string)
	}
	return s
}

// modelColumn is a flattened blob column below lists and structs.
type modelColumn struct {
	values  []modelValue
	visible []bool
	rows    []int // of the batch
}

// build makes the array of blob values, behind some junk that is cut off.
func (m *modelColumn) build(rng *rand.Rand, ranged bool) arrow.Array {
	lead := rng.IntN(11)
	t := minimal
	if ranged {
		t = whole
	}
	b := array.NewStructBuilder(memory.DefaultAllocator, t)
	defer b.Release()
	optional := func(set bool, append func()) {
		if set {
			append()
		}
	}
	for i := range lead + len(m.values) {
		v := modelValue{}
		if i >= lead {
			v = m.values[i-lead]
		}
		b.Append(true)
		data, uri := b.FieldBuilder(0).(*array.BinaryBuilder), b.FieldBuilder(1).(*array.StringBuilder)
		if v.data != nil {
			data.Append([]byte(*v.data))
		} else {
			data.AppendNull()
		}
		if v.uri != nil {
			uri.Append(*v.uri)
		} else {
			uri.AppendNull()
		}
		optional(ranged, func() {
			for f, n := range map[int]*uint64{2: v.position, 3: v.size} {
				if child := b.FieldBuilder(f).(*array.Uint64Builder); n != nil {
					child.Append(*n)
				} else {
					child.AppendNull()
				}
			}
		})
	}
	a := b.NewArray()
	// Null structs keep what lies below them.
	valid := make([]byte, bitutil.BytesForBits(int64(lead+len(m.values))))
	nulls := 0
	for i, v := range m.values {
		bitutil.SetBitTo(valid, lead+i, !v.null)
		if v.null {
			nulls++
		}
	}
	return array.MakeFromData(array.NewData(t, len(m.values), []*memory.Buffer{memory.NewBufferBytes(valid)}, a.Data().Children(), nulls, lead))
}

// random draws an element; errors are rare.
func (m *modelColumn) random(rng *rand.Rand, ranged, visible bool, row int) {
	text := func(words ...string) *string { w := words[rng.IntN(len(words))]; return &w }
	number := func() *uint64 {
		n := []uint64{0, 1, 2, 77, math.MaxUint64 - 1, math.MaxUint64}[rng.IntN(6)]
		return &n
	}
	var v modelValue
	bytes := func() *string { s := string(payload(rng.IntN(60), rng.IntN(1000))); return &s }
	switch rng.IntN(40) {
	case 0: // anything
		v.null = rng.IntN(2) == 0
		if rng.IntN(2) == 0 {
			v.data = bytes()
		}
		if rng.IntN(2) == 0 {
			v.uri = text("", "rel", "mem://desk/ext/a", "mem://other/x")
		}
		if ranged && rng.IntN(2) == 0 {
			v.position = number()
		}
		if ranged && rng.IntN(2) == 0 {
			v.size = number()
		}
	case 1, 2, 3, 4, 5, 6:
		v.null = true
		v.data, v.uri = bytes(), text("", "mem://other/x")
		if ranged {
			v.size = number()
		}
	case 7, 8, 9, 10, 11, 12, 13:
		v.uri = text("mem://desk/ext/a", "mem://desk/ext/b%20c")
		if ranged && rng.IntN(2) == 0 {
			position, size := rng.Uint64N(100), 1+rng.Uint64N(100)
			v.position, v.size = &position, &size
		}
	default:
		v.data = bytes()
	}
	m.values, m.visible, m.rows = append(m.values, v), append(m.visible, visible), append(m.rows, row)
}

// FuzzPlace compares random batches, at random depths, with the model: which
// element errs first and by which rule, which kind each value becomes, and that
// its bytes are there.
func FuzzPlace(f *testing.F) {
	for i := range uint64(20) {
		f.Add(i, uint8(i))
	}
	f.Fuzz(func(t *testing.T, seed uint64, shape uint8) {
		rng := rand.New(rand.NewPCG(seed, 3))
		ranged := shape&1 != 0
		inline, dedicated := uint64(rng.IntN(30)), uint64(1+rng.IntN(60))
		leaf := limited("b", inline, dedicated, uint64(1+rng.IntN(100)))
		if !ranged {
			leaf.Type = minimal
		}
		m := new(modelColumn)
		n := rng.IntN(30)
		top, column := nestModel(rng, m, leaf, int(shape>>1)%4, n, ranged)
		if err := validate.Array(column); err != nil {
			t.Fatal(err)
		}
		s := tableOf(t, top)
		d := newDesk(t)
		d.policy.Managed = shape&128 != 0
		d.policy.Bases = basesOf(manifest.Base{ID: 2, Path: "mem://desk/ext"})
		batch := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{top}, nil), []arrow.Array{column}, int64(n))
		got, err := d.place(s, batch)
		wantRule, wantRow := "", -1
		// Every value is judged by itself first, then every URI.
		for _, external := range []bool{false, true} {
			for i, v := range m.values {
				if rule := v.rule(); m.visible[i] && rule != "" && wantRule == "" && (rule[:3] == "EXT") == external {
					wantRule, wantRow = rule, m.rows[i]
				}
			}
		}
		if wantRule != "" {
			var bad *InputError
			if !errors.As(err, &bad) || bad.Rule != wantRule || bad.Row != wantRow {
				t.Fatalf("got %v, want %s in row %d", err, wantRule, wantRow)
			}
			if len(d.tree()) > 0 || len(d.file.data) > 0 {
				t.Fatalf("IN-13: stored %v", d.tree())
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		d.commit()
		leaves := leafOf(got.Column(0))
		c, err := AsColumn(leaves)
		if err != nil || c.Len() != len(m.values) {
			t.Fatalf("%d of %d values, %v", c.Len(), len(m.values), err)
		}
		for i, v := range m.values {
			have, null, err := c.At(i)
			if err != nil || null != (v.null || !m.visible[i]) {
				t.Fatalf("value %d: %v, %v", i, null, err)
			}
			if null {
				continue
			}
			if want := v.kind(inline, dedicated, d.policy.Managed); have.Kind != want {
				t.Fatalf("value %d of %d bytes is of kind %d, not %d (inline %d, dedicated %d)", i, len(*orEmpty(v.data)), have.Kind, want, inline, dedicated)
			}
			if v.uri == nil && string(d.read(have)) != *v.data {
				t.Fatalf("value %d: the bytes differ", i)
			}
		}
	})
}

// nestModel builds a column of n rows around blob values.
func nestModel(rng *rand.Rand, m *modelColumn, leaf arrow.Field, depth, n int, ranged bool) (arrow.Field, arrow.Array) {
	nullable := func(n int) ([]byte, int) {
		valid := make([]byte, bitutil.BytesForBits(int64(n)))
		nulls := 0
		for i := range n {
			bitutil.SetBitTo(valid, i, rng.IntN(5) > 0)
			if !bitutil.BitIsSet(valid, i) {
				nulls++
			}
		}
		return valid, nulls
	}
	type level struct {
		valid   []byte
		nulls   int
		offsets []int32 // of lists
		n       int
	}
	rows, visible := make([]int, n), make([]bool, n)
	for i := range n {
		rows[i], visible[i] = i, true
	}
	var levels []level
	for range depth {
		l := level{n: len(rows)}
		l.valid, l.nulls = nullable(l.n)
		var below []int
		var seen []bool
		isList := rng.IntN(2) == 0
		if isList {
			l.offsets = []int32{0}
		}
		for i := range rows {
			k := 1
			if isList {
				k = rng.IntN(4)
				l.offsets = append(l.offsets, l.offsets[i]+int32(k))
			}
			for range k {
				below, seen = append(below, rows[i]), append(seen, visible[i] && bitutil.BitIsSet(l.valid, i))
			}
		}
		levels, rows, visible = append(levels, l), below, seen
	}
	for i := range rows {
		m.random(rng, ranged, visible[i], rows[i])
	}
	f, a := leaf, m.build(rng, ranged)
	for i := len(levels) - 1; i >= 0; i-- {
		l := levels[i]
		valid := memory.NewBufferBytes(l.valid)
		if l.offsets != nil {
			f = field(fmt.Sprint("l", i), list(f))
			a = array.MakeFromData(array.NewData(f.Type, l.n, []*memory.Buffer{valid, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(l.offsets))}, []arrow.ArrayData{a.Data()}, l.nulls, 0))
			continue
		}
		f = field(fmt.Sprint("s", i), structure(f))
		a = array.MakeFromData(array.NewData(f.Type, l.n, []*memory.Buffer{valid}, []arrow.ArrayData{a.Data()}, l.nulls, 0))
	}
	return f, a
}

// leafOf goes down to the descriptors.
func leafOf(a arrow.Array) arrow.Array {
	for {
		switch n := a.(type) {
		case *array.List:
			a = n.ListValues()
		case *array.Struct:
			if n.NumField() == 5 {
				return n
			}
			a = n.Field(0)
		}
	}
}

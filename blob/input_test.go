package blob

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

var (
	mark    = arrow.MetadataFrom(map[string]string{schema.KeyExtensionName: schema.ExtensionBlobV2})
	minimal = arrow.StructOf(schema.AnyBlobType.Fields()[:2]...)
	whole   = arrow.StructOf(schema.AnyBlobType.Fields()[:4]...)
)

func blobField(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true, Metadata: mark}
}

func required(f arrow.Field) arrow.Field {
	f.Nullable = false
	return f
}

func field(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}

func list(f arrow.Field) arrow.DataType { return arrow.ListOfField(f) }

func large(f arrow.Field) arrow.DataType { return arrow.LargeListOfField(f) }

func structure(fields ...arrow.Field) arrow.DataType { return arrow.StructOf(fields...) }

// tableOf gives the field tree of columns, and fills it from an input.
func tableOf(t testing.TB, fields ...arrow.Field) *schema.Schema {
	t.Helper()
	s, err := schema.FromArrow(arrow.NewSchema(fields, nil), schema.FromOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// batchOf reads a batch of JSON rows; data is base64 there.
func batchOf(t testing.TB, rows string, fields ...arrow.Field) arrow.RecordBatch {
	t.Helper()
	batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(fields, nil), strings.NewReader(rows))
	if err != nil {
		t.Fatalf("%s: %v", rows, err)
	}
	return batch
}

// nestings put a blob field into every container, with rows around its values.
var nestings = map[string]struct {
	wrap  func(arrow.Field) arrow.Field
	rows  func(v string) string // v is row 2, in lists with others before it
	place string                // of v
}{
	"top": {
		func(f arrow.Field) arrow.Field { return f },
		func(v string) string { return `[{"b":null},{"b":{"data":""}},{"b":` + v + `}]` },
		"column b, row 2: ",
	},
	"struct": {
		func(f arrow.Field) arrow.Field {
			return field("s", structure(field("x", arrow.PrimitiveTypes.Int8), f))
		},
		func(v string) string { return `[{"s":null},{"s":{"x":1}},{"s":{"b":` + v + `}}]` },
		"column s.b, row 2: ",
	},
	"list": {
		func(f arrow.Field) arrow.Field { return field("l", list(f)) },
		func(v string) string { return `[{"l":[{"data":""},null]},{"l":[]},{"l":[null,` + v + `]}]` },
		"column l.b, row 2, element 1: ",
	},
	"lists": {
		func(f arrow.Field) arrow.Field {
			return field("l", large(field("item", structure(field("m", list(f))))))
		},
		func(v string) string {
			return `[{"l":null},{"l":[]},{"l":[null,{"m":null},{"m":[{"data":""},` + v + `]}]}]`
		},
		"column l.item.m.b, row 2, element 2.1: ",
	},
}

func TestInputRules(t *testing.T) {
	t.Parallel()
	const most = "18446744073709551615"
	cases := map[string]struct {
		value string
		rule  string
		want  string // "" is a valid value
	}{
		"IN-1 data":                     {`{"data":"YQ=="}`, "", ""},
		"IN-1 uri":                      {`{"uri":"file:///a"}`, "", ""},
		"IN-1 both":                     {`{"data":"YWI=","uri":"file:///a"}`, "IN-1", `both data, of 2 bytes, and uri, "file:///a", are set; set one of them`},
		"IN-1 empty data beside uri":    {`{"data":"","uri":"file:///a"}`, "IN-1", "both data, of 0 bytes, and uri"},
		"IN-1 neither":                  {`{}`, "IN-1", "neither data nor uri is set; set one of them, or make the value null"},
		"IN-2 empty data":               {`{"data":""}`, "", ""},
		"IN-3 ERR-2 empty uri":          {`{"uri":""}`, "IN-3", `uri is ""; it must name an object`},
		"IN-4 whole object":             {`{"uri":"file:///a","position":null,"size":null}`, "", ""},
		"IN-5 position alone":           {`{"uri":"file:///a","position":4}`, "IN-5", "position is 4 and size is null; set both or none"},
		"IN-5 size alone":               {`{"uri":"file:///a","size":4}`, "IN-5", "size is 4 and position is null"},
		"IN-5 before all others":        {`{"data":"","uri":"","size":0}`, "IN-5", "size is 0 and position is null"},
		"IN-6 range beside data":        {`{"data":"YQ==","position":0,"size":1}`, "IN-6", "range [position 0, size 1] beside data; ranges select bytes of a uri"},
		"IN-6 range alone":              {`{"position":0,"size":1}`, "IN-6", "range [position 0, size 1] without uri"},
		"IN-7 size 0":                   {`{"uri":"file:///a","position":5,"size":0}`, "IN-7", `range [position 5, size 0] of "file:///a"; size must be positive`},
		"IN-1 before IN-7":              {`{"data":"","uri":"file:///a","position":5,"size":0}`, "IN-1", "both data"},
		"IN-8 the last byte":            {`{"uri":"file:///a","position":18446744073709551614,"size":1}`, "", ""},
		"IN-8 up to 2^64-1":             {`{"uri":"file:///a","position":0,"size":` + most + `}`, "", ""},
		"IN-8 ERR-3 beyond":             {`{"uri":"file:///a","position":` + most + `,"size":2}`, "IN-8", "range [position " + most + `, size 2] of "file:///a" ends beyond 2^64-1`},
		"IN-8 one beyond":               {`{"uri":"file:///a","position":` + most + `,"size":1}`, "IN-8", "ends beyond 2^64-1"},
		"IN-9 a range":                  {`{"uri":"file:///a","position":7,"size":9}`, "", ""},
		"ERR-1 long values are cut":     {`{"data":"","uri":"` + strings.Repeat("x", 5000) + `"}`, "IN-1", strings.Repeat("x", 128) + `"…`},
		"a null":                        {`null`, "", ""},
		"a uri that nobody knows (yet)": {`{"uri":"foo://bar"}`, "", ""},
	}
	for name, c := range cases {
		for where, n := range nestings {
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				input := n.wrap(blobField("b", whole))
				for _, declared := range []arrow.DataType{whole, minimal} { // SCH-10
					s := tableOf(t, n.wrap(blobField("b", declared)))
					rows := n.rows(c.value)
					for lead := range 9 { // slices whose bitmaps start anywhere
						batch := batchOf(t, "["+strings.Repeat("{},", lead)+rows[1:], input).NewSlice(int64(lead), int64(lead+3))
						in, err := AsInputs(s, batch, nil)
						if c.rule == "" {
							if err != nil {
								t.Fatal(err)
							}
							in.Release()
							continue
						}
						var bad *InputError
						if !errors.As(err, &bad) || bad.Rule != c.rule || fault.KindOf(err) != fault.Invalid ||
							!strings.HasPrefix(err.Error(), "blob: "+n.place) || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 1000 {
							t.Fatalf("ERR-1: got %v, want %s%s (%s)", err, n.place, c.want, c.rule)
						}
					}
				}
			})
		}
	}
}

func TestInputMinimalShape(t *testing.T) {
	t.Parallel()
	t.Run("IN-10 no range children are null ones", func(t *testing.T) {
		s := tableOf(t, blobField("b", whole))
		in, err := AsInputs(s, batchOf(t, `[{"b":{"uri":"file:///a"}},{"b":{"data":"YQ=="}},{"b":null}]`, blobField("b", minimal)), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Release()
		if v, err := in.leaves[0].at(0); err != nil || v.ranged || v.form != formURI {
			t.Errorf("%+v, %v", v, err)
		}
	})
	t.Run("SCH-5 a required range takes references only", func(t *testing.T) {
		f := whole.Fields()
		f[2].Nullable, f[3].Nullable = false, false
		ranged := arrow.StructOf(f...)
		s := tableOf(t, blobField("b", ranged))
		if in, err := AsInputs(s, batchOf(t, `[{"b":{"uri":"file:///a","position":1,"size":2}},{"b":null}]`, blobField("b", ranged)), nil); err != nil {
			t.Error(err)
		} else {
			in.Release()
		}
		_, err := AsInputs(s, batchOf(t, `[{"b":{"data":"YQ==","position":0,"size":0}}]`, blobField("b", ranged)), nil)
		if err == nil || !strings.Contains(err.Error(), "(IN-6)") {
			t.Error(err)
		}
	})
	t.Run("plain binary values", func(t *testing.T) {
		for _, dt := range []arrow.DataType{arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeBinary} {
			s := tableOf(t, field("l", list(blobField("b", minimal))))
			in, err := AsInputs(s, batchOf(t, `[{"l":["YQ==","",null]},{"l":null}]`, field("l", list(field("b", dt)))), nil)
			if err != nil {
				t.Fatal(err)
			}
			l := in.leaves[0]
			a, err := l.at(0)
			if err != nil || string(a.data) != "a" || l.isNull(1) || !l.isNull(2) || l.n != 3 {
				t.Errorf("%+v, %v", a, err)
			}
			in.Release()
		}
	})
	t.Run("other types are no input", func(t *testing.T) {
		s := tableOf(t, blobField("b", minimal))
		for _, dt := range []arrow.DataType{arrow.BinaryTypes.String, schema.DescriptorType, schema.ReferenceType, schema.AnyBlobType, arrow.StructOf(whole.Fields()[:3]...)} {
			if _, err := AsInputs(s, batchOf(t, `[{}]`, field("b", dt)), nil); fault.KindOf(err) != fault.Internal {
				t.Errorf("%s: %v", dt, err)
			}
		}
	})
}

func TestInputNullness(t *testing.T) {
	t.Parallel()
	t.Run("IN-12 ERR-19 null in a required field", func(t *testing.T) {
		for where, n := range nestings {
			s := tableOf(t, n.wrap(required(blobField("b", whole))))
			rows := strings.NewReplacer(`[{"b":null},`, `[{"b":{"data":""}},`, `{"x":1}`, `{"x":1,"b":{"data":""}}`, `"l":[{"data":""},null]`, `"l":[{"data":""}]`, `[null,null]`, `[{"data":""},null]`).Replace(n.rows("null"))
			_, err := AsInputs(s, batchOf(t, rows, n.wrap(blobField("b", whole))), nil)
			if want := n.place + "null, but the column must not be null (IN-12)"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %s: %v, want %s", where, rows, err, want)
			}
		}
	})
	t.Run("IN-11 nothing below a null counts", func(t *testing.T) {
		// Every value is bad, and every one is hidden by a null of its own, of
		// its struct, or of its list.
		for where, n := range nestings {
			input := n.wrap(required(blobField("b", whole)))
			batch := hideAll(batchOf(t, n.rows(`{"uri":"","position":9}`), input), input)
			in, err := AsInputs(tableOf(t, input), batch, nil)
			if where == "top" {
				if err == nil || !strings.Contains(err.Error(), "IN-12") {
					t.Errorf("%s: %v", where, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", where, err)
				continue
			}
			in.Release()
		}
		batch := hideAll(batchOf(t, nestings["top"].rows(`{"uri":"","position":9}`), blobField("b", whole)), blobField("b", whole))
		in, err := AsInputs(tableOf(t, blobField("b", whole)), batch, nil)
		if err != nil {
			t.Fatal(err)
		}
		in.Release()
	})
}

// hideAll makes each row of a batch of one column null without touching what
// lies below.
func hideAll(batch arrow.RecordBatch, f arrow.Field) arrow.RecordBatch {
	d := batch.Column(0).Data()
	n := d.Len()
	buffers := append([]*memory.Buffer{memory.NewBufferBytes(make([]byte, n/8+1))}, d.Buffers()[1:]...)
	hidden := array.NewData(d.DataType(), n, buffers, d.Children(), n, 0)
	return array.NewRecordBatch(arrow.NewSchema([]arrow.Field{f}, nil), []arrow.Array{array.MakeFromData(hidden)}, int64(n))
}

func TestInputOrder(t *testing.T) {
	t.Parallel()
	s := tableOf(t, blobField("a", whole), blobField("b", whole))
	batch := batchOf(t, `[{"a":{"data":"YQ=="},"b":{}},{"a":{"data":"YQ=="}},{"a":{"uri":""}}]`, blobField("a", whole), blobField("b", whole))
	_, err := AsInputs(s, batch, nil)
	if want := "blob: column a, row 2"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("IN-13 PCK-4: columns are judged in order: %v", err)
	}
}

func TestInputStream(t *testing.T) {
	t.Parallel()
	fields := []arrow.Field{blobField("b", whole), field("l", list(blobField("item", whole)))}
	s := tableOf(t, fields...)
	in, err := AsInputs(s, batchOf(t, `[{"b":{"data":""},"l":[{"data":""}]},{"b":null}]`, fields...), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Release()
	for name, c := range map[string]struct {
		column string
		row    int
		want   string
	}{
		"a value": {"b", 0, ""},
		"a null":  {"b", 1, "column b, row 1: there is no value to stream"},
		"no row":  {"b", 2, "column b, row 2: there is no value"},
		"a list":  {"l.item", 0, "column l.item lies in a list"},
		"no blob": {"c", 0, "there is no blob column c"},
	} {
		err := in.Stream(c.column, c.row, strings.NewReader("x"), 1)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestInputSlice(t *testing.T) {
	t.Parallel()
	fields := []arrow.Field{limited("b", 0, 100, 1000), field("l", list(blobField("item", whole)))}
	s := tableOf(t, fields...)
	rows := make([]string, 20)
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"b":%s,"l":[null,%s]}`, dataJSON(i, i), dataJSON(i+1, i))
	}
	rows[17] = `{"b":{"uri":"mem://desk/x"},"l":null}`
	in, err := AsInputs(s, batchOf(t, "["+strings.Join(rows, ",")+"]", fields...), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Release()
	if err := in.Stream("b", 6, strings.NewReader("stream"), 6); err != nil {
		t.Fatal(err)
	}
	d := newDesk(t)
	for from := int64(0); from < 15; from += 5 {
		part, err := in.Slice(from, from+5)
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.open().Place(t.Context(), memory.DefaultAllocator, part)
		if err != nil {
			t.Fatal(err)
		}
		c, err := AsColumn(got.Column(0))
		if err != nil || got.NumRows() != 5 {
			t.Fatal(err)
		}
		part.Release()
		for i := range c.Len() {
			v, _, err := c.At(i)
			want := uint64(from) + uint64(i)
			if err != nil || v.Size != want {
				t.Errorf("row %d has %d bytes, %v", want, v.Size, err)
			}
		}
	}
	tail, err := in.Slice(15, 20)
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Release()
	again, err := tail.Slice(1, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Release()
	var bad *InputError
	if _, err := d.open().Place(t.Context(), memory.DefaultAllocator, again); !errors.As(err, &bad) || bad.Row != 17 {
		t.Errorf("the row is that of the whole batch: %v", err)
	}
	d.commit()
}

func TestInputErrorText(t *testing.T) {
	t.Parallel()
	err := &InputError{Field: "a.b", Row: 3, Elements: []int{1, 2}, Rule: "IN-1", Err: fault.New(fault.Denied, "blob: why")}
	if got, want := fmt.Sprint(err), "blob: column a.b, row 3, element 1.2: why (IN-1)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if fault.KindOf(err) != fault.Denied {
		t.Error("the kind of the cause is lost")
	}
}

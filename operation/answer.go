package operation

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
)

// Columns of an answer by their types, for entries of the list.
func textColumn(name string) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.BinaryTypes.String, Nullable: true}
}

func numberColumn(name string) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Uint64, Nullable: true}
}

func boolColumn(name string) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.FixedWidthTypes.Boolean, Nullable: true}
}

// The columns that every answer has around its own.
const (
	columnTable   = "table"
	columnVersion = "version"
	columnReport  = "report"
	columnNotice  = "notice"
)

// Schema is that of the row that the operation answers: table, version, its own
// columns, then report and notice, which are null when there is none.
func (o *Operation) Schema() *arrow.Schema {
	fields := []arrow.Field{
		{Name: columnTable, Type: arrow.BinaryTypes.String},
		{Name: columnVersion, Type: arrow.PrimitiveTypes.Uint64},
	}
	fields = append(fields, o.Answers...)
	return arrow.NewSchema(append(fields, textColumn(columnReport), textColumn(columnNotice)), nil)
}

// values are those of all columns of Schema.
func (o *Operation) values(shown string, a *Answer) []any {
	values := append([]any{shown, a.Version}, a.Values...)
	for _, text := range []string{a.Report, a.Notice} {
		if text == "" {
			values = append(values, nil)
		} else {
			values = append(values, text)
		}
	}
	return values
}

// Record gives the answer as a row of Schema. The caller releases it.
func (o *Operation) Record(shown string, a *Answer) (arrow.RecordBatch, error) {
	b := array.NewRecordBuilder(memory.DefaultAllocator, o.Schema())
	defer b.Release()
	for i, v := range o.values(shown, a) {
		ok := true
		switch to := b.Field(i).(type) {
		case *array.StringBuilder:
			var s string
			if s, ok = v.(string); ok {
				to.Append(s)
			}
		case *array.Uint64Builder:
			var n uint64
			if n, ok = v.(uint64); ok {
				to.Append(n)
			}
		case *array.BooleanBuilder:
			var t bool
			if t, ok = v.(bool); ok {
				to.Append(t)
			}
		}
		switch {
		case v == nil:
			b.Field(i).AppendNull()
		case !ok:
			return nil, fault.New(fault.Internal, "%s answers %T in column %s", o.Name, v, b.Schema().Field(i).Name)
		}
	}
	return b.NewRecordBatch(), nil
}

// JSON gives the answer as an object with the keys of Schema, in order; what is
// null is left out.
func (o *Operation) JSON(shown string, a *Answer) (json.RawMessage, error) {
	columns := o.Schema().Fields()
	out := []byte{'{'}
	for i, v := range o.values(shown, a) {
		if v == nil {
			continue
		}
		value, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Name, err)
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, "%q:", columns[i].Name)
		out = append(out, value...)
	}
	return append(out, '}'), nil
}

// Lines gives the answer for a terminal: the report, or a line for each value.
func (o *Operation) Lines(shown string, a *Answer) string {
	var b strings.Builder
	values := a.Values
	if a.Report != "" {
		values = nil
	} else {
		fmt.Fprintf(&b, "%s: version %d\n", shown, a.Version)
	}
	for i, v := range values {
		if v == nil {
			continue
		}
		fmt.Fprintf(&b, "  %s: %v\n", strings.ReplaceAll(o.Answers[i].Name, "_", " "), v)
	}
	for _, text := range []string{a.Report, a.Notice} {
		if text != "" {
			b.WriteString(strings.TrimRight(text, "\n") + "\n")
		}
	}
	return b.String()
}

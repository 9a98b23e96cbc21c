package query

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/spelling"
	"github.com/flightblob/flightblob/operation"
	"github.com/flightblob/flightblob/query/statement"
	"github.com/flightblob/flightblob/table"
)

// calling is a CALL of an operation.
type calling struct {
	operation *operation.Operation
	table     statement.Literal
	args      operation.Args
	open      []openArgument // arguments whose values are bound
}

// openArgument is an argument that is a parameter of the statement.
type openArgument struct {
	name  string // "" for the table
	param int    // from 1
}

// prepareCall checks CALL operation('t', value, name := value).
func (c *Change) prepareCall(ctx context.Context) error {
	call := c.text.Call
	o := operation.Find(call.Function)
	if o == nil {
		what := fmt.Sprintf("there is no operation %q", call.Function)
		if near := spelling.Nearest(call.Function, operation.Names(), 1, 3); len(near) > 0 {
			what += fmt.Sprintf("; do you mean %s?", near[0])
		}
		return c.text.ErrorAt(c.text.Main, "%s; CALL knows %s", what, strings.Join(operation.Names(), ", "))
	}
	k := &calling{operation: o, args: operation.Args{}}
	for i, a := range call.Args {
		if err := c.argument(ctx, k, i, a); err != nil {
			return err
		}
	}
	if k.table.Kind == 0 {
		return c.text.ErrorAt(c.text.Main, "%s needs a table: %s", o.Name, example(o))
	}
	c.params = openParams(c.text)
	for _, a := range k.open {
		if p, ok := o.Param(a.name); ok {
			c.params[a.param-1].Type = parameterTypes[p.Kind]
			c.params[a.param-1].Open = false
		}
	}
	if len(k.open) == 0 { // otherwise the values decide
		if err := o.Check(k.args); err != nil {
			return c.text.ErrorAt(c.text.Main, "%s; for example %s", err, example(o))
		}
		if _, _, err := c.callee(ctx, k.table.Text); err != nil {
			return err
		}
	}
	c.answers = o.Schema()
	c.do = func(ctx context.Context, c *Change, params []arrow.RecordBatch) (Outcome, error) {
		return c.runCall(ctx, k, params)
	}
	return nil
}

// parameterTypes are how parameters of CALL are announced.
var parameterTypes = map[operation.Kind]arrow.DataType{
	operation.Text: arrow.BinaryTypes.String, operation.Number: arrow.PrimitiveTypes.Int64, operation.Version: arrow.PrimitiveTypes.Int64,
	operation.Fraction: arrow.PrimitiveTypes.Float64, operation.Bool: arrow.FixedWidthTypes.Boolean,
	operation.Duration: arrow.BinaryTypes.String,
}

// argument takes one argument of CALL.
func (c *Change) argument(ctx context.Context, k *calling, i int, a statement.Argument) error {
	o, name := k.operation, a.Name
	switch {
	case name == "table" || name == "" && i == 0:
		if k.table.Kind != 0 {
			return c.text.ErrorAt(a.Span, "%s: table is given twice", o.Name)
		}
		if a.Value.Kind == statement.Bound {
			k.open = append(k.open, openArgument{"", a.Value.Param})
		} else if a.Value.Kind != statement.String || a.Value.Text == "" {
			return c.text.ErrorAt(a.Span, "%s: the table is a name in quotes: %s", o.Name, example(o))
		}
		k.table = a.Value
		return nil
	case name == "" && i > o.Positional:
		return c.text.ErrorAt(a.Span, "%s takes %s without a name; write name := value, as in %s",
			o.Name, spelling.Count(o.Positional+1, "argument"), example(o))
	case name == "":
		name = o.Params[i-1].Name
	}
	if a.Value.Kind == statement.Bound {
		if _, ok := o.Param(name); ok && !k.args.Has(name) {
			k.open = append(k.open, openArgument{name, a.Value.Param})
			return nil
		}
	}
	value, err := c.literalValue(ctx, a.Value)
	if err == nil && value == nil {
		return nil // NULL: not given
	}
	if err == nil {
		err = o.Set(k.args, name, value)
	}
	if err != nil {
		return c.text.ErrorAt(a.Span, "%s", err)
	}
	return nil
}

// literalValue gives a literal as operations take it.
func (c *Change) literalValue(ctx context.Context, l statement.Literal) (any, error) {
	switch l.Kind {
	case statement.Null:
		return nil, nil
	case statement.Bool:
		return l.Bool, nil
	case statement.Typed:
		if l.Type == "INTERVAL" {
			return c.interval(ctx, l.Span.Of(c.text.Text))
		}
	}
	return l.Text, nil
}

// interval computes a length of time; a month has 30 days.
func (c *Change) interval(ctx context.Context, text string) (any, error) {
	s, err := c.engine.Prepare(ctx, c.session, "SELECT epoch_us("+text+")")
	if err != nil {
		return nil, err
	}
	defer s.Close()
	rows, err := s.Query(ctx, QueryOptions{})
	if err != nil {
		return nil, err
	}
	defer rows.Release()
	if !rows.Next() {
		return nil, fault.New(fault.Invalid, "%s is no length of time", text)
	}
	us := rows.RecordBatch().Column(0).(*array.Int64).Value(0)
	if us < 0 || us > int64(1<<63-1)/int64(time.Microsecond) {
		return nil, fault.New(fault.Invalid, "%s is no length of time that has passed", text)
	}
	return time.Duration(us) * time.Microsecond, nil
}

// example is a call that shows how an operation is written.
func example(o *operation.Operation) string {
	text := "CALL " + o.Name + "('t'"
	for i, p := range o.Params {
		switch {
		case i < o.Positional:
			text += ", '…'"
		case p.Required:
			text += ", " + p.Name + " := …"
		}
	}
	return text + ")"
}

// callee finds the table of a CALL and what the answer calls it.
func (c *Change) callee(ctx context.Context, text string) (name catalog.Name, t *table.Table, err error) {
	err = c.scope(ctx, func(r *run) error {
		if name, err = r.find(text); err != nil {
			return err
		}
		t, err = c.engine.cat.Table(ctx, name)
		return err
	})
	return name, t, err
}

// runCall carries the operation out, once.
func (c *Change) runCall(ctx context.Context, k *calling, params []arrow.RecordBatch) (Outcome, error) {
	text, args := k.table.Text, operation.Args{}
	for name, value := range k.args {
		args[name] = value
	}
	if len(k.open) > 0 {
		if len(params) != 1 || params[0].NumRows() != 1 {
			return Outcome{}, fault.New(fault.Invalid, "CALL %s takes one row of values", k.operation.Name)
		}
	}
	for _, a := range k.open {
		value, err := boundValue(params[0].Column(a.param - 1))
		switch {
		case err != nil:
			return Outcome{}, fmt.Errorf("%s: parameter %d: %w", k.operation.Name, a.param, err)
		case a.name == "":
			text, _ = value.(string)
		case value != nil:
			if err := k.operation.Set(args, a.name, value); err != nil {
				return Outcome{}, err
			}
		}
	}
	name, t, err := c.callee(ctx, text)
	if err != nil {
		return Outcome{}, err
	}
	if err := k.operation.On(c.session.Branch, args); err != nil {
		return Outcome{}, err
	}
	call := &operation.Call{Catalog: c.engine.cat, Table: t, Name: name, Shown: name.String(), Args: args, Folds: true}
	done, err := k.operation.Do(ctx, call)
	if err != nil {
		return Outcome{}, err
	}
	row, err := k.operation.Record(call.Shown, done)
	return Outcome{Version: done.Version, Notice: done.Notice, Answer: row}, err
}

// boundValue gives the one value of a bound column as operations take it.
func boundValue(a arrow.Array) (any, error) {
	if a.IsNull(0) || a.DataType().ID() == arrow.NULL { // such an array has no bitmap
		return nil, nil
	}
	switch a := a.(type) {
	case *array.String:
		return strings.Clone(a.Value(0)), nil
	case *array.LargeString:
		return strings.Clone(a.Value(0)), nil
	case *array.Boolean:
		return a.Value(0), nil
	case *array.Duration:
		return time.Duration(a.Value(0)) * a.DataType().(*arrow.DurationType).Unit.Multiplier(), nil
	}
	switch a.DataType().ID() {
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32, arrow.UINT64, arrow.FLOAT32, arrow.FLOAT64:
		return a.ValueStr(0), nil
	}
	return nil, fault.New(fault.Invalid, "a value of type %s is not taken; bind text, a number, true or false", a.DataType())
}

package query

import (
	"context"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/spelling"
	"github.com/flightblob/flightblob/query/engine"
)

// What is bound to a statement decides about its types. A parameter of which the
// engine knows nothing is cast to the type that its value has, as is one whose
// value would be lost in the type that the engine takes it for: an id compared
// with 1.25 is not compared with 1. So one text has as many plans as there are
// types of its values. Where values themselves decide, as the version of a table
// does about its columns, they are written into the text.

// keep holds another form of the statement until it is closed.
func (s *Statement) keep(key string, other *Statement) {
	if s.others == nil {
		s.others = map[string]*Statement{}
	}
	s.others[key] = other
}

// with prepares the statement with casts around some of its parameters, over the
// same versions.
func (s *Statement) with(ctx context.Context, casts []string, latest bool) (*Statement, error) {
	other := &Statement{engine: s.engine, session: s.session, text: s.text, into: s.into, casts: casts}
	other.session.Pins = s.plan.pins
	edits := s.text.Numbered()
	if latest {
		other.numbers = s.renumber(edits)
	}
	for n, p := range s.text.Params {
		if to := casts[p.Index-1]; to != "" {
			edits[n].Text = " CAST(" + edits[n].Text + " AS " + to + ") "
		}
	}
	if err := other.begin(ctx, edits, latest); err != nil {
		return nil, err
	}
	return other, nil
}

// Bind sets all parameters from a row of a record, column by column; a record
// whose columns have the names of the parameters is matched by name. Row -1 sets
// their types only: then the statement has a schema, and runs on nothing.
func (s *Statement) Bind(ctx context.Context, rec arrow.RecordBatch, row int) error {
	if int(rec.NumCols()) != len(s.params) {
		return fault.New(fault.Invalid, "query: %s for the %s of the statement",
			spelling.Count(rec.NumCols(), "value"), spelling.Count(len(s.params), "parameter"))
	}
	if row < -1 || int64(row) >= rec.NumRows() {
		return fault.New(fault.Invalid, "query: the parameters have no row %d", row)
	}
	ctx, cancel := s.engine.withTimeout(ctx)
	defer cancel()
	s.bound = nil
	casts, binding := make([]string, len(s.params)), make([]any, len(s.params))
	columns := make([]arrow.Array, len(s.params))
	for i, p := range s.params {
		at := i
		if found := rec.Schema().FieldIndices(p.Name); len(found) == 1 {
			at = found[0]
		}
		columns[i] = rec.Column(at)
		var err error
		if row >= 0 {
			binding[i], err = paramValue(columns[i], row)
		}
		if err == nil {
			casts[i], err = s.castOf(i, columns[i].DataType(), binding[i])
		}
		if err != nil {
			return fault.New(fault.Invalid, "query: parameter %s, row %d: %w", p.Name, max(row, 0), err)
		}
	}
	to, err := s.typed(ctx, casts)
	if err != nil {
		return err
	}
	if to.plan.unknown && row >= 0 {
		if to, err = s.fill(ctx, columns, row); err != nil {
			return err
		}
	} else {
		to.binding = binding
	}
	s.bound = to
	return nil
}

// typed is the statement for values of some types.
func (s *Statement) typed(ctx context.Context, casts []string) (*Statement, error) {
	if !slices.ContainsFunc(casts, func(c string) bool { return c != "" }) {
		return s, nil
	}
	key := strings.Join(casts, "\x00")
	if other := s.others[key]; other != nil {
		return other, nil
	}
	other, err := s.with(ctx, casts, false)
	if err != nil {
		return nil, err
	}
	s.keep(key, other)
	return other, nil
}

// fill prepares the statement with its values in the place of its parameters.
func (s *Statement) fill(ctx context.Context, columns []arrow.Array, row int) (*Statement, error) {
	edits := s.text.Numbered()
	for n, p := range s.text.Params {
		text, err := paramLiteral(columns[p.Index-1], row)
		if err != nil {
			return nil, fault.New(fault.Invalid, "query: parameter %s, row %d: %w", s.params[p.Index-1].Name, row, err)
		}
		edits[n].Text = " " + text + " "
	}
	other := &Statement{engine: s.engine, session: s.session, text: s.text, into: s.into}
	other.session.Pins = s.plan.pins
	if err := other.begin(ctx, edits, false); err != nil {
		return nil, err
	}
	if s.filled != nil {
		s.filled.Close()
	}
	s.filled = other
	return other, nil
}

// castOf is the type that a parameter must be cast to for a value, "" when the
// engine takes it for one that has it.
func (s *Statement) castOf(i int, bound arrow.DataType, value any) (string, error) {
	inferred := s.inferred[i]
	if bound.ID() == arrow.NULL {
		switch {
		case !inferred.Unknown():
			return "", nil
		case s.guesses != nil:
			return s.guesses[i], nil
		}
		return "", nil
	}
	name, err := castName(bound)
	if err != nil {
		return "", err
	}
	if inferred.Unknown() || !has(inferred, bound, name, value) {
		return name, nil
	}
	return "", nil
}

// has says that a parameter of a type takes a value of an Arrow type, which SQL
// calls name. Text becomes what it is taken for.
func has(t *engine.Type, bound arrow.DataType, name string, value any) bool {
	if t.IsReference() {
		return false
	}
	if name == "VARCHAR" || t.String() == name {
		return true
	}
	if (t.ID == engine.TypeTimestampNS || t.ID == engine.TypeTimestampTZ) && bound.ID() == arrow.TIMESTAMP {
		return true // the engine does not compare the two with each other
	}
	if arrow.IsInteger(bound.ID()) {
		negative, n := false, uint64(0)
		switch v := value.(type) {
		case int64:
			negative, n = v < 0, uint64(v)
		case uint64:
			n = v
		}
		if engine.Fits(t.ID, negative, n) {
			return true
		}
	}
	return slices.Contains(widerTypes[t.ID], bound.ID())
}

// widerTypes are the types whose values a type of the engine has all of, besides
// whole numbers in whole numbers.
var widerTypes = map[engine.TypeID][]arrow.Type{
	engine.TypeDouble:      {arrow.FLOAT16, arrow.FLOAT32, arrow.INT8, arrow.INT16, arrow.INT32, arrow.UINT8, arrow.UINT16, arrow.UINT32},
	engine.TypeFloat:       {arrow.FLOAT16},
	engine.TypeTimestamp:   {arrow.DATE32, arrow.DATE64},
	engine.TypeTimestampTZ: {arrow.DATE32, arrow.DATE64},
}

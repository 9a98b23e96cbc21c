package query

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/query/statement"
)

// describeParams names the parameters and finds types for those that are open.
func (s *Statement) describeParams(ctx context.Context) error {
	n := s.text.ParamCount()
	s.params, s.inferred = make([]Param, n), make([]*engine.Type, n)
	for i := range s.params {
		s.params[i] = Param{Name: strconv.Itoa(i + 1), Type: arrow.Null, Open: true}
		s.inferred[i] = &engine.Type{}
	}
	for _, p := range s.text.Params {
		if p.Name != "" {
			s.params[p.Index-1].Name = p.Name
		}
	}
	for i, t := range s.paramTypes() {
		if t != nil {
			s.inferred[i] = t
			s.params[i].Type, s.params[i].Open = paramType(t), false
		}
	}
	for _, at := range s.text.Ats {
		if at.Literal.Kind == statement.Bound {
			p := &s.params[at.Literal.Param-1]
			p.Type, p.Open = arrow.PrimitiveTypes.Int64, true
			if at.Unit == statement.AtTimestamp {
				p.Type = paramTypes[engine.TypeTimestampTZ]
			}
		}
	}
	if s.plan.unknown {
		return s.guess(ctx)
	}
	for i, p := range s.params {
		if p.Open { // nothing depends on it
			s.params[i].Type = arrow.BinaryTypes.String
		}
	}
	return nil
}

// guessed is the key of the statement with the types that were guessed.
const guessed = "?"

// guesses are the types that are tried on open parameters, in this order: who is
// told of one should lose nothing by sending it.
var guesses = []string{"VARCHAR", "DOUBLE", "BIGINT", "BLOB", "TIMESTAMP", "BOOLEAN", "DATE", "TIMESTAMP WITH TIME ZONE", "INTERVAL"}

// mostGuesses is how often a statement is planned to find types for its parameters.
const mostGuesses = 100

// guess looks for types with which the statement can be planned. When there are
// none, the values must come first. Where planning fails, the engine says at
// which call or operator: the parameters there get the next types.
func (s *Statement) guess(ctx context.Context) error {
	next := s.likely() // of guesses, by parameter
	latest := slices.ContainsFunc(s.text.Ats, func(at statement.At) bool { return holdsParam(s.text, at) })
	for range mostGuesses {
		casts := make([]string, len(s.params))
		for i, t := range s.inferred {
			if t.Unknown() {
				casts[i] = guesses[next[i]]
			}
		}
		other, err := s.with(ctx, casts, latest)
		if err == nil {
			if other.plan.unknown {
				other.Close()
				return nil
			}
			return s.peel(ctx, casts, other, latest)
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		var at *statement.Error
		if !errors.As(err, &at) || !s.turn(next, s.openAt(at.Offset)) {
			return nil
		}
	}
	return nil
}

// peel takes those casts away that the engine does without: with the types of
// all others, it knows that of the parameter itself.
func (s *Statement) peel(ctx context.Context, casts []string, planned *Statement, latest bool) error {
	for i, c := range casts {
		if c == "" {
			continue
		}
		fewer := slices.Clone(casts)
		fewer[i] = ""
		other, err := s.with(ctx, fewer, latest)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				planned.Close()
				return cause
			}
			s.announce(i, typeNamed(c))
			continue
		}
		if t := other.paramTypes()[i]; !other.plan.unknown && t != nil {
			s.inferred[i], s.params[i] = t, Param{Name: s.params[i].Name, Type: paramType(t)}
			planned.Close()
			casts, planned = fewer, other
			continue
		}
		other.Close()
		s.announce(i, typeNamed(c))
	}
	if latest { // the version decides about the result
		planned.Close()
		return nil
	}
	s.guesses = casts
	s.keep(guessed, planned)
	return nil
}

// announce gives an open parameter a type, unless it has one by its place.
func (s *Statement) announce(i int, t arrow.DataType) {
	if s.params[i].Type.ID() == arrow.NULL {
		s.params[i].Type = t
	}
}

// renumber gives the parameters outside of AT clauses numbers without a gap, and
// tells which have which.
func (s *Statement) renumber(edits []statement.Edit) (numbers []int) {
	for n, p := range s.text.Params {
		if slices.ContainsFunc(s.text.Ats, func(at statement.At) bool { return at.Value.Contains(p.Span) }) {
			continue
		}
		number := slices.Index(numbers, p.Index)
		if number < 0 {
			number = len(numbers)
			numbers = append(numbers, p.Index)
		}
		edits[n].Text = " $" + strconv.Itoa(number+1) + " "
	}
	return numbers
}

// paramTypes are the types of the parameters that the engine knows.
func (s *Statement) paramTypes() []*engine.Type {
	types := make([]*engine.Type, s.text.ParamCount())
	for _, f := range s.plan.prepared.Params() {
		i, err := strconv.Atoi(f.Name)
		if err == nil && s.numbers != nil && i >= 1 && i <= len(s.numbers) {
			i = s.numbers[i-1]
		}
		if err == nil && i >= 1 && i <= len(types) && !f.Type.Unknown() {
			types[i-1] = f.Type
		}
	}
	return types
}

// turn gives the next types to some parameters, all combinations in turn.
func (s *Statement) turn(next, params []int) bool {
	for _, i := range params {
		if next[i]++; next[i] < len(guesses) {
			return true
		}
		next[i] = 0
	}
	return false
}

// openAt finds the open parameters that a call or operator at a place of the
// text takes: those in the brackets behind it, else the nearest on either side.
func (s *Statement) openAt(offset int) []int {
	text := s.text.Text
	end := offset
	for end < len(text) && (text[end] == '_' || text[end] == '.' || text[end] >= '0' && text[end] <= '9' || text[end]|0x20 >= 'a' && text[end]|0x20 <= 'z') {
		end++
	}
	inside := statement.Span{}
	if end > offset && end < len(text) && text[end] == '(' {
		inside = statement.Span{Start: end, End: end + 1 + closing(text[end+1:])}
	}
	var in []int
	left, right := -1, -1
	for _, p := range s.text.Params {
		i := p.Index - 1
		switch {
		case !s.inferred[i].Unknown():
		case inside.Contains(p.Span):
			in = append(in, i)
		case p.Span.Start >= offset && right < 0:
			right = i
		case p.Span.Start < offset:
			left = i
		}
	}
	if len(in) > 0 {
		return in
	}
	for _, i := range []int{right, left} {
		if i >= 0 {
			in = append(in, i)
		}
	}
	return in
}

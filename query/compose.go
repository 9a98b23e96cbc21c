package query

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/query/statement"
)

// compose writes the text that the engine runs: with other parameters, by number
// in the order in which clients count, and calls of lance_scan in the place of AT clauses. What a clause computes is computed
// here, so that the same version is read whenever the text is planned again.
//
// latest leaves out AT clauses with parameters, to find out what the rest of the
// statement takes them for.
func (r *run) compose(ctx context.Context, s *statement.Statement, params []statement.Edit, latest bool) (string, []statement.Edit, error) {
	edits := slices.Clone(params)
	for _, name := range s.Arguments {
		edits = append(edits, statement.Edit{Span: name, Text: engine.Quote(name.Of(s.Text))})
	}
	for _, at := range s.Ats {
		if latest && holdsParam(s, at) {
			edits = append(edits, statement.Edit{Span: at.Span})
			continue
		}
		value, err := statement.RewriteSpan(s.Text, at.Value, params...)
		if err == nil && (at.Literal.Kind == 0 || at.Literal.Kind == statement.Bound) {
			value, err = r.evaluate(ctx, s, at, value)
		}
		if err != nil {
			return "", nil, statement.Place(s.Text, at.Value.Start, err)
		}
		argument := "version"
		if at.Unit == statement.AtTimestamp {
			argument, value = `"timestamp"`, "CAST("+value+" AS VARCHAR)"
		}
		edits = append(edits, at.Replace(s.Text, "lance_scan("+literal(at.Table.String())+", "+argument+" := "+value+")"))
	}
	sql, err := statement.RewriteSpan(s.Text, s.Span, edits...)
	return sql, edits, err
}

func holdsParam(s *statement.Statement, at statement.At) bool {
	return slices.ContainsFunc(s.Params, func(p statement.Param) bool { return at.Value.Contains(p.Span) })
}

// evaluate computes what stands in an AT clause, unless it waits for values.
func (r *run) evaluate(ctx context.Context, s *statement.Statement, at statement.At, value string) (string, error) {
	where := "AT (" + at.Unit.String() + " => …)"
	if holdsParam(s, at) && strings.Contains(value, "$") {
		return value, nil
	}
	named, err := r.parse(ctx, "SELECT (\n"+value+"\n)")
	switch {
	case err != nil:
		return "", fault.New(fault.KindOf(err), "%s: %w", where, err)
	case len(named.tables) > 0 || named.catalog:
		return "", fault.New(fault.Invalid, "query: %s takes an expression over constants and parameters, no subquery: %q", where, at.Value.Of(s.Text))
	}
	to := "VARCHAR"
	if at.Unit == statement.AtVersion {
		to = "UBIGINT"
	}
	text, err := r.conn.Text(ctx, "SELECT CAST(CAST((\n"+value+"\n) AS "+to+") AS VARCHAR)")
	if err != nil {
		return "", fault.New(fault.KindOf(err), "%s: %w", where, err)
	}
	if text == "" {
		return "", fault.New(fault.Invalid, "query: %s is NULL or empty", where)
	}
	return literal(text), nil
}

// place says where in the text as it was given an error of the engine is.
func (s *Statement) place(err error) error {
	var p *engine.Placed
	var at *statement.Error
	if !errors.As(err, &p) || errors.As(err, &at) {
		return err
	}
	return statement.Place(s.text.Text, statement.Origin(s.text.Text, s.text.Span, p.Offset, s.edits...), err)
}

// name gives columns the names that they have without the casts of bound types,
// and with the names of parameters.
func (s *Statement) name(columns []resultColumn) {
	for i := range columns {
		if c := &columns[i]; c.passed == nil && strings.Contains(c.reference.Name, "$") {
			c.reference.Name = s.renamed(c.reference.Name)
		}
	}
}

func (s *Statement) renamed(name string) string {
	var out strings.Builder
	for {
		i := strings.IndexByte(name, '$')
		if i < 0 {
			break
		}
		end := i + 1
		for end < len(name) && name[end] >= '0' && name[end] <= '9' {
			end++
		}
		number, err := strconv.Atoi(name[i+1 : end])
		if err != nil || number < 1 || number > s.text.ParamCount() {
			out.WriteString(name[:end])
			name = name[end:]
			continue
		}
		if s.casts != nil && s.casts[number-1] != "" {
			name, i, end = uncast(name, i, end)
		}
		out.WriteString(name[:i+1])
		out.WriteString(s.nameOf(number))
		name = name[end:]
	}
	out.WriteString(name)
	return out.String()
}

// uncast takes a cast from around what is in name[i:end].
func uncast(name string, i, end int) (string, int, int) {
	before, found := strings.CutSuffix(name[:i], "CAST(")
	if n := closing(name[end:]); found && n > 0 {
		return before + name[i:end] + name[end+n:], len(before), len(before) + end - i
	}
	return name, i, end
}

// nameOf is a parameter's name as the text has it.
func (s *Statement) nameOf(number int) string {
	for _, p := range s.text.Params {
		if p.Index == number && p.Name != "" {
			return p.Name
		}
	}
	return strconv.Itoa(number)
}

// closing is where the bracket is closed behind which text begins, 0 if nowhere.
func closing(text string) int {
	depth, quoted := 0, byte(0)
	for i := range len(text) {
		switch c := text[i]; {
		case quoted != 0:
			if c == quoted {
				quoted = 0
			}
		case c == '"' || c == '\'':
			quoted = c
		case c == '(':
			depth++
		case c == ')' && depth == 0:
			return i + 1
		case c == ')':
			depth--
		}
	}
	return 0
}

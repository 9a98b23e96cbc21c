package query

import (
	"errors"
	"regexp"
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/statement"
)

// derived is the text of a query that is made of parts of a statement. It knows
// where they come from, so that errors show the place in what was sent.
type derived struct {
	of    *statement.Statement
	edits []statement.Edit // parameters as the engine counts them
	text  strings.Builder
	parts []derivedPart // the parts that were kept, ascending
	err   error
}

type derivedPart struct {
	at     int // in the new text
	size   int
	from   statement.Span
	stands bool // other text than that of from
}

// derive begins a query with the WITH clause of the statement, if it has one.
func (c *Change) derive() *derived {
	d := &derived{of: c.text, edits: c.text.Numbered()}
	if !c.text.With.Empty() {
		d.keep(c.text.With)
		d.add(" ")
	}
	return d
}

// add appends text that the statement does not have.
func (d *derived) add(text string) { d.text.WriteString(text) }

// keep appends a part of the statement.
func (d *derived) keep(s statement.Span) {
	text, err := statement.RewriteSpan(d.of.Text, s, d.edits...)
	if err != nil {
		d.err = errors.Join(d.err, err)
		return
	}
	d.parts = append(d.parts, derivedPart{at: d.text.Len(), size: len(text), from: s})
	d.text.WriteString(text)
}

// stand appends text in which errors are about a part of the statement.
func (d *derived) stand(text string, s statement.Span) {
	d.parts = append(d.parts, derivedPart{at: d.text.Len(), size: len(text), from: s, stands: true})
	d.text.WriteString(text)
}

// embed appends another query made of the same statement.
func (d *derived) embed(inner *derived) {
	for _, p := range inner.parts {
		p.at += d.text.Len()
		d.parts = append(d.parts, p)
	}
	d.text.WriteString(inner.String())
	d.err = errors.Join(d.err, inner.err)
}

// String is the query.
func (d *derived) String() string { return d.text.String() }

// place moves the place of an error from the query to the statement: what was
// added stands for the table that is written.
func (d *derived) place(err error) error {
	var at *statement.Error
	if !errors.As(err, &at) {
		return err
	}
	offset := d.of.Target.Span().Start
	for _, p := range d.parts {
		switch {
		case at.Offset < p.at || at.Offset >= p.at+max(p.size, 1):
		case p.stands:
			offset = p.from.Start
		default:
			offset = statement.Origin(d.of.Text, p.from, at.Offset-p.at, d.edits...)
		}
	}
	cause := at.Err
	if text := cause.Error(); sourceColumn.MatchString(text) {
		cause = fault.New(fault.KindOf(cause), "%s", sourceColumn.ReplaceAllString(text, ""))
	}
	return statement.Place(d.of.Text, offset, cause)
}

// sourceColumn is what the engine says of a column that only the query has.
var sourceColumn = regexp.MustCompile(` when casting from source column c\d+`)

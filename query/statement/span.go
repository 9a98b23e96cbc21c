package statement

import (
	"slices"
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
)

// Span is the half-open byte range [Start, End) of a text. The zero Span is
// empty and stands for an absent clause.
type Span struct{ Start, End int }

// Empty says whether the span holds no bytes, so that the clause is absent.
func (s Span) Empty() bool { return s.End <= s.Start }

// Len is the number of bytes.
func (s Span) Len() int { return s.End - s.Start }

// Of slices text. A span that does not lie within text gives "".
func (s Span) Of(text string) string {
	if s.Start < 0 || s.End < s.Start || s.End > len(text) {
		return ""
	}
	return text[s.Start:s.End]
}

// Contains says whether inner lies within s.
func (s Span) Contains(inner Span) bool { return s.Start <= inner.Start && inner.End <= s.End }

// Edit replaces the bytes of a span by other text; an empty span inserts.
type Edit struct {
	Span Span
	Text string
}

// Rewrite applies edits to text and keeps every other byte. Edits may come in
// any order; overlapping ones, and spans outside text, are fault.Internal.
// Insertions at one place keep the order in which they were given.
func Rewrite(text string, edits ...Edit) (string, error) {
	sorted := slices.Clone(edits)
	slices.SortStableFunc(sorted, func(a, b Edit) int { return a.Span.Start - b.Span.Start })
	var out strings.Builder
	at := 0
	for _, e := range sorted {
		if e.Span.Start < at || e.Span.End < e.Span.Start || e.Span.End > len(text) {
			return "", fault.New(fault.Internal, "statement: edit of bytes %d to %d overlaps another or leaves the text of %d bytes",
				e.Span.Start, e.Span.End, len(text))
		}
		out.WriteString(text[at:e.Span.Start])
		out.WriteString(e.Text)
		at = e.Span.End
	}
	out.WriteString(text[at:])
	return out.String(), nil
}

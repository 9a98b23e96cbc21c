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
// any order. One that lies within the span of another goes with the text that it
// was to change; insertions at one place keep the order in which they were given.
// Edits that overlap otherwise, or leave text, are fault.Internal.
func Rewrite(text string, edits ...Edit) (string, error) {
	return RewriteSpan(text, Span{0, len(text)}, edits...)
}

// RewriteSpan is Rewrite for a slice of text: edits outside span are left out,
// one that crosses its border is fault.Internal.
func RewriteSpan(text string, span Span, edits ...Edit) (string, error) {
	sorted := slices.Clone(edits)
	slices.SortStableFunc(sorted, func(a, b Edit) int {
		if a.Span.Start != b.Span.Start {
			return a.Span.Start - b.Span.Start
		}
		return b.Span.End - a.Span.End
	})
	if span.Start < 0 || span.End < span.Start || span.End > len(text) {
		return "", fault.New(fault.Internal, "statement: bytes %d to %d do not lie in the text of %d bytes", span.Start, span.End, len(text))
	}
	var out strings.Builder
	at := span.Start
	for _, e := range sorted {
		switch {
		case e.Span.Start < 0 || e.Span.End < e.Span.Start || e.Span.End > len(text):
			return "", fault.New(fault.Internal, "statement: edit of bytes %d to %d leaves the text of %d bytes", e.Span.Start, e.Span.End, len(text))
		case e.Span.End < span.Start || e.Span.Start > span.End,
			e.Span.Len() > 0 && (e.Span.End == span.Start || e.Span.Start == span.End):
			continue
		case !span.Contains(e.Span):
			return "", fault.New(fault.Internal, "statement: edit of bytes %d to %d crosses the slice of bytes %d to %d", e.Span.Start, e.Span.End, span.Start, span.End)
		case e.Span.Start < at && e.Span.End <= at:
			continue
		case e.Span.Start < at:
			return "", fault.New(fault.Internal, "statement: edit of bytes %d to %d overlaps the one before it", e.Span.Start, e.Span.End)
		}
		out.WriteString(text[at:e.Span.Start])
		out.WriteString(e.Text)
		at = e.Span.End
	}
	out.WriteString(text[at:span.End])
	return out.String(), nil
}

// Origin is the byte of text that a byte of RewriteSpan's result comes from: the
// same one where it was kept, and the place of the edit where it was not.
func Origin(text string, span Span, offset int, edits ...Edit) int {
	sorted := slices.Clone(edits)
	slices.SortStableFunc(sorted, func(a, b Edit) int {
		if a.Span.Start != b.Span.Start {
			return a.Span.Start - b.Span.Start
		}
		return b.Span.End - a.Span.End
	})
	at, made := span.Start, 0 // where both texts stand
	for _, e := range sorted {
		if !span.Contains(e.Span) || e.Span.Start < at {
			continue
		}
		kept := made + e.Span.Start - at
		if offset < kept {
			break
		}
		if offset < kept+len(e.Text) {
			return e.Span.Start
		}
		made, at = kept+len(e.Text), e.Span.End
	}
	return min(max(at+offset-made, 0), len(text))
}

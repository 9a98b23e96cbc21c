package statement

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/flightblob/flightblob/internal/cells"
	"github.com/flightblob/flightblob/internal/fault"
)

// Error is a refused or malformed statement with the place where it shows. It
// unwraps to a *fault.Error: fault.Invalid, or fault.Exhausted for a text that
// is over a limit of this package.
type Error struct {
	Offset int // byte offset in the text, at most its length
	Line   int // line of Offset, from 1
	Column int // characters before Offset in its line, plus 1
	Err    error
}

// Error gives place, what was seen and what to do, in one line.
func (e *Error) Error() string {
	return fmt.Sprintf("statement: line %d, column %d: %v", e.Line, e.Column, e.Err)
}

// Unwrap gives the *fault.Error.
func (e *Error) Unwrap() error { return e.Err }

// Caret renders the line of text that holds the place, and below it a caret.
// Both take at most so many cells of a terminal; a longer line is cut to the
// neighbourhood. Tabs and what cannot be printed are shown as one blank. Text is
// the one that was parsed.
func (e *Error) Caret(text string, width int) string {
	at := min(max(e.Offset, 0), len(text))
	start := strings.LastIndexAny(text[:at], "\r\n") + 1
	end := len(text)
	if i := strings.IndexAny(text[at:], "\r\n"); i >= 0 {
		end = at + i
	}
	line, before := cells.Around(text[start:end], at-start, width)
	return line + "\n" + strings.Repeat(" ", before) + "^"
}

// fail makes an Error at a byte offset of text.
func fail(kind fault.Kind, text string, offset int, format string, args ...any) error {
	return Place(text, offset, fault.New(kind, "%s", cutTo(fmt.Sprintf(format, args...), longest)))
}

// Place puts an error, which unwraps to a *fault.Error, at a byte offset of text.
func Place(text string, offset int, err error) *Error {
	offset = min(max(offset, 0), len(text))
	head := text[:offset]
	start := strings.LastIndexByte(head, '\n') + 1
	return &Error{
		Offset: offset,
		Line:   1 + strings.Count(head, "\n"),
		Column: 1 + utf8.RuneCountInString(head[start:]),
		Err:    err,
	}
}

// ErrorAt makes an *Error of kind fault.Invalid at a place of the statement, for
// what only those find out who know the tables.
func (s *Statement) ErrorAt(at Span, format string, args ...any) error {
	return fail(fault.Invalid, s.Text, at.Start, format, args...)
}

// longest bounds an error's text in bytes, whatever the statement was made of:
// with its place it still fits into what the front door sends.
const longest = 1900

// shown cuts a piece of the text for an error.
func shown(s string) string { return cutTo(s, 60) }

// cutTo cuts s to about most bytes, at the border of a character.
func cutTo(s string, most int) string {
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

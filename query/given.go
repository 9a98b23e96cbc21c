package query

import (
	"regexp"
	"slices"
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/reference"
)

// A statement that writes gives values that no table holds: objects by their
// URIs (blob_ref), and what is bound to parameters of blob columns. Inside the
// engine they are references like those of stored values, with a number that
// says where to find them; what reads blob values refuses them, and what writes
// takes them as the input that they are.

// gifts are what a statement that writes may give; a session without them is one
// of queries.
type gifts struct {
	bound *boundRows // of all parameters at once, nil when they are bound by the engine
}

// errNoGift is the refusal of blob_ref in a query.
var errNoGift = fault.New(fault.Invalid, "blob_ref makes a value for a blob column that is written, and stands in INSERT, UPDATE and MERGE only; "+
	"write it into a table and read the column: blob_uri, blob_size and blob_range take that")

// GivenBy implements engine.Giver.
func (e *Engine) GivenBy(conn uint64) (uint32, error) {
	e.mu.Lock()
	r := e.runs[conn]
	e.mu.Unlock()
	if r == nil || r.session.gifts == nil {
		return 0, errNoGift
	}
	return r.give("uri", givenURI), nil
}

// givenURI reads what blob_ref made.
func givenURI(v reference.Value) reference.Given {
	return reference.Given{
		URI: v.URI, Named: true,
		HasPosition: v.Nulls&2 == 0, Position: v.Position,
		HasSize: v.Nulls&4 == 0, Size: v.Size,
	}
}

// give gives the number of values of one sort that the statement gives.
func (r *run) give(sort string, given func(reference.Value) reference.Given) uint32 {
	key := sourceKey{nil, sort}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n, ok := r.sources[key]; ok {
		return n
	}
	n := r.engine.registry.Add(&reference.Origin{Context: r.ctx, Fail: r.fail, Given: given})
	if r.sources != nil { // not closed meanwhile
		r.sources[key] = n
	}
	return n
}

// refCall is how a call of blob_ref begins.
var refCall = regexp.MustCompile(`(?i)\bblob_ref\s*\(`)

// likely are the guesses to begin with, by parameter: text, but whole numbers in
// the places of blob_ref that take some. There are too many combinations of three
// parameters to try them all.
func (s *Statement) likely() []int {
	next := make([]int, len(s.params))
	text := s.text.Text
	for _, call := range refCall.FindAllStringIndex(text, -1) {
		end := call[1] + closing(text[call[1]:])
		for _, p := range s.text.Params {
			if p.Span.Start >= call[1] && p.Span.End <= end && strings.Contains(text[call[1]:p.Span.Start], ",") {
				next[p.Index-1] = slices.Index(guesses, "BIGINT")
			}
		}
	}
	return next
}

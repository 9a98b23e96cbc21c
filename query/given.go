package query

import (
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

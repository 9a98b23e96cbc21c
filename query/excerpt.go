package query

import (
	"context"
	"strconv"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/table"
)

// excerptFunction is what queries over some rows of a version read, by the number
// of the excerpt in the session; no statement may call it.
const excerptFunction = "flightblob_rows"

// excerpt is some rows of a version, which a query made of a statement that writes
// reads as if they were a table.
type excerpt struct {
	snapshot *table.Snapshot
	rows     uint64
	// requests begins a list of scans that give the rows one after the other,
	// without Columns; each call of what it answers gives the next, nil at the end.
	requests func() func(context.Context) (*table.ScanRequest, error)
}

// fragmentsOf is an excerpt of whole fragments, those that want says, in scan
// order.
func fragmentsOf(s *table.Snapshot, want func(id uint64) bool) *excerpt {
	var spans []span
	first := uint64(0)
	for _, f := range s.Fragments() {
		if want(f.ID) {
			spans = append(spans, span{first, f.Rows})
		}
		first += f.Rows
	}
	return spansOf(s, spans)
}

// span is an interval of positions in scan order.
type span struct{ first, rows uint64 }

// spansOf is an excerpt of intervals, ascending.
func spansOf(s *table.Snapshot, spans []span) *excerpt {
	x := &excerpt{snapshot: s}
	var joined []span
	for _, next := range spans {
		x.rows += next.rows
		switch n := len(joined); {
		case next.rows == 0:
		case n > 0 && joined[n-1].first+joined[n-1].rows == next.first:
			joined[n-1].rows += next.rows
		default:
			joined = append(joined, next)
		}
	}
	x.requests = func() func(context.Context) (*table.ScanRequest, error) {
		rest := joined
		return func(context.Context) (*table.ScanRequest, error) {
			if len(rest) == 0 {
				return nil, nil
			}
			next := rest[0]
			rest = rest[1:]
			return &table.ScanRequest{Offset: next.first, Limit: &next.rows}, nil
		}
	}
	return x
}

// excerptCall writes the call that reads excerpt n of a session.
func excerptCall(n int, rowIDs bool) string {
	call := excerptFunction + "(" + literal(strconv.Itoa(n))
	if rowIDs {
		call += ", row_ids := true"
	}
	return call + ")"
}

// excerpted is the relation of a call of excerptFunction.
func (r *run) excerpted(call engine.Call) (engine.Relation, error) {
	n, err := strconv.Atoi(call.Args[0])
	if err != nil || n < 0 || n >= len(r.session.excerpts) {
		return nil, fault.New(fault.Internal, "query: %s outside of a write", excerptFunction)
	}
	x := r.session.excerpts[n]
	rel, err := r.newRelation(x.snapshot, false, call.Named["row_ids"] == "true")
	if err != nil {
		return nil, err
	}
	rel.excerpt, rel.call = x, callKey(call.Function, call.Args, call.Named)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.relations[rel.call] = rel
	return rel, nil
}

package flightsvc

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table"
)

// writeMerge makes the rows of a stream one version, in which they come in the
// place of those with the same key.
func (s *Server) writeMerge(ctx context.Context, c *putCommand, rows array.RecordReader) (done putAnswer, snapshot *table.Snapshot, err error) {
	t, err := s.cat.Table(ctx, c.name)
	if err != nil {
		return done, nil, err
	}
	if err := haveColumns(rows.Schema(), c.blobColumns); err != nil {
		return done, nil, err
	}
	keys := &keyRoom{puts: s.puts}
	defer keys.leave()
	u, err := t.Upsert(ctx, c.branch, rows.Schema(), table.UpsertOptions{WriteOptions: c.options, On: c.on, Hold: keys.hold})
	if err != nil {
		return done, nil, err
	}
	defer u.Abort()
	if err := s.writeRows(ctx, rows, u); err != nil {
		return done, nil, err
	}
	done.Rows = u.Rows()
	snapshot, err = u.Commit(ctx)
	updated := u.Updated()
	done.Updated = &updated
	return done, snapshot, err
}

// keyRoom counts the memory of the keys of a merge, in steps. It does not wait:
// who holds some already could wait for another one that does.
type keyRoom struct {
	puts        *puts
	used, taken int64
}

// keyStep is how much is taken at once, in bytes, where there is so much.
const keyStep = 1 << 20

func (k *keyRoom) hold(bytes int64) error {
	k.used += bytes
	for k.used > k.taken {
		n := min(max(k.used-k.taken, keyStep), max(k.puts.most-k.taken, 1))
		if k.taken+n > k.puts.most || !k.puts.keys.TryAcquire(n) {
			return fault.New(fault.Exhausted, "put: the keys of %d rows do not fit into the %d bytes that all merges may hold (the server's --put-memory); "+
				"merge fewer rows at a time, or when fewer writes run", k.used/table.UpsertRowBytes, k.puts.most)
		}
		k.taken += n
	}
	return nil
}

func (k *keyRoom) leave() { k.puts.keys.Release(k.taken) }

package table

import (
	"context"
	"maps"
	"slices"

	"github.com/flightblob/flightblob/table/rowset"
)

// Written are rows that a mutation wrote.
type Written struct {
	Moved bool // they come in the place of others
	Rows  uint64
}

// Written tells what rows were written, in the order in which they stand at the
// end of the version that Commit answers.
func (m *Mutation) Written() []Written {
	var out []Written
	for _, w := range m.written {
		out = append(out, Written{Moved: w.moved, Rows: w.writer.rows})
	}
	return out
}

// Delete is Remove for rows that nothing comes in the place of, which Deleted
// tells afterwards.
func (m *Mutation) Delete(addresses []uint64) ([]int, error) {
	fresh, err := m.Remove(addresses)
	for _, k := range fresh {
		a := addresses[k]
		i := m.fragments[a>>32]
		if m.deleted == nil {
			m.deleted = map[int]*rowset.Marks{}
		}
		if m.deleted[i] == nil {
			m.deleted[i] = &rowset.Marks{}
		}
		m.deleted[i].Add(a & (1<<32 - 1))
		m.gone++
	}
	return fresh, err
}

// deletedRows is how many positions Deleted gives at once.
const deletedRows = 16384

// Deleted tells how many rows Delete and RemoveAll removed, and begins a list of
// their positions in scan order of Base: each call gives some more, ascending,
// none at the end.
func (m *Mutation) Deleted() (uint64, func(context.Context) ([]uint64, error)) {
	if m.all {
		at := uint64(0)
		return m.base.Rows(), func(context.Context) ([]uint64, error) {
			var out []uint64
			for ; at < m.base.Rows() && len(out) < deletedRows; at++ {
				out = append(out, at)
			}
			return out, nil
		}
	}
	places := slices.Sorted(maps.Keys(m.deleted))
	var rest []uint64 // offsets of the fragment places[0]
	return m.gone, func(ctx context.Context) ([]uint64, error) {
		for len(rest) == 0 && len(places) > 0 {
			f := &m.base.Manifest().Fragments[places[0]]
			d, err := m.deleted[places[0]].Deleted(f.PhysicalRows)
			if err != nil {
				return nil, err
			}
			live, err := m.base.deletions(ctx, f)
			if err != nil {
				return nil, err
			}
			first := m.base.loaded.starts[places[0]]
			for offset := range d.Offsets() {
				rest = append(rest, first+live.LiveBefore(offset))
			}
			places = places[1:]
		}
		out := rest[:min(deletedRows, len(rest))]
		rest = rest[len(out):]
		return out, nil
	}
}

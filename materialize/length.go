package materialize

import (
	"context"

	"github.com/flightblob/flightblob/blob"
)

// lookAhead is how many unknown lengths are asked for in one go.
const lookAhead = 256

// lengths finds the sizes of External objects whose descriptors leave them
// open. The cutter asks element by element; lengths asks the stores for the
// next ones of the leaf at the same time, a few at once.
type lengths struct {
	parallel int
	known    map[element]found
}

type element struct {
	leaf  *leafView
	index int
}

type found struct {
	n   uint64
	err error
}

// forget drops what is known; answers are valid for one source batch.
func (l *lengths) forget() { clear(l.known) }

// of gives the length of element i, whose sentinel extent is e.
func (l *lengths) of(ctx context.Context, leaf *leafView, i int, e blob.Extent) (uint64, error) {
	if f, ok := l.known[element{leaf, i}]; ok {
		return f.n, f.err
	}
	wanted := []int{i}
	extents := []blob.Extent{e}
	for k := i + 1; k < leaf.column.Len() && k < i+8*lookAhead && len(wanted) < lookAhead; k++ {
		if _, ok := l.known[element{leaf, k}]; ok || leaf.hidden(k) {
			continue
		}
		d, isNull, err := leaf.column.At(k)
		if err != nil || isNull || d.Kind != blob.External || d.Size != 0 {
			continue
		}
		if ahead, err := leaf.resolve(ctx, k, d); err == nil { // else its own turn reports it
			wanted, extents = append(wanted, k), append(extents, ahead)
		}
	}
	return l.ask(ctx, leaf, wanted, extents)
}

// ask measures extents of the given elements, remembers all answers and gives
// that of the first.
func (l *lengths) ask(ctx context.Context, leaf *leafView, wanted []int, extents []blob.Extent) (uint64, error) {
	answers := measure(ctx, extents, l.parallel)
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if l.known == nil {
		l.known = make(map[element]found)
	}
	for k, answer := range answers {
		l.known[element{leaf, wanted[k]}] = answer
	}
	return answers[0].n, answers[0].err
}

// measure asks for the lengths of all extents, at most parallel at a time, and
// for each object once. Failures are answers: they belong to single values.
func measure(ctx context.Context, extents []blob.Extent, parallel int) []found {
	objects := newObjects()
	index := make([]int, len(extents))
	for i := range extents {
		index[i] = objects.intern(extents[i].Object)
	}
	distinct := make([]found, objects.len())
	_ = each(parallel, len(distinct), func(o int) error { // failures are answers
		distinct[o].err = guard(func() (err error) {
			distinct[o].n, err = blob.Length(ctx, blob.Extent{Object: objects.at(o), Whole: true})
			return err
		})
		return nil
	})
	answers := make([]found, len(extents))
	for i, o := range index {
		answers[i] = distinct[o]
	}
	return answers
}

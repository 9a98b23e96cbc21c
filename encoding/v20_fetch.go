package encoding

import (
	"context"
	"math"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// maxFetch20 bounds the bytes of one round of requests.
const maxFetch20 = 2 * maxVectorBytes

// queue20 gathers the requests of one round, so that all of them go out
// together.
type queue20 struct {
	extents []Extent
	into    []*[]byte
}

// want asks for the bytes [from, to) of a buffer, to be stored in *into.
func (q *queue20) want(buf Extent, from, to uint64, into *[]byte) error {
	if from > to || to > buf.Size {
		return fault.Corruptf(int64(buf.Offset), "encoding: bytes [%d, %d) of a buffer of %d", from, to, buf.Size)
	}
	if from == to {
		*into = []byte{}
		return nil
	}
	q.extents = append(q.extents, Extent{Offset: buf.Offset + from, Size: to - from})
	q.into = append(q.into, into)
	return nil
}

// run fetches what was asked for and empties the queue.
func (q *queue20) run(ctx context.Context, fetch Fetch) error {
	if len(q.extents) == 0 {
		return nil
	}
	var total uint64
	for _, e := range q.extents {
		if total += e.Size; total > maxFetch20 {
			return fault.New(fault.Exhausted, "encoding: more than %d bytes to fetch in one read; ask for fewer rows", maxFetch20)
		}
	}
	got, _, err := fetch(ctx, q.extents)
	if err != nil {
		return err
	}
	if len(got) != len(q.extents) {
		return fault.New(fault.Internal, "encoding: %d of %d extents fetched", len(got), len(q.extents))
	}
	for i, b := range got {
		if uint64(len(b)) != q.extents[i].Size {
			return fault.New(fault.Internal, "encoding: %d bytes fetched, %d asked for", len(b), q.extents[i].Size)
		}
		*q.into[i] = b
	}
	q.extents, q.into = nil, nil
	return nil
}

// buffer finds the buffer that a description refers to.
func (p *page20) buffer(ref *lancepb.BufferRef20) (Extent, error) {
	scope := p.page
	switch ref.GetBufferType() {
	case lancepb.BufferRef20_PAGE:
	case lancepb.BufferRef20_COLUMN:
		scope = p.column
	default:
		// No reader of this version knows how to find file buffers.
		return Extent{}, fault.New(fault.Unsupported, "encoding: unsupported 2.0 encoding: buffer of scope %d", ref.GetBufferType())
	}
	i := ref.GetBufferIndex()
	if uint64(i) >= uint64(len(scope)) {
		return Extent{}, fault.Corruptf(-1, "encoding: buffer %d of %d", i, len(scope))
	}
	e := scope[i]
	if e.Offset > math.MaxInt64 || e.Size > math.MaxInt64-e.Offset {
		return Extent{}, fault.Corruptf(-1, "encoding: buffer of %d bytes at %d", e.Size, e.Offset)
	}
	return e, nil
}

// countSlots adds up a selection and holds it against the limit of a read.
func countSlots(sel []Range) (int, error) {
	var n uint64
	for _, s := range sel {
		if n += s.Len(); n > maxSlots20 {
			return 0, fault.New(fault.Exhausted, "encoding: more than %d slots of one column in one read; ask for fewer rows", maxSlots20)
		}
	}
	return int(n), nil
}

// joinBytes concatenates parts; a single part is not copied.
func joinBytes(parts [][]byte) []byte {
	if len(parts) == 1 {
		return parts[0]
	}
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	out := make([]byte, 0, n)
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// whole says that a selection is all of n slots.
func whole(sel []Range, n uint64) bool {
	return len(sel) == 1 && sel[0].Start == 0 && sel[0].End == n
}

// select20 cuts a selection of a column's slots into one per page, in slots of
// the page. visit is called for pages that hold something of it, in order.
func (p *pages20) select20(sel []Range, visit func(page *page20, sel []Range) error) error {
	i := 0
	var part []Range
	flush := func() error {
		if len(part) == 0 {
			return nil
		}
		err := visit(&p.pages[i], part)
		part = nil
		return err
	}
	for _, s := range sel {
		if s.End > p.total {
			return fault.Corruptf(-1, "encoding: slots [%d, %d) of a column with %d", s.Start, s.End, p.total)
		}
		for s.Start < s.End {
			page := &p.pages[i]
			end := page.start + page.slots
			if s.Start >= end {
				if err := flush(); err != nil {
					return err
				}
				i++
				continue
			}
			cut := min(s.End, end)
			part = append(part, Range{s.Start - page.start, cut - page.start})
			s.Start = cut
		}
	}
	return flush()
}

package datafile

import (
	"context"
	"math/bits"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/flightblob/flightblob/encoding"
	"github.com/flightblob/flightblob/internal/fault"
)

const (
	// fetchGap is how far apart two extents may lie and still be read as one.
	fetchGap = 16 << 10
	// fetchMax is how large a joined read may get.
	fetchMax = 8 << 20
	// fetchers is how many reads of one call are under way at once.
	fetchers = 8
)

// joined is one read that serves several extents.
type joined struct {
	at, end uint64
	serves  []int // indexes of extents
}

// fetch implements encoding.Fetch: extents that lie close are read together,
// distinct reads at once, into buffers of a pool.
func (r *Reader) fetch(ctx context.Context, extents []encoding.Extent) ([][]byte, func(), error) {
	for _, e := range extents {
		if e.Offset > r.size || e.Size > r.size-e.Offset {
			return nil, nil, fault.Corruptf(int64(min(e.Offset, 1<<62)), "datafile: bytes [%d, +%d) of a file of %d", e.Offset, e.Size, r.size)
		}
	}
	out := make([][]byte, len(extents))
	reads := join(extents)
	buffers := make([]*[]byte, len(reads))
	one := func(ctx context.Context, k int) error {
		j := reads[k]
		buffers[k] = takeBuffer(int(j.end - j.at))
		buf := *buffers[k]
		if err := r.loc.ReadAt(ctx, buf, int64(j.at)); err != nil {
			return err
		}
		for _, i := range j.serves {
			from, to := extents[i].Offset-j.at, extents[i].Offset-j.at+extents[i].Size
			out[i] = buf[from:to:to]
		}
		return nil
	}
	release := func() {
		for _, b := range buffers {
			giveBuffer(b)
		}
	}
	if len(reads) == 1 {
		return out, release, one(ctx, 0)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fetchers)
	for k := range reads {
		group.Go(func() error { return one(ctx, k) })
	}
	return out, release, group.Wait()
}

// join groups extents into reads. Empty extents are served by none.
func join(extents []encoding.Extent) []joined {
	order := make([]int, 0, len(extents))
	for i, e := range extents {
		if e.Size > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		switch ea, eb := extents[a], extents[b]; {
		case ea.Offset < eb.Offset:
			return -1
		case ea.Offset > eb.Offset:
			return 1
		}
		return 0
	})
	var reads []joined
	for _, i := range order {
		e := extents[i]
		if n := len(reads); n > 0 {
			last := &reads[n-1]
			end := max(last.end, e.Offset+e.Size)
			if e.Offset < last.end || e.Offset-last.end <= fetchGap && end-last.at <= fetchMax {
				last.end = end
				last.serves = append(last.serves, i)
				continue
			}
		}
		reads = append(reads, joined{e.Offset, e.Offset + e.Size, []int{i}})
	}
	return reads
}

// Buffers are pooled by powers of two between these sizes; larger and smaller
// ones are left to the collector.
const (
	minPooled = 12 // 4 KiB
	maxPooled = 23 // fetchMax
)

// buffers is shared by all readers of the process.
var buffers [maxPooled + 1]sync.Pool

// takeBuffer gives a buffer of n bytes whose content is undefined.
func takeBuffer(n int) *[]byte {
	class := bits.Len(uint(max(n, 1) - 1))
	if class > maxPooled {
		b := make([]byte, n)
		return &b
	}
	class = max(class, minPooled)
	b, ok := buffers[class].Get().(*[]byte)
	if !ok {
		made := make([]byte, 1<<class)
		b = &made
	}
	*b = (*b)[:n]
	return b
}

func giveBuffer(b *[]byte) {
	if b == nil {
		return
	}
	if class := bits.Len(uint(cap(*b) - 1)); class >= minPooled && class <= maxPooled && cap(*b) == 1<<class {
		buffers[class].Put(b)
	}
}

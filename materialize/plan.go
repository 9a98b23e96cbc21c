package materialize

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/flightblob/flightblob/objstore"
)

// piece is one value's bytes: where they lie and where they go.
type piece struct {
	object int
	off, n int64 // in the object
	leaf   int   // destination: buffer of this leaf
	dst    int64 // offset in it
	row    int64 // of the stream, for messages
	owned  bool
}

// read is one request to a store. A direct one fills [dst, dst+n) of a leaf's
// buffer, a scattering one the places of its pieces, which do not overlap; any
// other goes to scratch, from where its pieces are copied.
type read struct {
	object  int
	off, n  int64
	direct  bool
	scatter bool
	leaf    int
	dst     int64
	pieces  []piece // in order of offset; parts of a split piece share it
}

// plan is what an output batch fetches, in order of object and offset.
type plan struct {
	objects *objects
	fields  []string // leaf → path, for printing
	reads   []read
}

// policy decides which neighbours share a request.
type policy struct {
	gap     int64 // largest hole that is read along
	small   int64 // only requests and pieces up to this go through scratch
	maximum int64 // largest request; a larger piece is split
	// scattered is the largest request that goes to several places at once;
	// 0 where stores cannot do that.
	scattered int64
}

// A local file is read into many places by one system call, so neighbours are
// joined without a copy; what overlaps goes through scratch when it is small. A
// request to a remote store costs milliseconds.
var (
	localPolicy  = policy{gap: 4 << 10, small: 32 << 10, maximum: 8 << 20, scattered: 1 << 20}
	remotePolicy = policy{gap: 256 << 10, small: math.MaxInt64, maximum: 8 << 20}
)

// policyOf tells local stores by their ability to map.
func policyOf(loc objstore.Location) policy {
	if _, ok := objstore.AsMapper(loc); ok {
		return localPolicy
	}
	return remotePolicy
}

// newPlan sorts pieces, none of them empty, and joins them into reads.
func newPlan(objects *objects, fields []string, pieces []piece, of func(objstore.Location) policy) *plan {
	p := &plan{objects: objects, fields: fields}
	order := func(a, b piece) int {
		return cmp.Or(cmp.Compare(a.object, b.object), cmp.Compare(a.off, b.off), cmp.Compare(a.n, b.n),
			cmp.Compare(a.leaf, b.leaf), cmp.Compare(a.dst, b.dst))
	}
	if !slices.IsSortedFunc(pieces, order) {
		slices.SortFunc(pieces, order)
	}
	var rules policy
	for i := 0; i < len(pieces); {
		if i == 0 || pieces[i].object != pieces[i-1].object {
			rules = of(objects.at(pieces[i].object))
		}
		r := read{
			object: pieces[i].object, off: pieces[i].off, n: pieces[i].n,
			direct: true, leaf: pieces[i].leaf, dst: pieces[i].dst,
		}
		first := i
		for i++; i < len(pieces) && r.join(pieces[i], rules); i++ {
		}
		r.pieces = pieces[first:i:i]
		p.split(r, rules.maximum)
	}
	return p
}

// join takes the next piece into the request if that is worthwhile.
func (r *read) join(next piece, rules policy) bool {
	if next.object != r.object {
		return false
	}
	end := r.off + r.n
	joined := max(end, next.off+next.n) - r.off
	if joined > rules.maximum && joined > r.n {
		return false
	}
	if r.direct && next.off == end && next.leaf == r.leaf && next.dst == r.dst+r.n {
		r.n = joined
		return true
	}
	hole := next.off - end // negative where values overlap: the bytes are read once
	if hole >= 0 && hole <= rules.gap && joined <= rules.scattered && (r.direct || r.scatter) {
		r.direct, r.scatter, r.n = false, true, joined
		return true
	}
	if r.scatter {
		return false
	}
	if hole > rules.gap || r.n > min(rules.small, rules.maximum) || next.n > rules.small {
		return false
	}
	r.direct, r.n = false, joined
	return true
}

// split adds a request, in parts when one piece makes it larger than maximum.
func (p *plan) split(r read, maximum int64) {
	if !r.direct || r.n <= maximum {
		p.reads = append(p.reads, r)
		return
	}
	for done := int64(0); done < r.n; done += maximum {
		part := r
		part.off, part.dst, part.n = r.off+done, r.dst+done, min(maximum, r.n-done)
		p.reads = append(p.reads, part)
	}
}

// scratch is the most that scratch buffers hold at a time when parallel reads
// run at once.
func (p *plan) scratch(parallel int) int64 {
	var sizes []int64
	for i := range p.reads {
		if !p.reads[i].direct && !p.reads[i].scatter {
			sizes = append(sizes, sizeClass(p.reads[i].n))
		}
	}
	slices.SortFunc(sizes, func(a, b int64) int { return cmp.Compare(b, a) })
	var total int64
	for _, n := range sizes[:min(len(sizes), parallel)] {
		total += n
	}
	return total
}

// bytes is how much the stores are asked for.
func (p *plan) bytes() int64 {
	var n int64
	for i := range p.reads {
		n += p.reads[i].n
	}
	return n
}

// String prints the plan, one line for each request and copy.
func (p *plan) String() string {
	var b strings.Builder
	object := -1
	for i := range p.reads {
		r := &p.reads[i]
		if r.object != object {
			object = r.object
			fmt.Fprintf(&b, "%s\n", p.objects.at(object))
		}
		if r.direct {
			fmt.Fprintf(&b, "  read [%d, %d) into %s at %d\n", r.off, r.off+r.n, p.fields[r.leaf], r.dst)
			continue
		}
		where, verb := "scratch", "copy"
		if r.scatter {
			where, verb = "places", "send"
		}
		fmt.Fprintf(&b, "  read [%d, %d) into %s\n", r.off, r.off+r.n, where)
		for _, c := range r.pieces {
			fmt.Fprintf(&b, "    %s [%d, %d) to %s at %d\n", verb, c.off, c.off+c.n, p.fields[c.leaf], c.dst)
		}
	}
	return b.String()
}

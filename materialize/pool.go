package materialize

import (
	"math/bits"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Buffers of these capacities are kept for reuse: smaller ones are cheap to
// make, larger ones are rare and would hold too much.
const (
	minPooled = 4 << 10
	maxPooled = 64 << 20
)

// pool keeps byte buffers without clearing them, which is where an ordinary
// allocation of megabytes spends its time. It holds at most limit bytes.
type pool struct {
	limit int64

	mu   sync.Mutex
	free map[int][][]byte // capacity → buffers
	size int64
}

// sizeClass rounds a buffer length up to the capacity that get gives it: four
// steps per doubling, so at most a fifth is wasted.
func sizeClass(n int64) int64 {
	if n <= minPooled || n > maxPooled {
		return (n + 63) &^ 63
	}
	step := int64(1) << (bits.Len64(uint64(n-1)) - 3)
	return (n + step - 1) &^ (step - 1)
}

// get gives a buffer of length n with unspecified contents. n must be bounded
// by the caller.
func (p *pool) get(n int64) []byte {
	class := int(sizeClass(n))
	p.mu.Lock()
	if list := p.free[class]; len(list) > 0 {
		buf := list[len(list)-1]
		list[len(list)-1] = nil
		p.free[class] = list[:len(list)-1]
		p.size -= int64(class)
		p.mu.Unlock()
		return buf[:n]
	}
	p.mu.Unlock()
	return aligned(class)[:n]
}

// aligned makes a buffer at an address that is a multiple of 64, as Arrow
// recommends. The runtime does that by itself for buffers of a page and more.
func aligned(n int) []byte {
	if n >= minPooled {
		return make([]byte, n)
	}
	return memory.NewGoAllocator().Allocate(n)
}

// put takes a buffer back. When the pool is full, what it holds gives way: the
// sizes in demand are those that come back.
func (p *pool) put(buf []byte) {
	class := int64(cap(buf))
	if class < minPooled || class > maxPooled || class > p.limit || sizeClass(class) != class {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.size+class > p.limit {
		p.free, p.size = nil, 0
	}
	if p.free == nil {
		p.free = make(map[int][][]byte)
	}
	p.free[int(class)] = append(p.free[int(class)], buf[:0])
	p.size += class
}

func (p *pool) held() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size
}

// pooled is an Arrow buffer over a pool buffer. Its release returns the bytes
// to the pool and its share of the lease to the budget.
func pooled(buf []byte, l *lease) *memory.Buffer {
	l.retain()
	return memory.NewBufferWithAllocator(buf, hook(func([]byte) {
		l.budget.pool.put(buf)
		l.release()
	}))
}

// hook is an allocator of buffers that are never resized: all it does is learn
// of their end.
type hook func([]byte)

// Free runs the hook.
func (h hook) Free(b []byte) { h(b) }

// Allocate is not used for buffers of a fixed size; it is an ordinary one.
func (h hook) Allocate(n int) []byte { return memory.DefaultAllocator.Allocate(n) }

// Reallocate is not used for buffers of a fixed size; it copies.
func (h hook) Reallocate(n int, b []byte) []byte {
	p := memory.DefaultAllocator.Allocate(n)
	copy(p, b)
	return p
}

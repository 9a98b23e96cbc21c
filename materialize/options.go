package materialize

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/schema"
)

// Defaults of Options.
const (
	// DefaultBatchBytes keeps a message below the 4 MiB that every gRPC client
	// accepts, with room for what the transport adds.
	DefaultBatchBytes = 4<<20 - 64<<10
	// DefaultMaxValue is just under the 2 GiB that protobuf allows a message.
	DefaultMaxValue = 2<<30 - 64<<10

	defaultParallel = 8
	// largeValue is the size from which a store is asked for the object's
	// length before memory is taken: a descriptor's word is not enough then.
	largeValue = 16 << 20
	// smallBorrow is the size below which copying beats mapping.
	smallBorrow = 32 << 10
)

// Options say how to materialize. The zero value works.
type Options struct {
	// Budget is shared by all streams of the server; nil makes one of
	// DefaultBudget bytes for this reader.
	Budget *Budget
	// View is the face of blob fields in the result: Materialized or Logical.
	View schema.View
	// Schema is that of the result; nil derives one from the source's, which
	// keeps no metadata that the source does not show.
	Schema *arrow.Schema
	// BatchBytes is the size that a result's message should stay below, all
	// columns included; 0 means DefaultBatchBytes. It is narrowed to an eighth
	// of the budget. A row that is larger by itself goes alone.
	BatchBytes int64
	// MaxValue is the size that a message must not exceed: a row above it is a
	// TooLargeError before anything of it is fetched. 0 means DefaultMaxValue.
	MaxValue int64
	// Map lends mapped bytes of immutable local objects instead of copying
	// them. Set it only when the bytes go to the kernel without being looked
	// at: an object cut short meanwhile faults whoever touches them.
	Map bool
	// Mem allocates validity and offsets; nil means memory.DefaultAllocator.
	// Value bytes come from the budget.
	Mem memory.Allocator
	// FirstRow is the number of the source's first row in messages.
	FirstRow int64
	// Prefetch is how many batches are prepared while one is with the caller;
	// 0 means 1.
	Prefetch int
	// Parallel is how many requests a batch has under way; 0 means 8.
	Parallel int
}

// withDefaults fills in what is unset and narrows what is out of range.
func (o Options) withDefaults() Options {
	if o.Budget == nil {
		o.Budget = NewBudget(DefaultBudget)
	}
	if o.BatchBytes <= 0 {
		o.BatchBytes = DefaultBatchBytes
	}
	o.BatchBytes = min(o.BatchBytes, o.Budget.share())
	if o.MaxValue <= 0 {
		o.MaxValue = DefaultMaxValue
	}
	o.MaxValue = min(o.MaxValue, maxWeight/16)
	o.BatchBytes = min(o.BatchBytes, o.MaxValue)
	if o.Mem == nil {
		o.Mem = memory.DefaultAllocator
	}
	o.Prefetch = max(o.Prefetch, 1)
	if o.Parallel <= 0 {
		o.Parallel = defaultParallel
	}
	return o
}

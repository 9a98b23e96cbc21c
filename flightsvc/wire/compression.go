package wire

import (
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// Compression says how the buffers of record batches are compressed. Readers
// see it in each message and need no word about it, but not all can undo it.
type Compression uint8

// The ways of IPC, and none.
const (
	Uncompressed Compression = iota
	LZ4
	Zstd
)

// minSavings is the part of a buffer that compressing must save; else it goes
// as it is. Pictures and sounds rarely do.
const minSavings = 0.05

// ipcOptions are those that an IPC writer needs for c. One goroutine
// compresses, the writer's own: there a fault of a mapped page is an error.
func (c Compression) ipcOptions() []ipc.Option {
	switch c {
	case LZ4:
		return []ipc.Option{ipc.WithLZ4(), ipc.WithMinSpaceSavings(minSavings), ipc.WithCompressConcurrency(1)}
	case Zstd:
		return []ipc.Option{ipc.WithZstd(), ipc.WithMinSpaceSavings(minSavings), ipc.WithCompressConcurrency(1)}
	}
	return nil
}

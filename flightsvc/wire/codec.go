package wire

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of FlightData.
const (
	fieldDescriptor  = 1
	fieldHeader      = 2
	fieldAppMetadata = 3
	fieldBody        = 1000
)

// copyLimit is the length up to which a body part is copied into the message's
// own bytes: gRPC does not count references of buffers that small.
const copyLimit = 1 << 10

// maxMessage is the largest message that gRPC's 32-bit accounting can carry.
const maxMessage = math.MaxInt32 - 64

// errSpent says that a message was given to gRPC twice.
var errSpent = errors.New("wire: message was sent before")

// Codec marshals the messages of a Writer as lists of buffers and leaves all
// other messages to gRPC's protobuf codec. Use it with
// grpc.ForceServerCodecV2; it is safe for concurrent use.
func Codec() encoding.CodecV2 {
	return codec{encoding.GetCodecV2(proto.Name)}
}

type codec struct{ encoding.CodecV2 }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(*message); ok {
		return m.take()
	}
	return c.CodecV2.Marshal(v)
}

func (c codec) Name() string { return proto.Name }

// message is one FlightData on its way out. It is marshalled once.
type message struct {
	buffers mem.BufferSlice
	size    int64
	hold    *hold
	taken   bool
}

// newMessage lays out a message. The parts are referenced, not copied, unless
// they are short; release runs once gRPC has written or dropped all of them,
// or from here on if none is referenced. On an error nothing was released.
func newMessage(descriptor, header, appMetadata []byte, parts [][]byte, inFlight *atomic.Int64, release func()) (*message, error) {
	var body, copied int64
	large := 0
	for _, p := range parts {
		body += int64(len(p))
		if len(p) <= copyLimit {
			copied += int64(len(p))
		} else {
			large++
		}
	}
	overhead := int64(len(descriptor)+len(header)+len(appMetadata)) + 4*16
	if body+overhead > maxMessage {
		return nil, fmt.Errorf("wire: message of %d bytes is over the protocol's 2 GiB", body+overhead)
	}

	// The message's own bytes: prefix and short parts, one allocation.
	own := make([]byte, 0, overhead+copied)
	own = appendField(own, fieldDescriptor, descriptor)
	own = appendField(own, fieldHeader, header)
	own = appendField(own, fieldAppMetadata, appMetadata)
	if body > 0 {
		own = protowire.AppendTag(own, fieldBody, protowire.BytesType)
		own = protowire.AppendVarint(own, uint64(body))
	}

	m := &message{buffers: make(mem.BufferSlice, 0, 2*large+1)}
	h := newHold(large, inFlight, release)
	start := 0
	flush := func() {
		if len(own) > start {
			m.buffers = append(m.buffers, mem.SliceBuffer(own[start:len(own):len(own)]))
			start = len(own)
		}
	}
	for i := range parts {
		if len(parts[i]) <= copyLimit {
			own = append(own, parts[i]...)
			continue
		}
		flush()
		m.buffers = append(m.buffers, mem.NewBuffer(&parts[i], h))
	}
	flush()
	m.size = int64(len(own)) + body - copied
	m.hold = h
	if large == 0 {
		h.drop()
	}
	return m, nil
}

func appendField(dst []byte, number protowire.Number, value []byte) []byte {
	if len(value) == 0 {
		return dst
	}
	dst = protowire.AppendTag(dst, number, protowire.BytesType)
	return protowire.AppendBytes(dst, value)
}

// take gives the buffers to gRPC, which then owns a reference to each.
func (m *message) take() (mem.BufferSlice, error) {
	if m.taken {
		return nil, errSpent
	}
	m.taken = true
	buffers := m.buffers
	m.buffers, m.hold = nil, nil
	return buffers, nil
}

// discard frees a message that never reached gRPC.
func (m *message) discard() {
	if !m.taken {
		m.taken = true
		m.buffers.Free()
		m.buffers, m.hold = nil, nil
	}
}

// hold keeps what the buffers of one message lie in. It poses as the buffers'
// pool, which is how gRPC says that it is done with one.
//
// gRPC forgets queued buffers without a word when a connection ends or a
// stream is reset at the wrong moment. Then nothing points at the hold any
// more, and its cleanup, run by the garbage collector, releases instead.
type hold struct {
	pending atomic.Int64
	lease   *lease
	cleanup runtime.Cleanup
}

// lease is the part of a hold that its cleanup may refer to.
type lease struct {
	done     atomic.Bool
	inFlight *atomic.Int64
	release  func()
}

func newHold(parts int, inFlight *atomic.Int64, release func()) *hold {
	inFlight.Add(1)
	h := &hold{lease: &lease{inFlight: inFlight, release: release}}
	h.pending.Store(int64(parts))
	if parts > 0 {
		h.cleanup = runtime.AddCleanup(h, (*lease).end, h.lease)
	}
	return h
}

// Get implements mem.BufferPool.
func (h *hold) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

// Put implements mem.BufferPool: one buffer is no longer needed.
func (h *hold) Put(*[]byte) {
	if h.pending.Add(-1) == 0 {
		h.drop()
	}
}

func (h *hold) drop() {
	h.cleanup.Stop()
	h.lease.end()
}

func (l *lease) end() {
	if l.done.Swap(true) {
		return
	}
	l.inFlight.Add(-1)
	l.release()
}

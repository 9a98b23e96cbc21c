package wire

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const batchSize = 1 << 20

// counted makes batches of one large value whose memory is counted, the most
// at once included.
type counted struct {
	live, peak, made atomic.Int64
}

func (c *counted) Allocate(n int) []byte {
	if n >= batchSize {
		c.made.Add(1)
		live := c.live.Add(1)
		for p := c.peak.Load(); live > p && !c.peak.CompareAndSwap(p, live); p = c.peak.Load() {
		}
	}
	return make([]byte, n)
}

func (c *counted) Reallocate(n int, b []byte) []byte {
	if n > cap(b) {
		nb := c.Allocate(n)
		copy(nb, b)
		c.Free(b)
		return nb
	}
	return b[:n]
}

func (c *counted) Free(b []byte) {
	if cap(b) >= batchSize {
		c.live.Add(-1)
	}
}

func (c *counted) batch() arrow.RecordBatch {
	values := memory.NewResizableBuffer(c)
	values.Resize(batchSize)
	offsets := memory.NewBufferBytes(arrow.Int64Traits.CastToBytes([]int64{0, batchSize}))
	data := array.NewData(arrow.BinaryTypes.LargeBinary, 1, []*memory.Buffer{nil, offsets, values}, nil, 0, 0)
	values.Release()
	a := array.MakeFromData(data)
	data.Release()
	return batchOf(a)
}

// endless writes batches until the stream ends and says how the handler ended.
func (c *counted) endless(ended chan<- error) func(flight.FlightService_DoGetServer) error {
	return func(s flight.FlightService_DoGetServer) (err error) {
		defer func() { ended <- err }()
		first := c.batch()
		defer first.Release()
		w, err := NewWriter(s, first.Schema(), Options{})
		if err != nil {
			return err
		}
		defer w.Close()
		for {
			b := c.batch()
			err := w.Write(b, nil)
			b.Release()
			if err != nil {
				return err
			}
		}
	}
}

// smallWindow keeps the client from taking a message before it is read.
var smallWindow = []grpc.DialOption{grpc.WithInitialWindowSize(65535), grpc.WithInitialConnWindowSize(65535)}

// A client that does not read makes the server hold the message on the wire and
// the one behind it, besides what the producer is making.
func TestSlowReaderHoldsBoundedMemory(t *testing.T) {
	t.Parallel()
	var c counted
	ended := make(chan error, 1)
	client := serve(t, c.endless(ended), smallWindow...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := client.DoGet(ctx, &flight.Ticket{})
	if err != nil {
		t.Fatal(err)
	}
	settle := func() int64 {
		var made int64
		for range 100 {
			time.Sleep(20 * time.Millisecond)
			now := c.made.Load()
			if now == made && now > 1 {
				return now
			}
			made = now
		}
		t.Fatal("the producer does not come to rest")
		return 0
	}
	before := settle()
	// The first batch of endless stays alive: four at most.
	if live := c.live.Load(); live > 4 {
		t.Errorf("%d batches held for a client that reads nothing", live)
	}
	for range 6 {
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	after := settle()
	if after-before < 4 {
		t.Errorf("reading 6 messages let the producer make %d batches", after-before)
	}
	if peak := c.peak.Load(); peak > 4 {
		t.Errorf("up to %d batches alive at once", peak)
	}
	cancel()
	select {
	case err := <-ended:
		if status.Code(err) != codes.Canceled {
			t.Errorf("handler ended with %v", err)
		}
	case <-time.After(time.Second):
		t.Fatal("handler still runs a second after the cancel")
	}
	eventually(t, time.Second, "memory is back after the cancel", func() bool { return c.live.Load() == 0 })
}

// gRPC forgets what it has queued on a connection that breaks; the memory comes
// back all the same.
func TestBrokenConnectionGivesMemoryBack(t *testing.T) {
	t.Parallel()
	var c counted
	ended := make(chan error, 1)
	client := serve(t, c.endless(ended), smallWindow...)
	stream, err := client.DoGet(t.Context(), &flight.Ticket{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	client.Close()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("an endless handler ended well")
		}
	case <-time.After(time.Second):
		t.Fatal("handler still runs a second after the connection broke")
	}
	eventually(t, 2*time.Second, "memory is back after the connection broke", func() bool { return c.live.Load() == 0 })
}

// mapped is a batch whose values are a file's pages.
func mapped(t *testing.T, path string) arrow.RecordBatch {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	offsets := memory.NewBufferBytes(arrow.Int64Traits.CastToBytes([]int64{0, st.Size()}))
	data := array.NewData(arrow.BinaryTypes.LargeBinary, 1, []*memory.Buffer{nil, offsets, memory.NewBufferBytes(b)}, nil, 0, 0)
	a := array.MakeFromData(data)
	data.Release()
	t.Cleanup(func() {
		if err := unix.Munmap(b); err != nil {
			t.Error(err)
		}
	})
	return batchOf(a)
}

// A mapped file that is cut short while it is sent breaks that stream, not the
// process; the next stream works.
func TestTruncatedMappingBreaksOnlyItsStream(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		bytes int
		code  codes.Code
	}{
		{"referenced by the kernel", 8 << 20, codes.Unavailable},
		// Short buffers are copied into the message, by the handler.
		{"copied into the message", 900, codes.Unknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "object")
			if err := os.WriteFile(path, make([]byte, tc.bytes), 0o644); err != nil {
				t.Fatal(err)
			}
			gate := make(chan struct{})
			truncated := make(chan struct{})
			var calls atomic.Int32
			client := serve(t, func(s flight.FlightService_DoGetServer) error {
				batch := mapped(t, path)
				defer batch.Release()
				if calls.Add(1) == 1 {
					close(gate)
					<-truncated
				}
				return write(s, batch.Schema(), Options{}, batch)
			})
			read := func() (int64, error) {
				stream, err := client.DoGet(t.Context(), &flight.Ticket{}, grpc.WaitForReady(true))
				if err != nil {
					return 0, err
				}
				r, err := flight.NewRecordReader(stream)
				if err != nil {
					return 0, err
				}
				defer r.Release()
				var n int64
				for r.Next() {
					n += int64(len(r.RecordBatch().Column(0).(*array.LargeBinary).Value(0)))
				}
				return n, r.Err()
			}
			go func() {
				<-gate
				if err := os.Truncate(path, 0); err != nil {
					t.Error(err)
				}
				close(truncated)
			}()
			n, err := read()
			if err == nil {
				t.Fatalf("read %d bytes of a truncated file without an error", n)
			}
			if code := status.Code(err); code != tc.code {
				t.Errorf("code %v, want %v: %v", code, tc.code, err)
			}
			if err := os.WriteFile(path, make([]byte, 3<<20), 0o644); err != nil {
				t.Fatal(err)
			}
			if n, err := read(); err != nil || n != 3<<20 {
				t.Errorf("next stream: %d bytes, %v", n, err)
			}
		})
	}
}

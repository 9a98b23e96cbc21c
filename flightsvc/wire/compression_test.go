package wire

import (
	"errors"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flightblob/flightblob/internal/fault"
)

var compressions = map[string]Compression{"lz4": LZ4, "zstd": Zstd}

// bytesOf is a batch of one value.
func bytesOf(mem memory.Allocator, value []byte) arrow.RecordBatch {
	b := array.NewBinaryBuilder(mem, arrow.BinaryTypes.LargeBinary)
	defer b.Release()
	b.Append(value)
	return batchOf(b.NewArray())
}

// replay is a stream of messages that were recorded.
type replay struct{ messages []*flight.FlightData }

func (r *replay) Recv() (*flight.FlightData, error) {
	if len(r.messages) == 0 {
		return nil, io.EOF
	}
	m := r.messages[0]
	r.messages = r.messages[1:]
	return m, nil
}

// Compressed batches of all kinds are read like others.
func TestCompressedBatchesAreRead(t *testing.T) {
	t.Parallel()
	for name, compression := range compressions {
		mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
		for _, c := range cases(mem) {
			t.Run(name+" "+c.name, func(t *testing.T) {
				defer c.release()
				var sent recorder
				if err := write(&sent, c.schema(), Options{DictionaryDeltas: c.deltas, Compression: compression}, c.batches...); err != nil {
					t.Fatal(err)
				}
				r, err := flight.NewRecordReader(&replay{sent.messages})
				if err != nil {
					t.Fatal(err)
				}
				defer r.Release()
				n := 0
				for ; r.Next(); n++ {
					if !array.RecordEqual(r.RecordBatch(), c.batches[n]) {
						t.Errorf("batch %d: got %v, want %v", n, r.RecordBatch(), c.batches[n])
					}
				}
				if err := r.Err(); err != nil && !errors.Is(err, io.EOF) || n != len(c.batches) {
					t.Errorf("%d batches of %d, %v", n, len(c.batches), r.Err())
				}
			})
		}
	}
}

// What compresses gets shorter; what does not is sent as it is.
func TestCompressionSavesOrLeaves(t *testing.T) {
	t.Parallel()
	same, noise := make([]byte, 1<<20), make([]byte, 1<<20)
	rand.New(rand.NewSource(1)).Read(noise)
	for name, compression := range compressions {
		mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
		defer mem.AssertSize(t, 0)
		for _, tc := range []struct {
			what        string
			value       []byte
			least, most int64
		}{
			{"a value of one byte", same, 100, 64 << 10},
			{"noise", noise, 1 << 20, 1<<20 + 2<<10},
		} {
			batch := bytesOf(mem, tc.value)
			var sent recorder
			w, err := NewWriter(&sent, batch.Schema(), Options{Compression: compression})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Write(batch, nil); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if n := w.Bytes(); n < tc.least || n > tc.most {
				t.Errorf("%s of %s: %d bytes", name, tc.what, n)
			}
			batch.Release()
		}
	}
}

// Reading a mapped file that was cut short is an error of the stream.
func TestCompressingATruncatedMapping(t *testing.T) {
	for name, compression := range compressions {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "object")
			if err := os.WriteFile(path, make([]byte, 4<<20), 0o644); err != nil {
				t.Fatal(err)
			}
			client := serve(t, func(s flight.FlightService_DoGetServer) error {
				batch := mapped(t, path)
				defer batch.Release()
				if err := os.Truncate(path, 0); err != nil {
					return err
				}
				err := write(s, batch.Schema(), Options{Compression: compression}, batch)
				if fault.KindOf(err) == fault.Corrupt {
					return status.Error(codes.DataLoss, err.Error())
				}
				return err
			})
			stream, err := client.DoGet(t.Context(), &flight.Ticket{})
			if err != nil {
				t.Fatal(err)
			}
			r, err := flight.NewRecordReader(stream)
			if err == nil {
				defer r.Release()
				for r.Next() {
					t.Error("a batch came")
				}
				err = r.Err()
			}
			if status.Code(err) != codes.DataLoss {
				t.Error(err)
			}
		})
	}
}

package wire

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// BenchmarkDoGet sends 256 MiB in messages of 4 MiB of 256 KiB values to a
// client that drops them unread.
func BenchmarkDoGet(b *testing.B) {
	const value, rows, messages = 256 << 10, 15, 68
	offsets := make([]int64, rows+1)
	for i := range offsets {
		offsets[i] = int64(i) * value
	}
	data := array.NewData(arrow.BinaryTypes.LargeBinary, rows, []*memory.Buffer{
		nil, memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(offsets)), memory.NewBufferBytes(make([]byte, rows*value)),
	}, nil, 0, 0)
	batch := batchOf(array.MakeFromData(data))
	batches := make([]arrow.RecordBatch, messages)
	for i := range batches {
		batches[i] = batch
	}
	for _, way := range []struct {
		name string
		get  func(flight.FlightService_DoGetServer) error
	}{
		{"wire", func(s flight.FlightService_DoGetServer) error {
			return write(s, batch.Schema(), Options{}, batches...)
		}},
		{"record_writer", func(s flight.FlightService_DoGetServer) error {
			w := flight.NewRecordWriter(s, ipc.WithSchema(batch.Schema()))
			defer w.Close()
			for _, r := range batches {
				if err := w.Write(r); err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
			client := serve(b, way.get)
			b.SetBytes(messages * rows * value)
			b.ReportAllocs()
			for b.Loop() {
				stream, err := client.DoGet(b.Context(), &flight.Ticket{})
				if err != nil {
					b.Fatal(err)
				}
				for {
					if _, err := stream.Recv(); err != nil {
						break
					}
				}
			}
		})
	}
}

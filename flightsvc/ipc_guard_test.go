package flightsvc

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// streamMessages are those of a stream with nested columns, dictionaries and
// compression.
func streamMessages(tb testing.TB) []*flight.FlightData {
	tb.Helper()
	m := arrow.MetadataFrom(map[string]string{"key": "value"})
	s := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Metadata: m},
		{Name: "pages", Nullable: true, Type: arrow.ListOf(arrow.StructOf(arrow.Field{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true}))},
		{Name: "word", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, Nullable: true},
	}, &m)
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	defer b.Release()
	for i := range 100 {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).AppendNull()
		if err := b.Field(2).(*array.BinaryDictionaryBuilder).AppendString("word"); err != nil {
			tb.Fatal(err)
		}
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	sent := &gathered{}
	w := flight.NewRecordWriter(sent, ipc.WithSchema(s), ipc.WithZstd())
	if err := w.Write(rec); err != nil {
		tb.Fatal(err)
	}
	_ = w.Close()
	return sent.messages
}

type gathered struct{ messages []*flight.FlightData }

func (g *gathered) Send(m *flight.FlightData) error {
	g.messages = append(g.messages, &flight.FlightData{DataHeader: bytes.Clone(m.DataHeader), DataBody: bytes.Clone(m.DataBody)})
	return nil
}

func TestMessagesOfRealStreamsPass(t *testing.T) {
	t.Parallel()
	all := streamMessages(t)
	if len(all) < 3 {
		t.Fatalf("%d messages", len(all))
	}
	for i, m := range all {
		if err := checkMessage(m); err != nil {
			t.Errorf("message %d: %v", i, err)
		}
	}
}

// Four bytes anywhere that claim an enormous length end in an error, not in an
// allocation.
func TestMessagesThatLie(t *testing.T) {
	t.Parallel()
	all, refused := streamMessages(t), 0
	for i, m := range all {
		for at := 0; at+4 <= len(m.DataHeader); at += 4 {
			damaged := &flight.FlightData{DataHeader: bytes.Clone(m.DataHeader), DataBody: m.DataBody}
			binary.LittleEndian.PutUint32(damaged.DataHeader[at:], 0x7ffffff0)
			sent := slices.Clone(all)
			sent[i] = damaged
			if checkMessage(damaged) != nil {
				refused++
				continue
			}
			rows, err := readPut(&played{sent})
			if err != nil {
				continue
			}
			for rows.Next() {
				continue
			}
			rows.Release()
		}
	}
	if refused < 10 {
		t.Errorf("%d lies were refused", refused)
	}
}

// played is a stream of messages.
type played struct{ rest []*flight.FlightData }

func (p *played) Recv() (*flight.FlightData, error) {
	if len(p.rest) == 0 {
		return nil, io.EOF
	}
	m := p.rest[0]
	p.rest = p.rest[1:]
	return m, nil
}

func FuzzMessage(f *testing.F) {
	for _, m := range streamMessages(f) {
		f.Add(m.DataHeader, m.DataBody)
	}
	f.Fuzz(func(_ *testing.T, header, body []byte) {
		_ = checkMessage(&flight.FlightData{DataHeader: header, DataBody: body})
	})
}

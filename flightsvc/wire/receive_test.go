package wire

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// cutUp gives the bytes as gRPC does, in buffers of any length.
func cutUp(raw []byte, rng *rand.Rand) (data mem.BufferSlice) {
	for len(raw) > 0 {
		n := 1 + rng.IntN(min(len(raw), 1+rng.IntN(300)))
		data = append(data, mem.SliceBuffer(raw[:n]))
		raw = raw[n:]
	}
	return data
}

func messages() map[string][]byte {
	descriptor := &flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: []byte(`{"table":"t"}`)}
	body := bytes.Repeat([]byte("0123456789"), 3000)
	m := map[string]proto.Message{
		"empty":      &flight.FlightData{},
		"schema":     &flight.FlightData{FlightDescriptor: descriptor, DataHeader: body[:300]},
		"batch":      &flight.FlightData{DataHeader: body[:77], AppMetadata: []byte("x"), DataBody: body},
		"body alone": &flight.FlightData{DataBody: body},
	}
	raw := map[string][]byte{}
	for name, message := range m {
		raw[name], _ = proto.Marshal(message)
	}
	twice := append(bytes.Clone(raw["batch"]), raw["schema"]...)
	raw["fields twice"] = twice
	raw["unknown field"] = protowire.AppendVarint(protowire.AppendTag(bytes.Clone(raw["batch"]), 77, protowire.VarintType), 5)
	raw["unknown bytes"] = protowire.AppendBytes(protowire.AppendTag(bytes.Clone(raw["batch"]), 3000, protowire.BytesType), []byte("y"))
	raw["field zero"] = append(bytes.Clone(raw["batch"]), 2, 0)
	raw["cut short"] = raw["batch"][:len(raw["batch"])-1]
	raw["length lies"] = []byte{0x12, 0xff, 0xff, 0xff, 0xff, 0x7f}
	raw["bad descriptor"] = []byte{0x0a, 2, 0x12, 9}
	return raw
}

// same compares the codec with protobuf's own.
func same(t *testing.T, raw []byte, data mem.BufferSlice) {
	t.Helper()
	var want, got flight.FlightData
	wantErr := proto.Unmarshal(raw, &want)
	gotErr := Codec().Unmarshal(data, &got)
	if (wantErr == nil) != (gotErr == nil) {
		t.Fatalf("error %v, want %v", gotErr, wantErr)
	}
	if wantErr == nil && !proto.Equal(&want, &got) {
		t.Errorf("another message than protobuf's own")
	}
}

func TestReceivedMessagesAreProtobufs(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for name, raw := range messages() {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				same(t, raw, cutUp(raw, rng))
			}
		})
	}
}

func FuzzReceive(f *testing.F) {
	for _, raw := range messages() {
		f.Add(raw, uint64(1))
	}
	f.Fuzz(func(t *testing.T, raw []byte, seed uint64) {
		same(t, raw, cutUp(raw, rand.New(rand.NewPCG(seed, 2))))
	})
}

// BenchmarkReceive reads a message of 4 MiB that came in frames of 16 KiB.
func BenchmarkReceive(b *testing.B) {
	raw, err := proto.Marshal(&flight.FlightData{DataHeader: make([]byte, 300), DataBody: make([]byte, 4<<20)})
	if err != nil {
		b.Fatal(err)
	}
	var data mem.BufferSlice
	for rest := raw; len(rest) > 0; {
		n := min(len(rest), 16<<10)
		data = append(data, mem.SliceBuffer(rest[:n]))
		rest = rest[n:]
	}
	for name, c := range map[string]interface {
		Unmarshal(mem.BufferSlice, any) error
	}{"ours": Codec(), "gRPC's": Codec().(codec).CodecV2} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Unmarshal(data, new(flight.FlightData)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

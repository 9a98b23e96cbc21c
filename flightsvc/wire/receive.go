package wire

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Unmarshal reads FlightData field by field into memory of its own, so that the
// body is copied once; gRPC's codec joins the parts of a message and then copies
// the body out of them. Messages of other types, and what is not plainly a
// FlightData, are that codec's.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(*flight.FlightData); ok && receive(data, m) == nil {
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// errOther says that a message needs a full reader of the protocol.
var errOther = errors.New("wire: another message than FlightData writers send")

// receive reads a message of which every field comes at most once.
func receive(data mem.BufferSlice, m *flight.FlightData) error {
	r := data.Reader()
	defer r.Close()
	var fields [4][]byte
	for r.Remaining() > 0 {
		tag, err := binary.ReadUvarint(r)
		if err != nil {
			return err
		}
		number, kind := protowire.DecodeTag(tag)
		at := int(number)
		if number == fieldBody {
			at = 0
		}
		if kind != protowire.BytesType || at >= len(fields) || at < 0 || number == 0 || fields[at] != nil {
			return errOther
		}
		n, err := binary.ReadUvarint(r)
		if err != nil {
			return err
		}
		if n > uint64(r.Remaining()) {
			return io.ErrUnexpectedEOF
		}
		fields[at] = make([]byte, n)
		if _, err := io.ReadFull(r, fields[at]); err != nil {
			return err
		}
	}
	var descriptor *flight.FlightDescriptor
	if raw := fields[fieldDescriptor]; raw != nil {
		descriptor = new(flight.FlightDescriptor)
		if err := proto.Unmarshal(raw, descriptor); err != nil {
			return err
		}
	}
	proto.Reset(m)
	m.FlightDescriptor, m.DataHeader, m.AppMetadata, m.DataBody = descriptor, fields[fieldHeader], fields[fieldAppMetadata], fields[0]
	return nil
}

package datafile

import (
	"context"
	"encoding/binary"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/schema"
)

// Description is what a file says about itself, in its global buffer 0. Files
// that no manifest describes, such as those of indexes, are read by it.
type Description struct {
	Schema *schema.Schema // with the file's schema metadata
	Rows   uint64
}

// maxDescription bounds the description of a file.
const maxDescription = 16 << 20

// Description is that of a file that was opened with Options.Describe, else nil.
func (r *Reader) Description() *Description { return r.description }

// describe reads the description. tail are the bytes of the file from tailAt
// to its end, which hold the table of global buffers unless it lies elsewhere.
func (r *Reader) describe(ctx context.Context, f footer, tail []byte, tailAt uint64) error {
	if f.buffers == 0 {
		return fault.Corruptf(int64(r.size)-footerSize, "datafile: the file does not describe itself: it has no global buffer")
	}
	read := func(at, size uint64) ([]byte, error) {
		if at >= tailAt {
			return tail[at-tailAt : at-tailAt+size], nil
		}
		p := make([]byte, size)
		return p, r.loc.ReadAt(ctx, p, int64(at))
	}
	entry, err := read(f.bufferTable, 16)
	if err != nil {
		return err
	}
	at, size := binary.LittleEndian.Uint64(entry), binary.LittleEndian.Uint64(entry[8:])
	if at > r.size || size > r.size-at || size > maxDescription {
		return fault.Corruptf(int64(f.bufferTable), "datafile: global buffer 0 at [%d, +%d)", at, size)
	}
	raw, err := read(at, size)
	if err != nil {
		return err
	}
	pb := new(lancepb.FileDescriptor)
	if err := proto.Unmarshal(raw, pb); err != nil {
		return fault.Corruptf(int64(at), "datafile: not a file description: %v", err)
	}
	records := make([]schema.Record, len(pb.GetSchema().GetFields()))
	for i, field := range pb.GetSchema().GetFields() {
		records[i] = schema.Record{
			ID: schema.FieldID(field.GetId()), ParentID: schema.FieldID(field.GetParentId()),
			Name: field.GetName(), LogicalType: field.GetLogicalType(), Nullable: field.GetNullable(),
			Extension: field.GetExtensionName(), Metadata: texts(field.GetMetadata()),
		}
	}
	tree, err := schema.FromRecords(records, texts(pb.GetSchema().GetMetadata()))
	if err != nil {
		return fault.At(int64(at), err)
	}
	r.description = &Description{Schema: tree, Rows: pb.GetLength()}
	if r.opts.Rows == 0 {
		r.opts.Rows = r.description.Rows
	}
	return nil
}

// texts reads metadata values, which are bytes on the wire, as UTF-8.
func texts(m map[string][]byte) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = strings.ToValidUTF8(string(v), "\uFFFD")
	}
	return out
}

package manifest

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// operations are the names of the operations by field number, section 2.7.
var operations = map[protowire.Number]string{
	100: "Append", 101: "Delete", 102: "Overwrite", 103: "CreateIndex", 104: "Rewrite", 105: "Merge",
	106: "Restore", 107: "ReserveFragments", 108: "Update", 109: "Project", 110: "UpdateConfig",
	111: "DataReplacement", 112: "UpdateMemWalState", 113: "Clone", 114: "UpdateBases", 115: "DataOverlay",
}

// DecodeOperation names the operation of a bare Transaction message, as a file
// in _transactions holds it. It is "" for an operation of a newer writer.
func DecodeOperation(data []byte) (string, error) {
	name := ""
	err := eachField(data, func(number protowire.Number) {
		if op, ok := operations[number]; ok {
			name = op
		}
	})
	return name, err
}

// inlineOperation reads the transaction inside the manifest file. A broken one
// must not stop a reader (section 1.3).
func inlineOperation(data []byte, pb *lancepb.Manifest) string {
	position := pb.TransactionSection
	if position == nil {
		position = pb.TransactionSectionDeprecated
	}
	if position == nil {
		return ""
	}
	body, err := section(data[:len(data)-footerSize], *position)
	if err != nil {
		return ""
	}
	name, err := DecodeOperation(body)
	if err != nil {
		return ""
	}
	return name
}

// setIndexes reads the index section. Presence of the offset says that there is
// one; offset 0 is an ordinary place.
func (m *Manifest) setIndexes(data []byte, pb *lancepb.Manifest) error {
	if pb.IndexSection == nil {
		return nil
	}
	body, err := section(data[:len(data)-footerSize], pb.GetIndexSection())
	if err != nil {
		return fault.Corruptf(-1, "manifest: the index section is at position %d: %v", int64(pb.GetIndexSection()), err)
	}
	if err := eachField(body, func(number protowire.Number) {
		if number == 1 {
			m.IndexCount++
		}
	}); err != nil {
		return fault.At(int64(pb.GetIndexSection())+4, err)
	}
	m.Indexes = indexes(body)
	return nil
}

// eachField walks the outermost fields of a message.
func eachField(data []byte, visit func(protowire.Number)) error {
	for rest := data; len(rest) > 0; {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return fault.Corruptf(int64(len(data)-len(rest)), "manifest: not a protobuf message: %v", protowire.ParseError(n))
		}
		size := protowire.ConsumeFieldValue(number, kind, rest[n:])
		if size < 0 {
			return fault.Corruptf(int64(len(data)-len(rest)), "manifest: not a protobuf message: %v", protowire.ParseError(size))
		}
		visit(number)
		rest = rest[n+size:]
	}
	return nil
}

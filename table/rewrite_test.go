package table_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/flightblob/flightblob/table/tabletest"
)

// Field numbers of Manifest and DataFragment, table-format sheet section 2.
const (
	manifestFragments   = 2
	manifestVersion     = 3
	manifestIndexes     = 6
	manifestReaderFlags = 9
	manifestWriterFlags = 10
	manifestFormat      = 15
	manifestBases       = 18
	manifestBranch      = 20
	manifestTransaction = 23
	fragmentID          = 1
	fragmentFiles       = 2
	fragmentRows        = 4
	fileMajor           = 4
	fileMinor           = 5
	fileBase            = 7
)

// pbField is one field of a message on the wire.
type pbField struct {
	number protowire.Number
	kind   protowire.Type
	varint uint64
	bytes  []byte
	raw    []byte // tag and value of other kinds
}

func parseMessage(t *testing.T, data []byte) []pbField {
	t.Helper()
	var fields []pbField
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		size := protowire.ConsumeFieldValue(number, kind, data[max(n, 0):])
		if n < 0 || size < 0 {
			t.Fatal("not a message")
		}
		f := pbField{number: number, kind: kind, raw: data[:n+size]}
		switch kind {
		case protowire.VarintType:
			f.varint, _ = protowire.ConsumeVarint(data[n:])
		case protowire.BytesType:
			f.bytes, _ = protowire.ConsumeBytes(data[n:])
		}
		fields = append(fields, f)
		data = data[n+size:]
	}
	return fields
}

func appendMessage(fields []pbField) []byte {
	var out []byte
	for _, f := range fields {
		switch f.kind {
		case protowire.VarintType:
			out = protowire.AppendTag(out, f.number, f.kind)
			out = protowire.AppendVarint(out, f.varint)
		case protowire.BytesType:
			out = protowire.AppendTag(out, f.number, f.kind)
			out = protowire.AppendBytes(out, f.bytes)
		default:
			out = append(out, f.raw...)
		}
	}
	return out
}

// set replaces or adds a number.
func set(fields []pbField, number protowire.Number, value uint64) []pbField {
	for i := range fields {
		if fields[i].number == number {
			fields[i].varint = value
			return fields
		}
	}
	return append(fields, pbField{number: number, kind: protowire.VarintType, varint: value})
}

func without(fields []pbField, numbers ...protowire.Number) []pbField {
	var kept []pbField
	for _, f := range fields {
		drop := false
		for _, n := range numbers {
			drop = drop || f.number == n
		}
		if !drop {
			kept = append(kept, f)
		}
	}
	return kept
}

// rewriteManifest changes the message of a manifest file, which loses its
// transaction and indexes.
func rewriteManifest(t *testing.T, path string, change func([]pbField) []pbField) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := binary.LittleEndian.Uint64(data[len(data)-16:])
	fields := parseMessage(t, data[at+4:len(data)-16])
	body := appendMessage(change(without(fields, manifestIndexes, 21, manifestTransaction)))
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	out = append(out, body...)
	out = binary.LittleEndian.AppendUint64(out, 0)
	out = append(out, 0, 0, 2, 0, 'L', 'A', 'N', 'C')
	if err := os.WriteFile(path, out, 0o600); err != nil {
		t.Fatal(err)
	}
}

// version1 is the manifest name of version 1.
const version1 = "_versions/18446744073709551614.manifest"

// copyFixture puts a copy of a golden table into a folder of the test.
func copyFixture(t *testing.T, fixture string) string {
	t.Helper()
	from := filepath.Join(tabletest.Root(t), "conformance", "fixtures", "tables", fixture, "table.lance")
	to := filepath.Join(t.TempDir(), "t.lance")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// multiply gives a table many fragments with the data file of its first.
func multiply(t *testing.T, path string, fragments int) {
	t.Helper()
	rewriteManifest(t, filepath.Join(path, version1), func(fields []pbField) []pbField {
		var first []pbField
		for _, f := range fields {
			if f.number == manifestFragments && first == nil {
				first = parseMessage(t, f.bytes)
			}
		}
		fields = without(fields, manifestFragments)
		for i := range fragments {
			body := appendMessage(set(first, fragmentID, uint64(i)))
			fields = append(fields, pbField{number: manifestFragments, kind: protowire.BytesType, bytes: body})
		}
		return fields
	})
}

package manifest

import (
	"bytes"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/rowset"
)

// indexEntries gives the entries of the index section as they are. Presence of
// the offset says that there is one; offset 0 is an ordinary place.
func indexEntries(data []byte, pb *lancepb.Manifest) ([][]byte, error) {
	if pb.IndexSection == nil {
		return nil, nil
	}
	body, err := section(data[:len(data)-footerSize], pb.GetIndexSection())
	if err != nil {
		return nil, fault.Corruptf(-1, "manifest: the index section is at position %d: %v", int64(pb.GetIndexSection()), err)
	}
	var entries [][]byte
	err = eachField(body, func(number protowire.Number, kind protowire.Type, value []byte) {
		if entry, n := protowire.ConsumeBytes(value); number == 1 && kind == protowire.BytesType && n >= 0 {
			entries = append(entries, bytes.Clone(entry))
		}
	})
	if err != nil {
		return nil, fault.At(int64(pb.GetIndexSection())+4, err)
	}
	return entries, nil
}

// indexEntry is what Apply needs to know of an entry of the index section.
type indexEntry struct {
	raw []byte
	pb  *lancepb.IndexMetadata
}

func parseEntries(raw [][]byte) ([]indexEntry, error) {
	out := make([]indexEntry, len(raw))
	for i, entry := range raw {
		pb := new(lancepb.IndexMetadata)
		if err := proto.Unmarshal(entry, pb); err != nil {
			return nil, fault.Corruptf(-1, "manifest: entry %d of the index section: %v", i, err)
		}
		out[i] = indexEntry{entry, pb}
	}
	return out, nil
}

func (e *indexEntry) system() bool { return strings.HasPrefix(e.pb.GetName(), systemIndex) }

// on says that the index depends on one of the fields; nil stands for all.
func (e *indexEntry) on(fields []schema.FieldID) bool {
	return fields == nil || slices.ContainsFunc(e.pb.GetFields(), func(id int32) bool { return slices.Contains(fields, schema.FieldID(id)) })
}

// unclaim takes fragments out of what indexes on some fields claim to cover,
// since their rows or values are others now; nil fields stand for all. An entry
// that does not say what it covers goes, and so does one whose bitmap names
// fragments by the ids they had before a compaction, which cannot be narrowed.
// Entries that are not touched stay byte for byte.
func (c *change) unclaim(fragments []uint64, fields []schema.FieldID) error {
	if len(c.next.entries) == 0 || fields != nil && len(fields) == 0 {
		return nil
	}
	entries, err := parseEntries(c.next.entries)
	if err != nil {
		return err
	}
	translated := slices.ContainsFunc(entries, func(e indexEntry) bool { return e.pb.GetName() == FragmentReuse })
	gone, err := rowset.Deleted(maxRows, slices.Values(fragments))
	if err != nil {
		return err
	}
	var kept [][]byte
	for i := range entries {
		e := &entries[i]
		if e.system() || !e.on(fields) {
			kept = append(kept, e.raw)
			continue
		}
		if e.pb.FragmentBitmap == nil || translated {
			continue
		}
		covered, err := rowset.DecodeDeletions(e.pb.GetFragmentBitmap(), true, maxRows)
		if err != nil {
			return fault.New(fault.Corrupt, "manifest: the fragments of index %q: %w", e.pb.GetName(), err)
		}
		if _, common := covered.Common(gone); !common {
			kept = append(kept, e.raw)
			continue
		}
		changed, err := withBytes(e.raw, 5, covered.Without(gone).EncodeBitmap())
		if err != nil {
			return err
		}
		kept = append(kept, changed)
	}
	c.next.entries = kept
	return nil
}

// dropColumns drops indexes on fields that the schema does not have any more.
func (c *change) dropColumns() error {
	return c.keepIndexes(func(e *indexEntry) bool {
		return e.system() || !slices.ContainsFunc(e.pb.GetFields(), func(id int32) bool { return c.next.Schema.ByID(schema.FieldID(id)) == nil })
	})
}

func (c *change) keepIndexes(keep func(*indexEntry) bool) error {
	if len(c.next.entries) == 0 {
		return nil
	}
	entries, err := parseEntries(c.next.entries)
	if err != nil {
		return err
	}
	var kept [][]byte
	for i := range entries {
		if keep(&entries[i]) {
			kept = append(kept, entries[i].raw)
		}
	}
	c.next.entries = kept
	return nil
}

// createIndex adds and removes entries by their uuids.
func (c *change) createIndex(op *CreateIndex) error {
	created, err := parseEntries(op.New)
	if err != nil {
		return err
	}
	removed, err := parseEntries(op.Removed)
	if err != nil {
		return err
	}
	gone := map[string]bool{}
	for _, e := range slices.Concat(created, removed) {
		gone[string(e.pb.GetUuid())] = true
	}
	if err := c.keepIndexes(func(e *indexEntry) bool { return !gone[string(e.pb.GetUuid())] }); err != nil {
		return err
	}
	c.next.entries = slices.Concat(c.next.entries, op.New)
	return nil
}

// refuseSystemIndexes refuses to move rows under entries that this program does
// not maintain. Notes of where rows were moved are of no use, and no obstacle,
// where no index is left that could need them.
func (c *change) refuseSystemIndexes() error {
	entries, err := parseEntries(c.next.entries)
	if err != nil {
		return err
	}
	needed := slices.ContainsFunc(entries, func(e indexEntry) bool { return !e.system() })
	for i := range entries {
		name := entries[i].pb.GetName()
		switch {
		case !entries[i].system(), name == FragmentReuse && !needed:
		case name == FragmentReuse:
			return fault.New(fault.Unsupported, "manifest: rows cannot be moved while the table has the entry %s, by which its indexes find rows that a deferred compaction moved; compact it with Lance, or drop its indexes first", name)
		default:
			return fault.New(fault.Unsupported, "manifest: rows cannot be moved while the table has the entry %s, which this program does not maintain", name)
		}
	}
	return nil
}

// rebaseIndexes gives the entries of a clone the base that their files lie in.
func (c *change) rebaseIndexes(rebase func(*uint32) *uint32) error {
	entries, err := parseEntries(c.next.entries)
	if err != nil {
		return err
	}
	out := make([][]byte, len(entries))
	for i, e := range entries {
		if out[i], err = withVarint(e.raw, 9, rebase(e.pb.BaseId)); err != nil {
			return err
		}
	}
	if len(out) > 0 {
		c.next.entries = out
	}
	return nil
}

// covering says that some index carries columns (flag 7).
func (m *Manifest) covering() (bool, error) {
	found := false
	for _, entry := range m.entries {
		err := eachField(entry, func(number protowire.Number, _ protowire.Type, _ []byte) { found = found || number == 11 })
		if err != nil {
			return false, err
		}
	}
	return found, nil
}

// withBytes gives an encoded message with another value of a bytes field.
func withBytes(raw []byte, number protowire.Number, value []byte) ([]byte, error) {
	out, err := without(raw, number)
	if err != nil {
		return nil, err
	}
	out = protowire.AppendTag(out, number, protowire.BytesType)
	return protowire.AppendBytes(out, value), nil
}

// withVarint gives an encoded message with another value of a number field, nil
// for none.
func withVarint(raw []byte, number protowire.Number, value *uint32) ([]byte, error) {
	out, err := without(raw, number)
	if value == nil || err != nil {
		return out, err
	}
	out = protowire.AppendTag(out, number, protowire.VarintType)
	return protowire.AppendVarint(out, uint64(*value)), nil
}

func without(raw []byte, number protowire.Number) ([]byte, error) {
	var out []byte
	err := eachField(raw, func(n protowire.Number, kind protowire.Type, value []byte) {
		if n != number {
			out = append(protowire.AppendTag(out, n, kind), value...)
		}
	})
	return out, err
}

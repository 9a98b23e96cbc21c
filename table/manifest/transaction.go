package manifest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/schema"
)

// DecodeOperation names the operation of a bare Transaction message, as a file
// in _transactions holds it. It is "" for an operation of a newer writer.
func DecodeOperation(data []byte) (string, error) {
	name := ""
	err := eachField(data, func(number protowire.Number, _ protowire.Type, _ []byte) {
		if k := Kind(number); k.known() {
			name = k.String()
		}
	})
	return name, err
}

// DecodeTransaction reads a bare Transaction message: the content of a file in
// _transactions, or of the section in a manifest file. An operation number that
// this program does not know gives an Unknown; a message without an operation
// or one that contradicts itself is fault.Corrupt.
func DecodeTransaction(data []byte) (*Transaction, error) {
	pb := new(lancepb.Transaction)
	if err := proto.Unmarshal(data, pb); err != nil {
		return nil, fault.Corruptf(-1, "manifest: not a transaction: %v", err)
	}
	t := &Transaction{ReadVersion: pb.GetReadVersion(), UUID: pb.GetUuid(), Tag: pb.GetTag(), Properties: pb.GetTransactionProperties()}
	// A newer operation wins over everything beside it, since a writer that
	// does not know it cannot tell what it leaves out.
	if u := unknownOperation(pb.ProtoReflect().GetUnknown()); u != nil {
		t.Op = u
		return t, nil
	}
	if err := knownDeep(pb); err != nil {
		return nil, err
	}
	op, err := operationFrom(pb)
	if err != nil {
		return nil, fmt.Errorf("manifest: transaction %q: %w", t.UUID, err)
	}
	t.Op = op
	return t, nil
}

// InlineTransaction reads the transaction inside a manifest file; nil without
// an error when there is none.
func InlineTransaction(file []byte) (*Transaction, error) {
	body, err := message(file)
	if err != nil {
		return nil, err
	}
	pb := new(lancepb.Manifest)
	if err := proto.Unmarshal(body, pb); err != nil {
		return nil, fault.Corruptf(-1, "manifest: not a manifest message: %v", err)
	}
	inline, err := inlineBytes(file, pb)
	if inline == nil || err != nil {
		return nil, err
	}
	return DecodeTransaction(inline)
}

// inlineBytes finds the transaction section of a manifest file, by its old
// field when the new one is absent; nil if there is neither.
func inlineBytes(data []byte, pb *lancepb.Manifest) ([]byte, error) {
	position := pb.TransactionSection
	if position == nil {
		position = pb.TransactionSectionDeprecated
	}
	if position == nil {
		return nil, nil
	}
	body, err := section(data[:len(data)-footerSize], *position)
	if err != nil {
		return nil, fault.Corruptf(-1, "manifest: the transaction is at position %d: %v", int64(*position), err)
	}
	return body, nil
}

// inlineOperation reads the name of the operation inside the manifest file. A
// broken transaction must not stop a reader (section 1.3).
func inlineOperation(data []byte, pb *lancepb.Manifest) string {
	body, err := inlineBytes(data, pb)
	if body == nil || err != nil {
		return ""
	}
	name, err := DecodeOperation(body)
	if err != nil {
		return ""
	}
	return name
}

// unknownOperation looks for an operation of a newer writer among the fields
// that the message does not have: numbers from 100 to 199.
func unknownOperation(rest []byte) *Unknown {
	var found *Unknown
	for len(rest) > 0 {
		number, kind, n := protowire.ConsumeField(rest)
		if n < 0 {
			return found
		}
		if k := Kind(number); k >= kindEnd && k < 200 {
			_, _, tag := protowire.ConsumeTag(rest)
			body := rest[tag:n]
			if kind == protowire.BytesType {
				body, _ = protowire.ConsumeBytes(body)
			}
			found = &Unknown{Number: k, Body: bytes.Clone(body)}
		}
		rest = rest[n:]
	}
	return found
}

func operationFrom(pb *lancepb.Transaction) (Operation, error) {
	switch op := pb.GetOperation().(type) {
	case *lancepb.Transaction_Append:
		fragments, err := fragmentsFrom(op.Append.GetFragments())
		return &Append{fragments}, err
	case *lancepb.Transaction_Delete:
		updated, err := fragmentsFrom(op.Delete.GetUpdatedFragments())
		return &Delete{updated, op.Delete.GetDeletedFragmentIds(), op.Delete.GetPredicate()}, err
	case *lancepb.Transaction_Overwrite:
		return overwriteFrom(op.Overwrite)
	case *lancepb.Transaction_CreateIndex:
		return &CreateIndex{New: op.CreateIndex.GetNewIndices(), Removed: op.CreateIndex.GetRemovedIndices()}, nil
	case *lancepb.Transaction_Rewrite:
		return rewriteFrom(op.Rewrite)
	case *lancepb.Transaction_Merge:
		fragments, err := fragmentsFrom(op.Merge.GetFragments())
		if err != nil {
			return nil, err
		}
		tree, err := schemaFrom(op.Merge.GetSchema(), op.Merge.GetSchemaMetadata())
		return &Merge{fragments, tree, op.Merge.GetPreservesNullability()}, err
	case *lancepb.Transaction_Restore:
		return &Restore{op.Restore.GetVersion()}, nil
	case *lancepb.Transaction_ReserveFragments:
		return &ReserveFragments{op.ReserveFragments.GetNumFragments()}, nil
	case *lancepb.Transaction_Update:
		return updateFrom(op.Update)
	case *lancepb.Transaction_Project:
		tree, err := schemaFrom(op.Project.GetSchema(), nil)
		return &Project{tree, op.Project.GetPreservesNullability()}, err
	case *lancepb.Transaction_UpdateConfig:
		return updateConfigFrom(op.UpdateConfig)
	case *lancepb.Transaction_DataReplacement:
		return replacementFrom(op.DataReplacement)
	case *lancepb.Transaction_UpdateMemWalState:
		return &UpdateMemWalState{compactedFrom(op.UpdateMemWalState.GetCompactedSstables())}, nil
	case *lancepb.Transaction_Clone:
		c := op.Clone
		return &Clone{c.GetIsShallow(), c.GetRefName(), c.GetRefVersion(), c.GetRefPath(), c.GetBranchName()}, nil
	case *lancepb.Transaction_UpdateBases:
		return &UpdateBases{basesFrom(op.UpdateBases.GetNewBases())}, nil
	case *lancepb.Transaction_DataOverlay:
		o := &DataOverlay{}
		for _, g := range op.DataOverlay.GetGroups() {
			o.Groups = append(o.Groups, OverlayGroup{g.GetFragmentId(), g.GetOverlays()})
		}
		return o, nil
	}
	return nil, fault.Corruptf(-1, "it has no operation")
}

func fragmentsFrom(list []*lancepb.DataFragment) ([]Fragment, error) {
	out := make([]Fragment, len(list))
	for i, pb := range list {
		if err := out[i].set(pb); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func schemaFrom(fields []*lancepb.Field, metadata map[string][]byte) (*schema.Schema, error) {
	return schema.FromRecords(records(fields), texts(metadata))
}

func basesFrom(list []*lancepb.BasePath) []Base {
	var out []Base
	for _, b := range list {
		out = append(out, baseFrom(b))
	}
	return out
}

func overwriteFrom(pb *lancepb.OverwriteOp) (*Overwrite, error) {
	fragments, err := fragmentsFrom(pb.GetFragments())
	if err != nil {
		return nil, err
	}
	tree, err := schemaFrom(pb.GetSchema(), pb.GetSchemaMetadata())
	return &Overwrite{fragments, tree, pb.GetConfigUpsertValues(), basesFrom(pb.GetInitialBases())}, err
}

// rewriteFrom reads old transactions too, which know one group only.
func rewriteFrom(pb *lancepb.RewriteOp) (*Rewrite, error) {
	groups := pb.GetGroups()
	if len(groups) == 0 && len(pb.GetOldFragments())+len(pb.GetNewFragments()) > 0 {
		groups = []*lancepb.RewriteOp_Group{{OldFragments: pb.GetOldFragments(), NewFragments: pb.GetNewFragments()}}
	}
	op := &Rewrite{Rewritten: pb.GetRewrittenIndices()}
	for _, g := range groups {
		before, err := fragmentsFrom(g.GetOldFragments())
		if err != nil {
			return nil, err
		}
		after, err := fragmentsFrom(g.GetNewFragments())
		if err != nil {
			return nil, err
		}
		op.Groups = append(op.Groups, RewriteGroup{Old: before, New: after})
	}
	return op, nil
}

func updateFrom(pb *lancepb.UpdateOp) (*Update, error) {
	op := &Update{
		Removed:   pb.GetRemovedFragmentIds(),
		Mode:      UpdateMode(pb.GetUpdateMode()),
		Inserted:  keyFilterFrom(pb.GetInsertedRows()),
		Offsets:   pb.GetUpdatedFragmentOffsetBitmaps(),
		Compacted: compactedFrom(pb.GetCompactedSstables()),
	}
	var err error
	if op.Updated, err = fragmentsFrom(pb.GetUpdatedFragments()); err != nil {
		return nil, err
	}
	if op.New, err = fragmentsFrom(pb.GetNewFragments()); err != nil {
		return nil, err
	}
	if op.FieldsModified, err = fieldIDs(pb.GetFieldsModified()); err != nil {
		return nil, err
	}
	if op.FieldsMoved, err = fieldIDs(pb.GetFieldsForPreservingFragBitmap()); err != nil {
		return nil, err
	}
	if len(op.Offsets) == 0 && len(pb.GetUpdatedFragmentOffsets()) > 0 {
		op.Offsets = make(map[uint64][]byte, len(pb.GetUpdatedFragmentOffsets()))
		for id, list := range pb.GetUpdatedFragmentOffsets() {
			op.Offsets[id] = bitmapOf(list.GetValues())
		}
	}
	return op, nil
}

func fieldIDs(list []uint32) ([]schema.FieldID, error) {
	var out []schema.FieldID
	for _, id := range list {
		if id > 1<<31-1 {
			return nil, fault.Corruptf(-1, "%d is no field id", id)
		}
		out = append(out, schema.FieldID(id))
	}
	return out, nil
}

func keyFilterFrom(pb *lancepb.KeyExistenceFilter) *KeyFilter {
	if pb == nil {
		return nil
	}
	f := &KeyFilter{Exact: pb.GetExact().GetKeyHashes()}
	for _, id := range pb.GetFieldIds() {
		f.Fields = append(f.Fields, schema.FieldID(id))
	}
	if b := pb.GetBloom(); b != nil {
		f.Bloom = &Bloom{Bitmap: b.GetBitmap(), Bits: b.GetNumBits(), Items: b.GetNumberOfItems(), Probability: b.GetProbability()}
	}
	return f
}

func compactedFrom(list []*lancepb.CompactedSsTable) []CompactedTable {
	var out []CompactedTable
	for _, c := range list {
		out = append(out, CompactedTable{Shard: c.GetShardId().GetUuid(), Generation: c.GetGeneration()})
	}
	return out
}

// updateConfigFrom puts the words of old writers, which may not stand beside
// the new ones, into the new ones: maps of theirs replace whole maps of
// metadata.
func updateConfigFrom(pb *lancepb.UpdateConfigOp) (*UpdateConfig, error) {
	op := &UpdateConfig{
		Config:         updateMapFrom(pb.GetConfigUpdates()),
		TableMetadata:  updateMapFrom(pb.GetTableMetadataUpdates()),
		SchemaMetadata: updateMapFrom(pb.GetSchemaMetadataUpdates()),
	}
	if fields := pb.GetFieldMetadataUpdates(); len(fields) > 0 {
		op.FieldMetadata = make(map[schema.FieldID]UpdateMap, len(fields))
		for id, m := range fields {
			op.FieldMetadata[schema.FieldID(id)] = *updateMapFrom(m)
		}
	}
	before := len(pb.GetUpsertValues()) + len(pb.GetDeleteKeys()) + len(pb.GetSchemaMetadata()) + len(pb.GetFieldMetadata())
	if before == 0 {
		return op, nil
	}
	if op.Config != nil || op.TableMetadata != nil || op.SchemaMetadata != nil || op.FieldMetadata != nil {
		return nil, fault.Corruptf(-1, "the change of the configuration is told in old and in new words")
	}
	if len(pb.GetUpsertValues())+len(pb.GetDeleteKeys()) > 0 {
		op.Config = &UpdateMap{Entries: entriesOf(pb.GetUpsertValues())}
		for _, key := range pb.GetDeleteKeys() {
			op.Config.Entries = append(op.Config.Entries, Unset(key))
		}
	}
	if len(pb.GetSchemaMetadata()) > 0 {
		op.SchemaMetadata = &UpdateMap{Entries: entriesOf(pb.GetSchemaMetadata()), Replace: true}
	}
	for id, m := range pb.GetFieldMetadata() {
		if op.FieldMetadata == nil {
			op.FieldMetadata = map[schema.FieldID]UpdateMap{}
		}
		op.FieldMetadata[schema.FieldID(int32(id))] = UpdateMap{Entries: entriesOf(m.GetMetadata()), Replace: true}
	}
	return op, nil
}

func entriesOf(m map[string]string) []UpdateEntry {
	var out []UpdateEntry
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, Set(key, m[key]))
	}
	return out
}

func updateMapFrom(pb *lancepb.UpdateMap) *UpdateMap {
	if pb == nil {
		return nil
	}
	m := &UpdateMap{Replace: pb.GetReplace()}
	for _, e := range pb.GetUpdateEntries() {
		m.Entries = append(m.Entries, UpdateEntry{Key: e.GetKey(), Value: e.Value})
	}
	return m
}

func replacementFrom(pb *lancepb.DataReplacementOp) (*DataReplacement, error) {
	op := &DataReplacement{}
	for _, g := range pb.GetReplacements() {
		r := Replacement{FragmentID: g.GetFragmentId()}
		if g.GetNewFile() == nil {
			return nil, fault.Corruptf(-1, "the replacement in fragment %d has no file", r.FragmentID)
		}
		if err := r.File.set(g.GetNewFile()); err != nil {
			return nil, err
		}
		op.Replacements = append(op.Replacements, r)
	}
	return op, nil
}

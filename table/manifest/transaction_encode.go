package manifest

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/schema"
)

// Encode gives the bare message: the content of the transaction's file, and of
// the section that a manifest file carries. Equal transactions give equal bytes.
func (t *Transaction) Encode() ([]byte, error) {
	pb := &lancepb.Transaction{ReadVersion: t.ReadVersion, Uuid: t.UUID, Tag: t.Tag, TransactionProperties: t.Properties}
	if u, ok := t.Op.(*Unknown); ok {
		body := protowire.AppendTag(nil, protowire.Number(u.Number), protowire.BytesType)
		pb.ProtoReflect().SetUnknown(protowire.AppendBytes(body, u.Body))
		return marshal(pb)
	}
	if err := setOperation(pb, t.Op); err != nil {
		return nil, err
	}
	return marshal(pb)
}

func setOperation(pb *lancepb.Transaction, op Operation) error {
	switch op := op.(type) {
	case *Append:
		pb.Operation = &lancepb.Transaction_Append{Append: &lancepb.AppendOp{Fragments: fragmentMessages(op.Fragments)}}
	case *Delete:
		pb.Operation = &lancepb.Transaction_Delete{Delete: &lancepb.DeleteOp{
			UpdatedFragments: fragmentMessages(op.Updated), DeletedFragmentIds: op.Deleted, Predicate: op.Predicate,
		}}
	case *Overwrite:
		pb.Operation = &lancepb.Transaction_Overwrite{Overwrite: &lancepb.OverwriteOp{
			Fragments: fragmentMessages(op.Fragments), Schema: fieldMessages(op.Schema), SchemaMetadata: octets(op.Schema.Metadata),
			ConfigUpsertValues: op.ConfigUpserts, InitialBases: basesInOrder(op.InitialBases),
		}}
	case *CreateIndex:
		pb.Operation = &lancepb.Transaction_CreateIndex{CreateIndex: &lancepb.CreateIndexOp{NewIndices: op.New, RemovedIndices: op.Removed}}
	case *Rewrite:
		rewrite := &lancepb.RewriteOp{RewrittenIndices: op.Rewritten}
		for _, g := range op.Groups {
			rewrite.Groups = append(rewrite.Groups, &lancepb.RewriteOp_Group{OldFragments: fragmentMessages(g.Old), NewFragments: fragmentMessages(g.New)})
		}
		pb.Operation = &lancepb.Transaction_Rewrite{Rewrite: rewrite}
	case *Merge:
		pb.Operation = &lancepb.Transaction_Merge{Merge: &lancepb.MergeOp{
			Fragments: fragmentMessages(op.Fragments), Schema: fieldMessages(op.Schema), SchemaMetadata: octets(op.Schema.Metadata),
			PreservesNullability: op.PreservesNullability,
		}}
	case *Restore:
		pb.Operation = &lancepb.Transaction_Restore{Restore: &lancepb.RestoreOp{Version: op.Version}}
	case *ReserveFragments:
		pb.Operation = &lancepb.Transaction_ReserveFragments{ReserveFragments: &lancepb.ReserveFragmentsOp{NumFragments: op.Count}}
	case *Update:
		pb.Operation = &lancepb.Transaction_Update{Update: op.message()}
	case *Project:
		pb.Operation = &lancepb.Transaction_Project{Project: &lancepb.ProjectOp{Schema: fieldMessages(op.Schema), PreservesNullability: op.PreservesNullability}}
	case *UpdateConfig:
		pb.Operation = &lancepb.Transaction_UpdateConfig{UpdateConfig: op.message()}
	case *DataReplacement:
		replacement := &lancepb.DataReplacementOp{}
		for i := range op.Replacements {
			r := &op.Replacements[i]
			replacement.Replacements = append(replacement.Replacements, &lancepb.DataReplacementOp_Group{FragmentId: r.FragmentID, NewFile: r.File.message()})
		}
		pb.Operation = &lancepb.Transaction_DataReplacement{DataReplacement: replacement}
	case *UpdateMemWalState:
		pb.Operation = &lancepb.Transaction_UpdateMemWalState{UpdateMemWalState: &lancepb.UpdateMemWalStateOp{CompactedSstables: compactedMessages(op.Compacted)}}
	case *Clone:
		clone := &lancepb.CloneOp{IsShallow: op.Shallow, RefVersion: op.RefVersion, RefPath: op.RefPath}
		if op.RefName != "" {
			clone.RefName = proto.String(op.RefName)
		}
		if op.BranchName != "" {
			clone.BranchName = proto.String(op.BranchName)
		}
		pb.Operation = &lancepb.Transaction_Clone{Clone: clone}
	case *UpdateBases:
		pb.Operation = &lancepb.Transaction_UpdateBases{UpdateBases: &lancepb.UpdateBasesOp{NewBases: basesInOrder(op.Bases)}}
	case *DataOverlay:
		overlay := &lancepb.DataOverlayOp{}
		for _, g := range op.Groups {
			overlay.Groups = append(overlay.Groups, &lancepb.DataOverlayOp_Group{FragmentId: g.FragmentID, Overlays: g.Overlays})
		}
		pb.Operation = &lancepb.Transaction_DataOverlay{DataOverlay: overlay}
	default:
		return fault.New(fault.Internal, "manifest: %T is no operation", op)
	}
	return nil
}

func basesInOrder(bases []Base) []*lancepb.BasePath {
	var out []*lancepb.BasePath
	for _, b := range bases {
		out = append(out, b.message())
	}
	return out
}

func (op *Update) message() *lancepb.UpdateOp {
	pb := &lancepb.UpdateOp{
		RemovedFragmentIds:            op.Removed,
		UpdatedFragments:              fragmentMessages(op.Updated),
		NewFragments:                  fragmentMessages(op.New),
		FieldsModified:                unsigned(op.FieldsModified),
		CompactedSstables:             compactedMessages(op.Compacted),
		FieldsForPreservingFragBitmap: unsigned(op.FieldsMoved),
		UpdateMode:                    lancepb.UpdateOp_Mode(op.Mode),
		UpdatedFragmentOffsetBitmaps:  op.Offsets,
	}
	if f := op.Inserted; f != nil {
		pb.InsertedRows = &lancepb.KeyExistenceFilter{}
		for _, id := range f.Fields {
			pb.InsertedRows.FieldIds = append(pb.InsertedRows.FieldIds, int32(id))
		}
		if b := f.Bloom; b != nil {
			pb.InsertedRows.Data = &lancepb.KeyExistenceFilter_Bloom_{Bloom: &lancepb.KeyExistenceFilter_Bloom{
				Bitmap: b.Bitmap, NumBits: b.Bits, NumberOfItems: b.Items, Probability: b.Probability,
			}}
		} else {
			pb.InsertedRows.Data = &lancepb.KeyExistenceFilter_Exact_{Exact: &lancepb.KeyExistenceFilter_Exact{KeyHashes: f.Exact}}
		}
	}
	return pb
}

func unsigned(ids []schema.FieldID) []uint32 {
	var out []uint32
	for _, id := range ids {
		out = append(out, uint32(id))
	}
	return out
}

func compactedMessages(list []CompactedTable) []*lancepb.CompactedSsTable {
	var out []*lancepb.CompactedSsTable
	for _, c := range list {
		out = append(out, &lancepb.CompactedSsTable{ShardId: &lancepb.ShardUUID{Uuid: c.Shard}, Generation: c.Generation})
	}
	return out
}

func (op *UpdateConfig) message() *lancepb.UpdateConfigOp {
	pb := &lancepb.UpdateConfigOp{
		ConfigUpdates:         op.Config.message(),
		TableMetadataUpdates:  op.TableMetadata.message(),
		SchemaMetadataUpdates: op.SchemaMetadata.message(),
	}
	if len(op.FieldMetadata) > 0 {
		pb.FieldMetadataUpdates = make(map[int32]*lancepb.UpdateMap, len(op.FieldMetadata))
		for id, m := range op.FieldMetadata {
			pb.FieldMetadataUpdates[int32(id)] = m.message()
		}
	}
	return pb
}

func (u *UpdateMap) message() *lancepb.UpdateMap {
	if u == nil {
		return nil
	}
	pb := &lancepb.UpdateMap{Replace: u.Replace}
	for _, e := range u.Entries {
		pb.UpdateEntries = append(pb.UpdateEntries, &lancepb.UpdateMap_Entry{Key: e.Key, Value: e.Value})
	}
	return pb
}

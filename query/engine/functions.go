package engine

import (
	"context"
	"errors"
	"math"
	"math/big"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sync/errgroup"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/reference"
	"github.com/flightblob/flightblob/schema"
)

var (
	referenceField  = arrow.Field{Name: "b", Type: reference.Type, Nullable: true, Metadata: ReferenceMetadata}
	descriptorField = arrow.Field{Name: "descriptor", Type: schema.DescriptorType, Nullable: true}
)

// parallel is how many requests to stores a function has under way.
const parallel = 8

// descriptors answers blob_descriptor. Children that the descriptor leaves open
// stay null.
func descriptors(_ *DB, all []checked, _ []vector, out vector) error {
	var children [reference.SourceChild]vector
	for i := range children {
		children[i] = out.child(i)
	}
	kind, position := values[uint8](children[0]), values[uint64](children[1])
	size, id := values[uint64](children[2]), values[uint32](children[3])
	for i := range all {
		v := &all[i]
		if v.origin == nil {
			out.setNull(i)
			for c := range children { // nulls of a struct hold in its children too
				children[c].setNull(i)
			}
			continue
		}
		kind[i], position[i], size[i], id[i] = uint8(v.Kind), v.Position, v.Size, v.ID
		children[4].setBytes(i, []byte(v.URI))
		for c := range children {
			if v.Nulls>>c&1 == 1 {
				children[c].setNull(i)
			}
		}
	}
	return nil
}

// sizes answers blob_size: from the descriptor, but for whole External objects,
// whose stores are asked.
func sizes(_ *DB, all []checked, _ []vector, out vector) error {
	open := make([]checked, 0, len(all))
	where := make([]int, 0, len(all))
	result := values[uint64](out)
	for i := range all {
		v := &all[i]
		switch {
		case v.origin == nil:
			out.setNull(i)
		case v.Kind == blob.External && v.Size == 0: // NUL-9
			open, where = append(open, *v), append(where, i)
		default:
			result[i] = v.Size
		}
	}
	found, err := lengths(open)
	if err != nil {
		var v *valueError
		if errors.As(err, &v) {
			v.index = where[v.index]
		}
		return err
	}
	for k, i := range where {
		result[i] = found[k].Length
	}
	return nil
}

// plainSizes answers blob_size of a BLOB.
func plainSizes(in, out vector) {
	result := values[uint64](out)
	for i := range result {
		if in.isNull(i) {
			out.setNull(i)
			continue
		}
		result[i] = uint64(in.length(i))
	}
}

func kindNames(_ *DB, all []checked, _ []vector, out vector) error {
	for i := range all {
		if all[i].origin == nil {
			out.setNull(i)
			continue
		}
		out.setBytes(i, []byte(all[i].Kind.String()))
	}
	return nil
}

// uris answers blob_uri: the absolute URI of External values, null for others.
func uris(_ *DB, all []checked, _ []vector, out vector) error {
	for i := range all {
		v := &all[i]
		if v.origin == nil || v.Kind != blob.External {
			out.setNull(i)
			continue
		}
		uri, err := v.origin.Resolver.ExternalURI(v.Descriptor)
		if err != nil {
			return &valueError{i, err}
		}
		out.setBytes(i, []byte(uri))
	}
	return nil
}

// lengths resolves all values to extents of known length.
func lengths(all []checked) ([]blob.Extent, error) {
	extents := make([]blob.Extent, len(all))
	group := errgroup.Group{}
	group.SetLimit(parallel)
	asked := map[string][]int{} // whole objects by URI
	for i := range all {
		v := &all[i]
		if v.origin == nil {
			continue
		}
		e, err := v.origin.Resolver.Resolve(v.origin.Context, v.Descriptor, v.origin.Owner)
		if err != nil {
			return nil, &valueError{i, err}
		}
		extents[i] = e
		if e.Whole {
			key := e.Object.String()
			asked[key] = append(asked[key], i)
		}
	}
	for _, rows := range asked {
		group.Go(func() (err error) {
			defer fault.Recover("engine", &err)
			n, err := blob.Length(all[rows[0]].origin.Context, extents[rows[0]])
			if err != nil {
				return &valueError{rows[0], missing(extents[rows[0]], err)}
			}
			for _, i := range rows {
				extents[i] = extents[i].Sized(n)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return extents, nil
}

// missing says what the absence of an object means: Lance-owned bytes are lost,
// External ones may be gone.
func missing(e blob.Extent, err error) error {
	if fault.KindOf(err) != fault.NotFound {
		return err
	}
	if e.Owned {
		return &fault.Error{Kind: fault.Corrupt, Object: e.Object.String(), Offset: -1, Text: "the object is missing"}
	}
	return fault.New(fault.NotFound, "external object %s does not exist", e.Object)
}

// payloads answers blob_bytes and the cast to BLOB.
func payloads(db *DB, all []checked, _ []vector, out vector) error {
	extents, err := lengths(all)
	if err != nil {
		return err
	}
	return db.read(all, extents, out)
}

// huge is DuckDB's HUGEINT.
type huge struct {
	lower uint64
	upper int64
}

// String writes the number in decimals.
func (h huge) String() string {
	n := new(big.Int).Lsh(big.NewInt(h.upper), 64)
	return n.Add(n, new(big.Int).SetUint64(h.lower)).String()
}

// ranges answers blob_range. A range must lie within its value (RES-14).
func ranges(db *DB, all []checked, args []vector, out vector) error {
	offsets, counts := values[huge](args[0]), values[huge](args[1])
	wanted := make([]checked, len(all))
	for i := range all {
		if args[0].isNull(i) || args[1].isNull(i) {
			continue
		}
		if offsets[i].upper != 0 || counts[i].upper != 0 {
			return &valueError{i, fault.New(fault.Invalid, "offset and length are whole numbers from 0 to 2^64-1")}
		}
		if err := blob.CheckRange(offsets[i].lower, counts[i].lower); err != nil {
			return &valueError{i, err}
		}
		wanted[i] = all[i]
	}
	extents, err := lengths(wanted)
	if err != nil {
		return err
	}
	for i := range wanted {
		if wanted[i].origin == nil {
			continue
		}
		if extents[i], err = extents[i].Slice(offsets[i].lower, counts[i].lower); err != nil {
			return &valueError{i, err}
		}
	}
	return db.read(wanted, extents, out)
}

// read copies the bytes of extents into a vector. What one step reads is
// limited: the engine holds all of it at once.
func (db *DB) read(all []checked, extents []blob.Extent, out vector) error {
	total := uint64(0)
	for i := range extents {
		e := &extents[i]
		if all[i].origin == nil {
			continue
		}
		if e.Length > math.MaxUint32-64 {
			return &valueError{i, fault.New(fault.Exhausted, "a value of %d bytes is larger than the 4 GiB that a BLOB of the SQL engine holds; "+
				"select the column itself, or read it in pieces with blob_range", e.Length)}
		}
		if e.Offset > math.MaxInt64-e.Length {
			return &valueError{i, fault.Corruptf(-1, "range of %d bytes at %d is beyond any object", e.Length, e.Offset)}
		}
		total += e.Length
	}
	if total > uint64(db.blobs) {
		return fault.New(fault.Exhausted, "%d bytes in one step are more than the %d that functions over blobs may read at a time; "+
			"select the column itself instead of its bytes, or read less with blob_range", total, db.blobs)
	}
	values := make([][]byte, len(all))
	group := errgroup.Group{}
	group.SetLimit(parallel)
	for i := range all {
		e := extents[i]
		if all[i].origin == nil || e.Length == 0 {
			continue
		}
		ctx := all[i].origin.Context
		group.Go(func() (err error) {
			defer fault.Recover("engine", &err)
			if values[i], err = fetch(ctx, e); err != nil {
				return &valueError{i, err}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i := range all {
		if all[i].origin == nil {
			out.setNull(i)
			continue
		}
		out.setBytes(i, values[i])
	}
	return nil
}

// large is the size from which the object's length is asked for before memory
// is taken: a descriptor's word is not enough then.
const large = 1 << 20

func fetch(ctx context.Context, e blob.Extent) ([]byte, error) {
	if e.Length >= large {
		size, err := e.Object.Size(ctx)
		if err != nil {
			return nil, missing(e, err)
		}
		if uint64(size) < e.Offset+e.Length {
			return nil, &fault.Error{
				Kind: fault.Corrupt, Object: e.Object.String(), Offset: int64(e.Offset),
				Text: "the object ends before the value does",
			}
		}
	}
	data := make([]byte, e.Length)
	if err := e.Object.ReadAt(ctx, data, int64(e.Offset)); err != nil {
		return nil, missing(e, err)
	}
	return data, nil
}

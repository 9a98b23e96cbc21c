package manifest

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/schema"
)

// checkWire refuses fields that this program knows but that stand there with
// another wire type. The protobuf runtime takes them for unknown ones and goes
// on without them, which would change what a version says.
func checkWire(pb *lancepb.Manifest) error {
	if err := known(pb); err != nil {
		return err
	}
	for _, m := range []proto.Message{pb.GetTimestamp(), pb.GetWriterVersion(), pb.GetDataFormat()} {
		if err := known(m); err != nil {
			return err
		}
	}
	for _, f := range pb.GetFields() {
		if err := known(f); err != nil {
			return err
		}
	}
	for _, b := range pb.GetBasePaths() {
		if err := known(b); err != nil {
			return err
		}
	}
	for _, f := range pb.GetFragments() {
		if err := known(f); err != nil {
			return err
		}
		if err := known(f.GetDeletionFile()); err != nil {
			return err
		}
		for _, d := range f.GetFiles() {
			if err := known(d); err != nil {
				return err
			}
		}
	}
	return nil
}

// known looks through what the runtime did not understand of one message.
func known(m proto.Message) error {
	r := m.ProtoReflect()
	rest := r.GetUnknown()
	for len(rest) > 0 {
		number, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			return fault.Corruptf(-1, "manifest: bytes of a %s that are no field", r.Descriptor().Name())
		}
		if f := r.Descriptor().Fields().ByNumber(number); f != nil {
			return fault.Corruptf(-1, "manifest: field %s of a %s has another wire type", f.Name(), r.Descriptor().Name())
		}
		rest = rest[n:]
	}
	return nil
}

// checkColumns refuses data files that list a field which owns no column, as
// plain structs, lists and maps do from format 2.1 on: the schema or the file
// list is damaged, and rows read by it would be of another shape.
func (m *Manifest) checkColumns() error {
	parents := map[schema.FieldID]string{}
	for f := range m.Schema.All() {
		if f.Shape != schema.Leaf {
			parents[f.ID] = f.FullName()
		}
	}
	if len(parents) == 0 {
		return nil
	}
	for i := range m.Fragments {
		for j := range m.Fragments[i].Files {
			d := &m.Fragments[i].Files[j]
			if d.Major < 2 || d.Minor == 0 {
				continue // formats before 2.1 have columns for them
			}
			for k, id := range d.Fields {
				if name, ok := parents[id]; ok && d.Columns[k] >= 0 {
					return fault.Corruptf(-1, "manifest: data file %s of fragment %d has a column for %q, which is a struct or a list", d.Path, m.Fragments[i].ID, name)
				}
			}
		}
	}
	return nil
}

// knownDeep is known for a message and all below it.
func knownDeep(m proto.Message) error {
	if err := known(m); err != nil {
		return err
	}
	var err error
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			if f.MapValue().Kind() == protoreflect.MessageKind {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					err = knownDeep(v.Message().Interface())
					return err == nil
				})
			}
		case f.Kind() != protoreflect.MessageKind:
		case f.IsList():
			for i := 0; i < v.List().Len() && err == nil; i++ {
				err = knownDeep(v.List().Get(i).Message().Interface())
			}
		default:
			err = knownDeep(v.Message().Interface())
		}
		return err == nil
	})
	return err
}

// eachField walks the outermost fields of a message.
func eachField(data []byte, visit func(number protowire.Number, kind protowire.Type, value []byte)) error {
	for rest := data; len(rest) > 0; {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return fault.Corruptf(int64(len(data)-len(rest)), "manifest: not a protobuf message: %v", protowire.ParseError(n))
		}
		size := protowire.ConsumeFieldValue(number, kind, rest[n:])
		if size < 0 {
			return fault.Corruptf(int64(len(data)-len(rest)), "manifest: not a protobuf message: %v", protowire.ParseError(size))
		}
		visit(number, kind, rest[n:n+size])
		rest = rest[n+size:]
	}
	return nil
}

package schema

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
)

// fileVersion is a version of the file format that rows can be written in.
type fileVersion string

// parseFileVersion refuses versions that nobody can write any more or yet.
func parseFileVersion(text string) (fileVersion, error) {
	switch text {
	case "":
		return DefaultFileVersion, nil
	case "2.0", "2.1", "2.2", "2.3":
		return fileVersion(text), nil
	}
	return "", fault.New(fault.Invalid, "schema: file version %s is unknown; it may be 2.0, 2.1, 2.2 or 2.3", fault.Quote(text))
}

func (v fileVersion) before22() bool { return v < "2.2" }
func (v fileVersion) before23() bool { return v < "2.3" }

// holdable refuses trees that files of a version cannot hold, as found by
// writing and reading them with the reference: it takes some of them and then
// fails on the first batch, or cannot read what it wrote.
func (s *Schema) holdable(v fileVersion) error {
	for _, f := range s.Fields {
		if err := v.holds(f, around{}); err != nil {
			return err
		}
	}
	return nil
}

// around is what lies above a field, as far as it restricts the field.
type around struct {
	list   bool // some list, large list or map
	fixed  bool // a fixed-size list of structs
	packed bool // a packed struct
}

func (v fileVersion) holds(f *Field, at around) error {
	if f.Blob != NotBlob {
		return nil
	}
	refuse := func(what string) error {
		return fault.New(fault.Invalid, "schema: field %s: files of version %s cannot hold %s", f.dotted(), v, what)
	}
	below := at
	switch f.Shape {
	case List, LargeList, Map:
		switch {
		case f.Shape == Map && v.before22():
			return refuse("maps; 2.2 and later can")
		case at.packed:
			return refuse("lists or maps in a packed struct")
		case at.fixed && v.before23():
			return refuse("lists or maps in a fixed-size list of structs; 2.3 can")
		}
		below.list = true
	case FixedSizeList:
		switch {
		case v.before22():
			return refuse("fixed-size lists of structs; 2.2 and later can")
		case at.packed:
			return refuse("fixed-size lists of structs in a packed struct")
		case at.list && v.before23():
			return refuse("fixed-size lists of structs in a list; 2.3 can")
		}
		below.fixed = true
	case Struct:
		if at.packed {
			return v.holdsStruct(f, at, refuse)
		}
	case Leaf:
		return v.holdsLeaf(f, at, refuse)
	}
	for _, c := range f.Children {
		if err := v.holds(c, below); err != nil {
			return err
		}
	}
	return nil
}

func (v fileVersion) holdsLeaf(f *Field, at around, refuse func(string) error) error {
	if f.Logical == "struct" {
		return v.holdsStruct(f, at, refuse)
	}
	if at.packed {
		switch f.Storage.ID() {
		case arrow.BOOL, arrow.DICTIONARY, arrow.NULL:
			return refuse("values of type " + f.Logical + " in a packed struct")
		case arrow.STRING, arrow.LARGE_STRING, arrow.BINARY, arrow.LARGE_BINARY:
			if v.before22() {
				return refuse("values of variable width in a packed struct; 2.2 and later can")
			}
		case arrow.FIXED_SIZE_LIST:
			if v == "2.1" {
				return refuse("fixed-size lists in a packed struct; 2.2 and later can")
			}
		}
	}
	if t, ok := f.Storage.(*arrow.FixedSizeListType); ok {
		return holdsElements(t, refuse)
	}
	return nil
}

// holdsElements wants values of some fixed width.
func holdsElements(t *arrow.FixedSizeListType, refuse func(string) error) error {
	switch e := t.Elem().(type) {
	case *arrow.FixedSizeListType:
		return holdsElements(e, refuse)
	case *arrow.FixedSizeBinaryType:
		if e.ByteWidth == 0 {
			return refuse("fixed-size lists of values without bytes")
		}
	case *arrow.DictionaryType, *arrow.StringType, *arrow.LargeStringType, *arrow.BinaryType, *arrow.LargeBinaryType:
		return refuse("fixed-size lists of " + e.Name() + "; take a list")
	}
	return nil
}

// holdsStruct judges empty structs, packed ones, and structs inside the latter.
func (v fileVersion) holdsStruct(f *Field, at around, refuse func(string) error) error {
	if len(f.Children) == 0 {
		if at.list || at.fixed || at.packed || f.Packed {
			return refuse("empty structs that are packed or lie in a list, a map or a packed struct")
		}
		return nil
	}
	if at.packed && v.before23() {
		return refuse("structs in a packed struct; 2.3 can")
	}
	at.packed = true
	for _, c := range f.Children {
		if err := v.holds(c, at); err != nil {
			return err
		}
	}
	return nil
}

package encoding

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/schema"
)

// Column20 is one physical column of a format 2.0 file.
type Column20 struct {
	// Pages in row order; Page.Layout holds a serialized ArrayEncoding.
	Pages []Page
	// Buffers are the column's own buffers, which descriptions may refer to.
	Buffers []Extent
	// Encoding is the serialized ColumnEncoding; empty means plain values, as
	// the first writers left it out.
	Encoding []byte
}

// File20 is what readers of one 2.0 file need to know of it.
type File20 struct {
	// Columns in file order. A string column of early writers is followed by
	// the column of its bytes, which belongs to no field.
	Columns []Column20
	// ByField finds the column of each field: in format 2.0 lists, structs and
	// their children all have one. Struct columns may be missing.
	ByField map[schema.FieldID]int
}

// Limits of one read. A reader that meets one asks for fewer rows.
const (
	maxSlots20 = 1 << 27 // slots of one layer
	maxDepth20 = 32      // nesting of one array encoding
)

// leafKind20 tells how the values of a leaf are stored.
type leafKind20 uint8

const (
	plainLeaf20  leafKind20 = iota // an array per page
	blobLeaf20                     // position and size of a payload
	charsLeaf20                    // lists of bytes over two columns
	emptyLeaf20                    // a struct without fields: only a count
	structLeaf20                   // marked packed, but stored with a column per child
)

// Reader20 reads one leaf of a 2.0 file (format 2.0 sheet). There are no
// levels: each list and struct above the leaf has a column of its own, and
// slots of the columns correspond by number. What a column holds is decided by
// its first page and column encoding, never by field metadata.
//
// Structs of 2.0 files are never null: the format cannot say so, and null
// structs that early writers were given read as structs of whatever lay in
// their children.
//
// Safe for concurrent use.
type Reader20 struct {
	path   []*schema.Field
	above  []*pages20 // per path element above the leaf's column; nil for structs
	kind   leafKind20
	leaf   *pages20
	chars  *pages20 // charsLeaf20: the bytes
	kids   []*Reader20
	typ    arrow.DataType // of the answer's values
	plain  bool           // a blob stored as plain binary
	packed int            // child number within rows of a packed struct, or wholeRow
}

// wholeRow stands for all children of a packed struct.
const wholeRow = -1

// NewReader20 prepares reading the leaf at the end of path, which starts at a
// top-level field. Descriptions of a kind that this format version does not
// have are fault.Unsupported, columns that do not fit the path fault.Corrupt.
func NewReader20(path []*schema.Field, file *File20) (*Reader20, error) {
	if len(path) == 0 {
		return nil, fault.New(fault.Internal, "encoding: empty field path")
	}
	r := &Reader20{path: path, packed: wholeRow}
	for i, f := range path {
		column, ok := file.ByField[f.ID]
		if !ok && i < len(path)-1 && f.Logical == "struct" {
			r.above = append(r.above, nil)
			continue
		}
		if !ok || column < 0 || column >= len(file.Columns) {
			return nil, r.corrupt("has no column in this file")
		}
		pages, err := newPages20(&file.Columns[column])
		if err != nil {
			return nil, r.wrap(err)
		}
		switch first := pages.first(); {
		case f.Shape == schema.Struct && first.GetPackedStruct() == nil:
			if err := pages.mustBeHeader(); err != nil {
				return nil, r.wrap(err)
			}
			r.above = append(r.above, nil)
		case f.Shape == schema.List || f.Shape == schema.LargeList:
			if err := pages.prepareLists(); err != nil {
				return nil, r.wrap(err)
			}
			r.above = append(r.above, pages)
		case f.Shape == schema.Leaf && i == len(path)-1,
			f.Shape == schema.Struct, f.Shape == schema.FixedSizeList:
			r.leaf = pages
			return r, r.wrap(r.prepareLeaf(file, i, column))
		default:
			return nil, fault.New(fault.Unsupported, "encoding: unsupported 2.0 encoding: %s has type %q", r.name(), f.Logical)
		}
	}
	return nil, fault.New(fault.Internal, "encoding: field path of %s does not end at a leaf", r.name())
}

// prepareLeaf decides how the column of path[at] holds the leaf.
func (r *Reader20) prepareLeaf(file *File20, at, column int) error {
	f, first := r.path[at], r.leaf.first()
	leaf := r.path[len(r.path)-1]
	r.typ = leaf.Storage
	if leaf.Shape != schema.Leaf || r.typ == nil {
		return fault.New(fault.Unsupported, "encoding: unsupported 2.0 encoding: field of type %q", leaf.Logical)
	}
	blob, err := blobColumn20(file.Columns[column].Encoding)
	if err != nil {
		return err
	}
	switch {
	case blob && leaf.Blob == schema.NotBlob:
		return fault.Corruptf(-1, "encoding: stored as a blob column, but the schema does not mark it so")
	case blob:
		r.kind = blobLeaf20
		return nil
	case leaf.Blob != schema.NotBlob:
		r.plain, r.typ = true, arrow.BinaryTypes.LargeBinary
	}
	switch f.Shape {
	case schema.Struct:
		r.packed = childIndex(f, r.path[at+1])
		return nil
	case schema.FixedSizeList:
		if len(r.path) > at+2 {
			r.packed = childIndex(f.Children[0], leaf)
		}
		return nil
	}
	switch {
	case first.GetList() != nil && isBytes(r.typ):
		if column+1 >= len(file.Columns) {
			return fault.Corruptf(-1, "encoding: strings as lists of bytes without a column of bytes")
		}
		r.kind = charsLeaf20
		if err := r.leaf.prepareLists(); err != nil {
			return err
		}
		r.chars, err = newPages20(&file.Columns[column+1])
		return err
	case first.GetStruct() == nil || r.typ.ID() != arrow.STRUCT:
		// An array per page; what does not fit the type is refused with it.
	case len(f.Children) == 0:
		r.kind = emptyLeaf20
	default:
		r.kind = structLeaf20
		for _, c := range f.Children {
			if c.Shape != schema.Leaf {
				return fault.New(fault.Unsupported, "encoding: unsupported 2.0 encoding: packed struct with a child of type %q", c.Logical)
			}
			kid, err := NewReader20(append(r.path[:len(r.path):len(r.path)], c), withHeader(file, f))
			if err != nil {
				return err
			}
			r.kids = append(r.kids, kid)
		}
	}
	return nil
}

// withHeader is file without the column of f, so that a path may lead through
// f although it is marked packed.
func withHeader(file *File20, f *schema.Field) *File20 {
	byField := make(map[schema.FieldID]int, len(file.ByField))
	for id, column := range file.ByField {
		if id != f.ID {
			byField[id] = column
		}
	}
	return &File20{Columns: file.Columns, ByField: byField}
}

func childIndex(parent, child *schema.Field) int {
	for i, c := range parent.Children {
		if c == child {
			return i
		}
	}
	return len(parent.Children) // refused when the rows are known
}

func isBytes(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.STRING, arrow.BINARY, arrow.LARGE_STRING, arrow.LARGE_BINARY:
		return true
	}
	return false
}

// PlainBlob says that the field is a blob but stored as a plain column, as
// early writers did: Read then gives large_binary values instead of descriptors.
func (r *Reader20) PlainBlob() bool { return r.plain }

// Rows is the number of top-level rows of the file's columns.
func (r *Reader20) Rows() uint64 {
	for _, p := range r.above {
		if p != nil {
			return p.total
		}
	}
	if len(r.kids) > 0 {
		return r.kids[0].Rows()
	}
	return r.leaf.total
}

func (r *Reader20) name() string {
	names := make([]string, len(r.path))
	for i, f := range r.path {
		names[i] = f.Name
	}
	return strings.Join(names, ".")
}

func (r *Reader20) corrupt(text string) error {
	return fault.Corruptf(-1, "encoding: field %s %s", r.name(), text)
}

// wrap adds the field to an error of this package; those of a fetch pass.
func (r *Reader20) wrap(err error) error {
	var e *fault.Error
	if !errors.As(err, &e) || e.Object != "" || e.Err != nil {
		return err
	}
	named := *e
	named.Text = "encoding: field " + r.name() + ": " + strings.TrimPrefix(e.Text, "encoding: ")
	return &named
}

// pages20 are the parsed pages of one column, those without slots left out.
type pages20 struct {
	pages []page20
	total uint64                   // slots
	empty *lancepb.ArrayEncoding20 // of a page without slots
}

type page20 struct {
	enc     *lancepb.ArrayEncoding20
	start   uint64 // first slot, counted over the column
	slots   uint64
	page    []Extent // buffers by scope
	column  []Extent
	item    uint64 // list pages: number of the first item
	items   uint64
	nullAdd uint64
}

func newPages20(c *Column20) (*pages20, error) {
	p := &pages20{pages: make([]page20, 0, len(c.Pages))}
	for i, page := range c.Pages {
		enc := new(lancepb.ArrayEncoding20)
		if err := proto.Unmarshal(page.Layout, enc); err != nil {
			return nil, fault.Corruptf(-1, "encoding: description of page %d: %v", i, err)
		}
		if page.Rows == 0 {
			p.empty = bare20(enc)
			continue
		}
		if page.Rows > math.MaxInt64-p.total {
			return nil, fault.Corruptf(-1, "encoding: page %d brings the column to more than 2^63 slots", i)
		}
		p.pages = append(p.pages, page20{enc: bare20(enc), start: p.total, slots: page.Rows, page: page.Buffers, column: c.Buffers})
		p.total += page.Rows
	}
	return p, nil
}

// bare20 removes wrappers that only say that there are no nulls.
func bare20(enc *lancepb.ArrayEncoding20) *lancepb.ArrayEncoding20 {
	for {
		v := enc.GetNullable().GetNoNulls().GetValues()
		if v == nil {
			return enc
		}
		enc = v
	}
}

// first is the description of the first page that has slots, else of any page;
// nil, which has all getters, when there is none.
func (p *pages20) first() *lancepb.ArrayEncoding20 {
	if len(p.pages) == 0 {
		return p.empty
	}
	return p.pages[0].enc
}

// mustBeHeader checks that the pages are those of a struct, which hold nothing.
func (p *pages20) mustBeHeader() error {
	for i := range p.pages {
		if p.pages[i].enc.GetStruct() == nil {
			return fault.Corruptf(-1, "encoding: page of %s in the column of a struct", kindOf20(p.pages[i].enc))
		}
	}
	return nil
}

// prepareLists numbers the items of list pages.
func (p *pages20) prepareLists() error {
	var item uint64
	for i := range p.pages {
		page := &p.pages[i]
		l := page.enc.GetList()
		if l == nil {
			return fault.Corruptf(-1, "encoding: page of %s among list pages", kindOf20(page.enc))
		}
		page.item, page.items, page.nullAdd = item, l.GetNumItems(), l.GetNullOffsetAdjustment()
		if page.nullAdd <= page.items {
			return fault.Corruptf(-1, "encoding: null offset adjustment %d for %d items", page.nullAdd, page.items)
		}
		if page.items > math.MaxInt64-item {
			return fault.Corruptf(-1, "encoding: lists of more than 2^63 items")
		}
		item += page.items
	}
	return nil
}

// blobColumn20 reads a ColumnEncoding: plain values or blobs.
func blobColumn20(raw []byte) (bool, error) {
	if len(raw) == 0 {
		return false, nil
	}
	enc := new(lancepb.ColumnEncoding20)
	if err := proto.Unmarshal(raw, enc); err != nil {
		return false, fault.Corruptf(-1, "encoding: column encoding: %v", err)
	}
	if b := enc.GetBlob(); b != nil {
		if b.GetInner().GetColumn() != nil && b.GetInner().GetValues() == nil {
			return false, fault.New(fault.Unsupported, "encoding: unsupported 2.0 encoding: blobs over another column encoding")
		}
		return true, nil
	}
	if enc.GetValues() == nil {
		return false, fault.New(fault.Unsupported, "encoding: unsupported 2.0 encoding: column encoding %s", kindOfColumn20(enc))
	}
	return false, nil
}

func kindOfColumn20(enc *lancepb.ColumnEncoding20) string {
	if enc.GetZoneIndex() != nil {
		return "zone_index"
	}
	return unknownField(enc)
}

// kindOf20 names an encoding by the word of the format.
func kindOf20(enc *lancepb.ArrayEncoding20) string {
	m := enc.ProtoReflect()
	if d := m.WhichOneof(m.Descriptor().Oneofs().ByName("array")); d != nil {
		return string(d.Name())
	}
	return unknownField(enc)
}

// unknownField tells the number of the first field that a message has but this
// program does not know.
func unknownField(m proto.Message) string {
	if num, _, n := protowire.ConsumeTag(m.ProtoReflect().GetUnknown()); n > 0 {
		return fmt.Sprintf("number %d", num)
	}
	return "missing"
}

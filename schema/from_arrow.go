package schema

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/spelling"
)

// FromOptions says how fields of a table are made from Arrow fields. The zero
// value makes a new table of format 2.2.
type FromOptions struct {
	// FileVersion is that of the files that will hold the rows, as manifests
	// spell it: "2.0" to "2.3". "" is DefaultFileVersion.
	FileVersion string
	// BlobColumns names columns of type binary or large_binary that become
	// blob columns: dotted names, where levels of lists have none. A name that
	// does not exist is an error.
	BlobColumns []string
	// NextID is the first field id that is given.
	NextID FieldID
}

// DefaultFileVersion is the format of new tables.
const DefaultFileVersion = "2.2"

// reserved names columns that readers make themselves; a table cannot have them
// at its top.
var reserved = []string{"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}

// keyFieldID is metadata by which some readers show field ids; it is not kept.
const keyFieldID = "lance:field_id"

// FromArrow gives the field tree that a table made from an Arrow schema has:
// logical types as in table-format sheet section 2.3, ids depth-first, names,
// nullability and metadata as given. It is what the reference writes for the
// same input.
//
// Blob columns are fields marked with the extension lance.blob.v2 (SCH-1), and,
// for files of format 2.2 and later, binary fields with the mark of older
// columns (LEG-2) or named in the options; the latter become structs of the
// minimal shape. Everything that such a table cannot hold is refused with the
// dotted name of the field, what it is, and what is allowed: fault.Invalid.
func FromArrow(s *arrow.Schema, o FromOptions) (*Schema, error) {
	version, err := parseFileVersion(o.FileVersion)
	if err != nil {
		return nil, err
	}
	in := intake{version: version, next: o.NextID, named: o.BlobColumns, strict: true}
	out, err := in.schema(s)
	if err != nil {
		return nil, err
	}
	if _, err := Managed(out.Metadata); err != nil {
		return nil, err
	}
	if err := out.CheckKeys(); err != nil {
		return nil, err
	}
	return out, out.holdable(version)
}

// CheckKeys is fault.Invalid for fields in the primary key, declared by metadata,
// that may be null or lie in a list: the reference would not open the table.
func (s *Schema) CheckKeys() error {
	for f := range s.All() {
		if !f.record().Carried.PrimaryKey {
			continue
		}
		for p := f; p != nil; p = p.Parent {
			if p.Nullable || p.Shape != Leaf && p.Shape != Struct {
				return fault.New(fault.Invalid, "schema: field %s is declared part of the primary key, but %s may be null or is a list", f.dotted(), p.dotted())
			}
		}
	}
	return nil
}

// intake turns Arrow fields into records.
type intake struct {
	version fileVersion
	next    FieldID
	named   []string
	found   map[string]arrow.DataType // what the paths in named led to; nil type: a blob
	strict  bool                      // the fields make a table, and do not only fill one
	stored  bool                      // the types of this program's own batches may occur
	records []Record
	types   map[FieldID]arrow.DataType // of fields that are not children of blobs
}

func (in *intake) schema(s *arrow.Schema) (*Schema, error) {
	in.types, in.found = map[FieldID]arrow.DataType{}, map[string]arrow.DataType{}
	if in.strict {
		if err := checkTop(s.Fields()); err != nil {
			return nil, err
		}
	}
	if err := in.siblings(s.Fields(), NoParent, nil, 1); err != nil {
		return nil, err
	}
	if err := in.checkNamed(); err != nil {
		return nil, err
	}
	m := s.Metadata()
	if err := checkMetadata("the schema", m); err != nil {
		return nil, err
	}
	out, err := FromRecords(in.records, m.ToMap())
	if err != nil { // what was wrong with the bytes of a table is wrong with the request here
		return nil, fault.New(fault.Invalid, "%w", err)
	}
	for f := range out.Blobs() {
		if _, err := f.Thresholds(); err != nil && (f.Blob == BlobV2 || !in.version.before22()) {
			return nil, err
		}
	}
	return out, nil
}

// checkTop refuses names that only nested fields may have.
func checkTop(fields []arrow.Field) error {
	for _, f := range fields {
		if err := CheckColumnName(f.Name); err != nil {
			return err
		}
	}
	return nil
}

// CheckColumnName is fault.Invalid for a name that no column of a table may
// have; nested fields may.
func CheckColumnName(name string) error {
	if strings.Contains(name, ".") {
		return fault.New(fault.Invalid, "schema: column %s has a dot in its name; dots separate the levels of nested columns", fault.Quote(name))
	}
	if slices.Contains(reserved, name) {
		return fault.New(fault.Invalid, "schema: column name %s is reserved; rename the column", name)
	}
	return nil
}

// trail is the way from the top to a field: the dotted name with all levels,
// and the one without levels of lists, by which users name columns.
type trail struct{ full, short string }

func (t *trail) enter(name string, item bool) *trail {
	next := trail{full: name, short: name}
	if t != nil {
		next.full, next.short = t.full+"."+name, t.short+"."+name
		if item {
			next.short = t.short
		}
	}
	return &next
}

func (in *intake) siblings(fields []arrow.Field, parent FieldID, above *trail, depth int) error {
	names := make(map[string]bool, len(fields))
	for _, f := range fields {
		at := above.enter(f.Name, false)
		if names[f.Name] {
			return fault.New(fault.Invalid, "schema: there are two fields %s; names must differ", fault.Quote(at.full))
		}
		names[f.Name] = true
		if err := in.field(f, parent, at, depth); err != nil {
			return err
		}
	}
	return nil
}

// field adds the records of f and all below it.
func (in *intake) field(f arrow.Field, parent FieldID, at *trail, depth int) error {
	if depth > MaxDepth {
		return fault.New(fault.Invalid, "schema: field %s is nested more than %d levels deep", fault.Quote(at.full), MaxDepth)
	}
	f = plainField(f)
	if !utf8.ValidString(f.Name) {
		return fault.New(fault.Invalid, "schema: field name %s is not UTF-8", fault.Quote(at.full))
	}
	if err := checkMetadata("field "+at.full, f.Metadata); err != nil {
		return err
	}
	r := Record{ID: in.next, ParentID: parent, Name: f.Name, Nullable: f.Nullable, Metadata: f.Metadata.ToMap()}
	delete(r.Metadata, keyFieldID)
	in.types[r.ID] = f.Type
	if in.stored && isStored(f.Type) {
		return in.adopt(r)
	}
	if r.Metadata[KeyExtensionName] == ExtensionBlobV2 {
		return in.blob(f, r, at)
	}
	adopt, err := in.becomesBlob(f, at)
	if err != nil {
		return err
	}
	if adopt {
		return in.adopt(r)
	}
	return in.plain(f, r, at, depth)
}

func (in *intake) push(r Record) FieldID {
	in.records = append(in.records, r)
	in.next++
	return r.ID
}

// plain adds a field that is no blob.
func (in *intake) plain(f arrow.Field, r Record, at *trail, depth int) error {
	switch t := f.Type.(type) {
	case *arrow.StructType:
		r.LogicalType = "struct"
		return in.siblings(t.Fields(), in.push(r), at, depth+1)
	case *arrow.ListType:
		return in.list(t.ElemField(), "list", r, at, depth)
	case *arrow.LargeListType:
		return in.list(t.ElemField(), "large_list", r, at, depth)
	case *arrow.MapType:
		return in.mapping(t, r, at, depth)
	case *arrow.FixedSizeListType:
		if item := plainField(t.ElemField()); item.Type.ID() == arrow.STRUCT {
			r.LogicalType = fixedStructPrefix + strconv.Itoa(int(t.Len()))
			return in.field(item, in.push(r), at.enter(item.Name, true), depth+1)
		}
	}
	if isJSONText(f) || f.Type.ID() == arrow.LARGE_BINARY && r.Metadata[KeyExtensionName] == extensionJSON {
		r.LogicalType, r.Metadata[KeyExtensionName] = "json", extensionJSON
		in.push(r)
		return nil
	}
	var err error
	if r.LogicalType, err = leafName(at.full, f.Type); err != nil {
		return err
	}
	if t, ok := f.Type.(*arrow.TimestampType); ok && !utf8.ValidString(t.TimeZone) {
		return fault.New(fault.Invalid, "schema: the time zone of field %s is not UTF-8", at.full)
	}
	in.push(r)
	return nil
}

func (in *intake) list(item arrow.Field, logical string, r Record, at *trail, depth int) error {
	item = plainField(item)
	below := at.enter(item.Name, true)
	r.LogicalType = logical
	// A list whose items become blobs by their mark is a plain list in the
	// reference's manifests. Readers make no difference.
	if item.Type.ID() == arrow.STRUCT || in.wants(below) && !metadataHas(item.Metadata, KeyBlob) && isBinary(item.Type) {
		r.LogicalType += ".struct"
	}
	return in.field(item, in.push(r), below, depth+1)
}

func (in *intake) mapping(t *arrow.MapType, r Record, at *trail, depth int) error {
	if t.KeysSorted {
		return fault.New(fault.Invalid, "schema: field %s is a map with sorted keys, which Lance tables cannot hold; declare the keys unsorted", at.full)
	}
	r.LogicalType = "map"
	id := in.push(r)
	entries := Record{ID: in.next, ParentID: id, Name: "entries", LogicalType: "struct", Metadata: map[string]string{}}
	key := t.KeyField()
	key.Nullable = false
	return in.siblings([]arrow.Field{key, t.ItemField()}, in.push(entries), at.enter("entries", true), depth+2)
}

// blob adds a field with the mark of Blob v2, whose type must be right.
func (in *intake) blob(f arrow.Field, r Record, at *trail) error {
	in.note(at, nil)
	t, ok := f.Type.(*arrow.StructType)
	if !ok {
		return fault.New(fault.Invalid, "schema: field %s is marked %s but has type %s; it must be a struct of %s",
			at.full, ExtensionBlobV2, typeText(f.Type), shapeText)
	}
	if in.strict && in.version.before22() {
		return in.tooOld(at)
	}
	if _, marked := r.Metadata[KeyBlob]; marked && in.strict {
		return fault.New(fault.Invalid, "schema: field %s is marked %s and %s at once; leave the latter out, it belongs to columns of older files",
			at.full, ExtensionBlobV2, KeyBlob)
	}
	r.LogicalType = "struct"
	id := in.push(r)
	for _, c := range t.Fields() {
		child := plainField(c)
		if err := checkMetadata("field "+at.full+"."+c.Name, child.Metadata); err != nil {
			return err
		}
		if metadataHas(child.Metadata, KeyBlob) && in.strict {
			return fault.New(fault.Invalid, "schema: child %s of blob field %s is marked %s; leave the mark out, it belongs to columns of older files",
				c.Name, at.full, KeyBlob)
		}
		name, err := leafName(at.full+"."+c.Name, child.Type)
		if err != nil {
			name = typeText(child.Type) // refused below, with all children in the text
		}
		if !utf8.ValidString(c.Name) {
			name = "of a name that is not UTF-8"
		}
		in.push(Record{ID: in.next, ParentID: id, Name: c.Name, LogicalType: name, Nullable: c.Nullable, Metadata: child.Metadata.ToMap()})
	}
	return nil
}

func (in *intake) tooOld(at *trail) error {
	return fault.New(fault.Invalid, "schema: blob field %s needs file version 2.2 or later, not %s", at.full, in.version)
}

// becomesBlob tells whether a field without the mark of Blob v2 turns into a
// blob field (LEG-2): by the mark of older columns, or by its name.
func (in *intake) becomesBlob(f arrow.Field, at *trail) (bool, error) {
	if metadataValue(f.Metadata, KeyExtensionName) == ExtensionBlobV2 {
		return true, nil
	}
	binary := isBinary(f.Type)
	if in.wants(at) {
		if binary && in.version.before22() {
			return false, in.tooOld(at)
		}
		if binary {
			in.note(at, nil)
			return true, nil
		}
		in.note(at, f.Type)
	}
	if !metadataHas(f.Metadata, KeyBlob) {
		return false, nil
	}
	if !binary {
		return false, fault.New(fault.Invalid, "schema: field %s is marked %s but has type %s; the mark is for binary and large_binary", at.full, KeyBlob, typeText(f.Type))
	}
	if in.strict && in.version.before22() && f.Type.ID() != arrow.LARGE_BINARY {
		return false, fault.New(fault.Invalid, "schema: field %s is marked %s and has type %s; files of version %s take large_binary only",
			at.full, KeyBlob, typeText(f.Type), in.version)
	}
	return !in.version.before22(), nil
}

func isBinary(t arrow.DataType) bool {
	return t.ID() == arrow.BINARY || t.ID() == arrow.LARGE_BINARY || t.ID() == arrow.BINARY_VIEW
}

// adopt adds a binary field as a blob field of the minimal shape.
func (in *intake) adopt(r Record) error {
	delete(r.Metadata, KeyBlob)
	r.Metadata[KeyExtensionName] = ExtensionBlobV2
	r.LogicalType = "struct"
	id := in.push(r)
	for _, c := range minimalShape(id, in.next) {
		in.push(c)
	}
	return nil
}

// minimalShape are the records of the children of a blob field.
func minimalShape(blob, next FieldID) []Record {
	children := make([]Record, 2)
	for i := range children {
		children[i] = Record{
			ID: next + FieldID(i), ParentID: blob, Name: blobShape[i].name, LogicalType: blobShape[i].logical, Nullable: true,
			Metadata: map[string]string{},
		}
	}
	return children
}

func (in *intake) wants(at *trail) bool { return slices.Contains(in.named, at.short) }

// note remembers what a named path led to; the deepest level counts.
func (in *intake) note(at *trail, t arrow.DataType) { in.found[at.short] = t }

// checkNamed refuses names that led to no blob column.
func (in *intake) checkNamed() error {
	for _, name := range in.named {
		t, found := in.found[name]
		switch {
		case found && t == nil:
		case found:
			return fault.New(fault.Invalid, "schema: blob column %s has type %s; a blob column is made from binary or large_binary", fault.Quote(name), typeText(t))
		default:
			return fault.New(fault.Invalid, "schema: there is no column %s to make a blob column of%s", fault.Quote(name), in.nearest(name))
		}
	}
	return nil
}

func (in *intake) nearest(name string) string {
	var have []string
	paths := map[FieldID]string{NoParent: ""}
	for _, r := range in.records {
		path := strings.TrimPrefix(paths[r.ParentID]+"."+r.Name, ".")
		paths[r.ID] = path
		if isPlainBinary(r.LogicalType) {
			have = append(have, path)
		}
	}
	if len(have) == 0 {
		return "; no column is binary"
	}
	near := spelling.Nearest(name, have, 3, -1)
	for i := range near {
		near[i] = fault.Quote(near[i])
	}
	return "; the nearest binary ones are " + strings.Join(near, ", ")
}

func metadataHas(m arrow.Metadata, key string) bool { return m.FindKey(key) >= 0 }

// checkMetadata refuses what manifests cannot hold.
func checkMetadata(of string, m arrow.Metadata) error {
	values := m.Values()
	for i, k := range m.Keys() {
		if !utf8.ValidString(k) || !utf8.ValidString(values[i]) {
			return fault.New(fault.Invalid, "schema: metadata %s of %s is not UTF-8", fault.Quote(k), of)
		}
	}
	return nil
}

// isJSONText recognises text of the extension arrow.json.
func isJSONText(f arrow.Field) bool {
	switch f.Type.ID() {
	case arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW:
		return metadataValue(f.Metadata, KeyExtensionName) == extensionArrow
	}
	return false
}

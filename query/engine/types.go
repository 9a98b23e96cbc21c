package engine

// #include "bridge.h"
import "C"

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/reference"
)

// TypeID is DuckDB's number of a type.
type TypeID int

// The types that this program tells apart.
const (
	TypeInvalid     TypeID = 0
	TypeBoolean     TypeID = 1
	TypeTinyInt     TypeID = 2
	TypeSmallInt    TypeID = 3
	TypeInteger     TypeID = 4
	TypeBigInt      TypeID = 5
	TypeUTinyInt    TypeID = 6
	TypeUSmallInt   TypeID = 7
	TypeUInteger    TypeID = 8
	TypeUBigInt     TypeID = 9
	TypeFloat       TypeID = 10
	TypeDouble      TypeID = 11
	TypeTimestamp   TypeID = 12
	TypeDate        TypeID = 13
	TypeTime        TypeID = 14
	TypeInterval    TypeID = 15
	TypeHugeInt     TypeID = 16
	TypeVarchar     TypeID = 17
	TypeBlob        TypeID = 18
	TypeDecimal     TypeID = 19
	TypeTimestampS  TypeID = 20
	TypeTimestampMS TypeID = 21
	TypeTimestampNS TypeID = 22
	TypeEnum        TypeID = 23
	TypeList        TypeID = 24
	TypeStruct      TypeID = 25
	TypeMap         TypeID = 26
	TypeUUID        TypeID = 27
	TypeUnion       TypeID = 28
	TypeBit         TypeID = 29
	TypeTimeTZ      TypeID = 30
	TypeTimestampTZ TypeID = 31
	TypeUHugeInt    TypeID = 32
	TypeArray       TypeID = 33
	TypeAny         TypeID = 34
	TypeBigNum      TypeID = 35
	TypeNull        TypeID = 36
	TypeTimeNS      TypeID = 39
)

// Type describes a type of the engine.
type Type struct {
	ID       TypeID
	Alias    string
	Width    int   // DECIMAL
	Scale    int   // DECIMAL
	Size     int64 // ARRAY
	Children []Field
}

// Field is a child of a nested type, or a column or parameter. The child of a
// list or array has no name, those of a map are key and value.
type Field struct {
	Name string
	Type *Type
}

// IsReference says that values of the type are blob references.
func (t *Type) IsReference() bool { return t.Alias == reference.TypeName }

// HasReference says that a reference is at or below the type.
func (t *Type) HasReference() bool {
	if t.IsReference() {
		return true
	}
	for _, c := range t.Children {
		if c.Type.HasReference() {
			return true
		}
	}
	return false
}

// Unknown says that the type is open until parameters are bound.
func (t *Type) Unknown() bool { return t.ID == TypeInvalid || t.ID == TypeAny }

// Open says that something at or below the type is unknown.
func (t *Type) Open() bool {
	if t.Unknown() {
		return true
	}
	for _, c := range t.Children {
		if c.Type.Open() {
			return true
		}
	}
	return false
}

// typeOf reads a logical type and destroys it.
func typeOf(lt C.duckdb_logical_type) *Type {
	if lt == nil {
		return &Type{}
	}
	defer C.duckdb_destroy_logical_type(&lt)
	t := &Type{ID: TypeID(C.duckdb_get_type_id(lt))}
	if alias := C.duckdb_logical_type_get_alias(lt); alias != nil {
		t.Alias = C.GoString(alias)
		C.duckdb_free(unsafe.Pointer(alias))
	}
	child := func(name string, c C.duckdb_logical_type) {
		t.Children = append(t.Children, Field{name, typeOf(c)})
	}
	switch t.ID {
	case TypeDecimal:
		t.Width, t.Scale = int(C.duckdb_decimal_width(lt)), int(C.duckdb_decimal_scale(lt))
	case TypeList:
		child("", C.duckdb_list_type_child_type(lt))
	case TypeArray:
		t.Size = int64(C.duckdb_array_type_array_size(lt))
		child("", C.duckdb_array_type_child_type(lt))
	case TypeMap:
		child("key", C.duckdb_map_type_key_type(lt))
		child("value", C.duckdb_map_type_value_type(lt))
	case TypeStruct:
		for i := range C.duckdb_struct_type_child_count(lt) {
			name := C.duckdb_struct_type_child_name(lt, i)
			child(C.GoString(name), C.duckdb_struct_type_child_type(lt, i))
			C.duckdb_free(unsafe.Pointer(name))
		}
	case TypeUnion:
		for i := range C.duckdb_union_type_member_count(lt) {
			name := C.duckdb_union_type_member_name(lt, i)
			child(C.GoString(name), C.duckdb_union_type_member_type(lt, i))
			C.duckdb_free(unsafe.Pointer(name))
		}
	}
	return t
}

// KeyReference marks fields of a relation's schema that hold references; their
// type is reference.Type.
const KeyReference = "flightblob:reference"

// ReferenceMetadata is metadata with the mark.
var ReferenceMetadata = arrow.NewMetadata([]string{KeyReference}, []string{"true"})

// KeyVirtual marks a field that has no values. As the first of a relation it
// lets the engine count rows without reading a column; no statement may see it.
const KeyVirtual = "flightblob:virtual"

// VirtualMetadata is metadata with the mark.
var VirtualMetadata = arrow.NewMetadata([]string{KeyVirtual}, []string{"true"})

// KeyPosition marks a field of type uint64 that batches have no column for: its
// values are the positions of the rows that each batch tells.
const KeyPosition = "flightblob:position"

// PositionMetadata is metadata with the mark.
var PositionMetadata = arrow.NewMetadata([]string{KeyPosition}, []string{"true"})

func isReference(f arrow.Field) bool { return f.Metadata.FindKey(KeyReference) >= 0 }

// simple maps the Arrow types without parameters that enter the engine as they
// are. Package query turns all others into these.
var simple = map[arrow.Type]TypeID{
	arrow.BOOL: TypeBoolean,
	arrow.INT8: TypeTinyInt, arrow.INT16: TypeSmallInt, arrow.INT32: TypeInteger, arrow.INT64: TypeBigInt,
	arrow.UINT8: TypeUTinyInt, arrow.UINT16: TypeUSmallInt, arrow.UINT32: TypeUInteger, arrow.UINT64: TypeUBigInt,
	arrow.FLOAT32: TypeFloat, arrow.FLOAT64: TypeDouble,
	arrow.STRING: TypeVarchar, arrow.LARGE_STRING: TypeVarchar,
	arrow.BINARY: TypeBlob, arrow.LARGE_BINARY: TypeBlob, arrow.FIXED_SIZE_BINARY: TypeBlob,
	arrow.DATE32: TypeDate, arrow.DATE64: TypeDate, arrow.TIME32: TypeTime,
	arrow.INTERVAL_MONTH_DAY_NANO: TypeInterval,
}

// MaxArraySize is the longest fixed-size list that the engine has a type for.
const MaxArraySize = 100000

// Enters says whether values of an Arrow type can enter the engine as they are:
// it has a type for them, and nothing of them is lost.
func Enters(dt arrow.DataType) bool {
	switch dt := dt.(type) {
	case *arrow.Decimal128Type:
		return dt.Scale >= 0 && dt.Scale <= dt.Precision
	case *arrow.Time64Type:
		return true
	case *arrow.TimestampType:
		return dt.TimeZone == "" || dt.Unit != arrow.Nanosecond
	case *arrow.FixedSizeListType:
		return dt.Len() > 0 && dt.Len() <= MaxArraySize && Enters(dt.Elem())
	case *arrow.ListType, *arrow.LargeListType, *arrow.StructType, *arrow.MapType:
		for _, f := range dt.(arrow.NestedType).Fields() {
			if !Enters(f.Type) {
				return false
			}
		}
		return len(dt.(arrow.NestedType).Fields()) > 0
	}
	_, ok := simple[dt.ID()]
	return ok
}

// TypeOf is the type that a field of a relation has in the engine.
func TypeOf(f arrow.Field) (*Type, error) {
	lt, err := logicalType(f)
	if err != nil {
		return nil, err
	}
	return typeOf(lt), nil
}

// logicalType makes the engine's type for a field of a relation. The caller
// destroys it.
func logicalType(f arrow.Field) (C.duckdb_logical_type, error) {
	lt, err := plainType(f)
	if err == nil && isReference(f) {
		alias := C.CString(reference.TypeName)
		defer C.free(unsafe.Pointer(alias))
		C.duckdb_logical_type_set_alias(lt, alias)
	}
	return lt, err
}

func plainType(f arrow.Field) (C.duckdb_logical_type, error) {
	switch dt := f.Type.(type) {
	case *arrow.Decimal128Type:
		return C.duckdb_create_decimal_type(C.uint8_t(dt.Precision), C.uint8_t(dt.Scale)), nil
	case *arrow.Time64Type:
		if dt.Unit == arrow.Nanosecond {
			return C.duckdb_create_logical_type(C.int(TypeTimeNS)), nil
		}
		return C.duckdb_create_logical_type(C.int(TypeTime)), nil
	case *arrow.TimestampType:
		return C.duckdb_create_logical_type(C.int(timestampType(dt))), nil
	case *arrow.ListType, *arrow.LargeListType:
		return withChildren(f, func(c []C.duckdb_logical_type, _ []*C.char) C.duckdb_logical_type {
			return C.duckdb_create_list_type(c[0])
		})
	case *arrow.FixedSizeListType:
		return withChildren(f, func(c []C.duckdb_logical_type, _ []*C.char) C.duckdb_logical_type {
			return C.duckdb_create_array_type(c[0], C.idx_t(dt.Len()))
		})
	case *arrow.MapType:
		return mapType(dt)
	case *arrow.StructType:
		return withChildren(f, func(c []C.duckdb_logical_type, names []*C.char) C.duckdb_logical_type {
			types := cArray(c)
			defer C.free(unsafe.Pointer(types))
			texts := cArray(names)
			defer C.free(unsafe.Pointer(texts))
			return C.duckdb_create_struct_type(types, texts, C.idx_t(len(c)))
		})
	}
	if id, ok := simple[f.Type.ID()]; ok {
		return C.duckdb_create_logical_type(C.int(id)), nil
	}
	return nil, fault.New(fault.Internal, "engine: column %s of type %s cannot enter the engine", f.Name, f.Type)
}

func timestampType(dt *arrow.TimestampType) TypeID {
	if dt.TimeZone != "" {
		return TypeTimestampTZ
	}
	switch dt.Unit {
	case arrow.Second:
		return TypeTimestampS
	case arrow.Millisecond:
		return TypeTimestampMS
	case arrow.Nanosecond:
		return TypeTimestampNS
	}
	return TypeTimestamp
}

func mapType(dt *arrow.MapType) (C.duckdb_logical_type, error) {
	key, err := logicalType(dt.KeyField())
	if err != nil {
		return nil, err
	}
	defer C.duckdb_destroy_logical_type(&key)
	value, err := logicalType(dt.ItemField())
	if err != nil {
		return nil, err
	}
	defer C.duckdb_destroy_logical_type(&value)
	return C.duckdb_create_map_type(key, value), nil
}

// withChildren makes the types of the children, hands them to make, and
// destroys them.
func withChildren(f arrow.Field, build func([]C.duckdb_logical_type, []*C.char) C.duckdb_logical_type) (C.duckdb_logical_type, error) {
	var types []C.duckdb_logical_type
	var names []*C.char
	defer func() {
		for i := range types {
			C.duckdb_destroy_logical_type(&types[i])
			C.free(unsafe.Pointer(names[i]))
		}
	}()
	for _, c := range f.Type.(arrow.NestedType).Fields() {
		lt, err := logicalType(c)
		if err != nil {
			return nil, err
		}
		types, names = append(types, lt), append(names, C.CString(c.Name))
	}
	return build(types, names), nil
}

// cArray copies values into C memory.
func cArray[T any](values []T) *T {
	var zero T
	p := C.malloc(C.size_t(max(len(values), 1)) * C.size_t(unsafe.Sizeof(zero)))
	copy(unsafe.Slice((*T)(p), len(values)), values)
	return (*T)(p)
}

// String prints the type as SQL has it.
func (t *Type) String() string {
	if t.Alias != "" {
		return t.Alias
	}
	switch t.ID {
	case TypeDecimal:
		return fmt.Sprintf("DECIMAL(%d,%d)", t.Width, t.Scale)
	case TypeList:
		return t.Children[0].Type.String() + "[]"
	case TypeArray:
		return fmt.Sprintf("%s[%d]", t.Children[0].Type, t.Size)
	case TypeMap:
		return fmt.Sprintf("MAP(%s, %s)", t.Children[0].Type, t.Children[1].Type)
	case TypeStruct, TypeUnion:
		var parts []string
		for _, c := range t.Children {
			parts = append(parts, fmt.Sprintf("%q %s", c.Name, c.Type))
		}
		name := "STRUCT"
		if t.ID == TypeUnion {
			name = "UNION"
		}
		return name + "(" + strings.Join(parts, ", ") + ")"
	}
	if name, ok := typeNames[t.ID]; ok {
		return name
	}
	return fmt.Sprintf("type %d", int(t.ID))
}

var typeNames = map[TypeID]string{
	TypeBoolean: "BOOLEAN", TypeTinyInt: "TINYINT", TypeSmallInt: "SMALLINT", TypeInteger: "INTEGER", TypeBigInt: "BIGINT",
	TypeUTinyInt: "UTINYINT", TypeUSmallInt: "USMALLINT", TypeUInteger: "UINTEGER", TypeUBigInt: "UBIGINT",
	TypeFloat: "FLOAT", TypeDouble: "DOUBLE", TypeHugeInt: "HUGEINT", TypeUHugeInt: "UHUGEINT",
	TypeVarchar: "VARCHAR", TypeBlob: "BLOB", TypeDate: "DATE", TypeTime: "TIME", TypeTimeNS: "TIME_NS", TypeTimeTZ: "TIME WITH TIME ZONE",
	TypeTimestamp: "TIMESTAMP", TypeTimestampS: "TIMESTAMP_S", TypeTimestampMS: "TIMESTAMP_MS", TypeTimestampNS: "TIMESTAMP_NS",
	TypeTimestampTZ: "TIMESTAMP WITH TIME ZONE", TypeInterval: "INTERVAL", TypeUUID: "UUID", TypeBit: "BIT", TypeEnum: "ENUM",
	TypeNull: "NULL", TypeInvalid: "UNKNOWN", TypeAny: "ANY", TypeBigNum: "BIGNUM",
}

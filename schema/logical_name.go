package schema

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
)

// plainNames is plainTypes the other way round; what two names share a type for
// is left to the metadata of the field.
var plainNames = map[arrow.Type]string{
	arrow.NULL: "null", arrow.BOOL: "bool",
	arrow.INT8: "int8", arrow.UINT8: "uint8", arrow.INT16: "int16", arrow.UINT16: "uint16",
	arrow.INT32: "int32", arrow.UINT32: "uint32", arrow.INT64: "int64", arrow.UINT64: "uint64",
	arrow.FLOAT16: "halffloat", arrow.FLOAT32: "float", arrow.FLOAT64: "double",
	arrow.STRING: "string", arrow.LARGE_STRING: "large_string", arrow.STRING_VIEW: "string",
	arrow.BINARY: "binary", arrow.LARGE_BINARY: "large_binary", arrow.BINARY_VIEW: "binary",
	arrow.DATE32: "date32:day", arrow.DATE64: "date64:ms",
}

// leafName gives the logical type of an Arrow type without child fields,
// table-format sheet section 2.3. Views count as the plain types and the order
// of dictionaries is lost, as the format has neither.
func leafName(path string, t arrow.DataType) (string, error) {
	if name, ok := plainNames[t.ID()]; ok {
		return name, nil
	}
	switch t := t.(type) {
	case *arrow.FixedSizeBinaryType:
		return fmt.Sprintf("fixed_size_binary:%d", t.ByteWidth), nil
	case *arrow.Time32Type:
		return "time32:" + t.Unit.String(), nil
	case *arrow.Time64Type:
		return "time64:" + t.Unit.String(), nil
	case *arrow.DurationType:
		return "duration:" + t.Unit.String(), nil
	case *arrow.TimestampType:
		zone := t.TimeZone
		if zone == "" {
			zone = "-"
		}
		return "timestamp:" + t.Unit.String() + ":" + zone, nil
	case *arrow.Decimal128Type:
		return fmt.Sprintf("decimal:128:%d:%d", t.Precision, t.Scale), nil
	case *arrow.Decimal256Type:
		return fmt.Sprintf("decimal:256:%d:%d", t.Precision, t.Scale), nil
	case *arrow.DictionaryType:
		return dictionaryName(path, t)
	case *arrow.FixedSizeListType:
		return fixedListName(path, t)
	}
	return "", unwritable(path, t)
}

// dictionaryName refuses values whose own name has parameters or children: the
// text could not be read back.
func dictionaryName(path string, t *arrow.DictionaryType) (string, error) {
	value, ok := plainNames[t.ValueType.ID()]
	if !ok || strings.Contains(value, ":") {
		return "", fault.New(fault.Invalid, "schema: field %s has type %s; a dictionary may hold booleans, integers, floats, strings or binary only",
			path, typeText(t))
	}
	return "dict:" + value + ":" + plainNames[t.IndexType.ID()] + ":false", nil
}

// fixedListName names a fixed-size list of anything but structs. Name,
// nullability and metadata of the item are lost, the mark of bfloat16 aside.
func fixedListName(path string, t *arrow.FixedSizeListType) (string, error) {
	item := t.ElemField()
	inner, name := plainField(item), ""
	switch it := inner.Type.(type) {
	case *arrow.FixedSizeBinaryType:
		if it.ByteWidth == 2 && metadataValue(inner.Metadata, KeyExtensionName) == extensionBFloat16 {
			name = extensionBFloat16
		}
	case *arrow.StructType, *arrow.ListType, *arrow.LargeListType, *arrow.MapType:
		return "", fault.New(fault.Invalid, "schema: field %s has type %s; a fixed-size list may hold fixed-width values, structs, or such lists of values",
			path, typeText(t))
	}
	if name == "" {
		var err error
		if name, err = leafName(path, inner.Type); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("fixed_size_list:%s:%d", name, t.Len()), nil
}

func unwritable(path string, t arrow.DataType) error {
	return fault.New(fault.Invalid, "schema: field %s has type %s, which Lance tables cannot hold", path, typeText(t))
}

// typeText prints a type for a message; types may be as long as a user likes.
func typeText(t arrow.DataType) string {
	const most = 256
	text := t.String()
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// plainField unwraps an extension type: its storage type, with the extension's
// name and parameters as metadata, which is how they arrive where nobody has
// registered the extension.
func plainField(f arrow.Field) arrow.Field {
	for {
		ext, ok := f.Type.(arrow.ExtensionType)
		if !ok {
			return f
		}
		m := f.Metadata.ToMap()
		m[KeyExtensionName] = ext.ExtensionName()
		m[KeyExtensionMetadata] = ext.Serialize()
		f.Type, f.Metadata = ext.StorageType(), metadata(m)
	}
}

func metadataValue(m arrow.Metadata, key string) string {
	v, _ := m.GetValue(key)
	return v
}

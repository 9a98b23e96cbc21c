package transfer

import (
	"math/big"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
)

// storable brings columns to types that Parquet has. Only what it lacks changes:
// durations become their number of units, decimals of negative scale those of
// scale 0 with the same value.
type storable struct {
	schema *arrow.Schema
	any    bool // something changes
}

func newStorable(s *arrow.Schema) (*storable, error) {
	out := &storable{}
	fields := make([]arrow.Field, s.NumFields())
	for i, f := range s.Fields() {
		var err error
		if fields[i], err = out.field(f, f.Name); err != nil {
			return nil, err
		}
	}
	m := s.Metadata()
	out.schema = arrow.NewSchema(fields, &m)
	return out, nil
}

func (s *storable) field(f arrow.Field, path string) (arrow.Field, error) {
	var err error
	f.Type, err = s.dataType(f.Type, path)
	return f, err
}

func (s *storable) dataType(t arrow.DataType, path string) (arrow.DataType, error) {
	switch t := t.(type) {
	case *arrow.DurationType:
		s.any = true
		return arrow.PrimitiveTypes.Int64, nil
	case arrow.DecimalType:
		if t.GetScale() >= 0 {
			return t, nil
		}
		s.any = true
		digits := t.GetPrecision() - t.GetScale()
		if digits > decimal256.MaxPrecision {
			return nil, fault.New(fault.Unsupported, "transfer: column %s has type %s, whose values may have %d digits; Parquet has at most 76; leave the column out or cast it",
				path, t, digits)
		}
		return &arrow.Decimal256Type{Precision: digits}, nil
	case *arrow.StructType:
		if t.NumFields() == 0 {
			return nil, fault.New(fault.Unsupported, "transfer: column %s is a struct without fields, which Parquet cannot hold; leave it out", path)
		}
		fields := make([]arrow.Field, t.NumFields())
		for i, f := range t.Fields() {
			var err error
			if fields[i], err = s.field(f, path+"."+f.Name); err != nil {
				return nil, err
			}
		}
		return arrow.StructOf(fields...), nil
	case *arrow.ListType:
		item, err := s.field(t.ElemField(), path)
		return arrow.ListOfField(item), err
	case *arrow.LargeListType:
		item, err := s.field(t.ElemField(), path)
		return arrow.LargeListOfField(item), err
	case *arrow.FixedSizeListType:
		item, err := s.field(t.ElemField(), path)
		return arrow.FixedSizeListOfField(t.Len(), item), err
	case *arrow.MapType:
		key, err := s.field(t.KeyField(), path)
		if err != nil {
			return nil, err
		}
		item, err := s.field(t.ItemField(), path)
		return arrow.MapOfFields(key, item), err
	}
	return t, nil
}

// batch gives a batch in the storable types; the caller releases it.
func (s *storable) batch(rec arrow.RecordBatch) (arrow.RecordBatch, error) {
	if !s.any {
		rec.Retain()
		return rec, nil
	}
	return retyped(rec, s.schema)
}

// retyped gives a batch under a schema that differs in what reshaped changes and
// in names and metadata; the caller releases it.
func retyped(rec arrow.RecordBatch, to *arrow.Schema) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, rec.NumCols())
	defer func() {
		for _, c := range columns {
			if c != nil {
				c.Release()
			}
		}
	}()
	for i, c := range rec.Columns() {
		data, err := reshaped(c.Data(), to.Field(i).Type)
		if err != nil {
			return nil, err
		}
		columns[i] = array.MakeFromData(data)
		data.Release()
	}
	return array.NewRecordBatch(to, columns, rec.NumRows()), nil
}

// reshaped gives the data of an array under a type that differs where storable
// changes it. Buffers are shared where they can be.
func reshaped(d arrow.ArrayData, to arrow.DataType) (arrow.ArrayData, error) {
	if from, ok := d.DataType().(arrow.DecimalType); ok && from.GetScale() < 0 {
		return rescaled(d, from, to.(*arrow.Decimal256Type))
	}
	children := make([]arrow.ArrayData, len(d.Children()))
	defer func() {
		for _, c := range children {
			if c != nil {
				c.Release()
			}
		}
	}()
	for i, c := range d.Children() {
		var err error
		if children[i], err = reshaped(c, childType(to, i)); err != nil {
			return nil, err
		}
	}
	if d.DataType().ID() == arrow.DICTIONARY { // its values are none of what changes
		d.Retain()
		return d, nil
	}
	return array.NewData(to, d.Len(), d.Buffers(), children, d.NullN(), d.Offset()), nil
}

func childType(t arrow.DataType, i int) arrow.DataType {
	switch t := t.(type) {
	case *arrow.MapType:
		return t.Elem()
	case arrow.ListLikeType:
		return t.Elem()
	case *arrow.StructType:
		return t.Field(i).Type
	}
	return t
}

// rescaled multiplies the digits out: 5 with scale -3 becomes 5000 with scale 0.
func rescaled(d arrow.ArrayData, from arrow.DecimalType, to *arrow.Decimal256Type) (arrow.ArrayData, error) {
	arr := array.MakeFromData(d)
	defer arr.Release()
	factor := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-from.GetScale())), nil)
	b := array.NewDecimal256Builder(memory.DefaultAllocator, to)
	defer b.Release()
	b.Reserve(arr.Len())
	for i := range arr.Len() {
		if arr.IsNull(i) {
			b.AppendNull()
			continue
		}
		var digits *big.Int
		switch arr := arr.(type) {
		case *array.Decimal128:
			digits = arr.Value(i).BigInt()
		case *array.Decimal256:
			digits = arr.Value(i).BigInt()
		default:
			return nil, fault.New(fault.Internal, "transfer: a decimal of kind %T", arr)
		}
		b.Append(decimal256.FromBigInt(digits.Mul(digits, factor)))
	}
	out := b.NewArray()
	defer out.Release()
	data := out.Data()
	data.Retain()
	return data, nil
}

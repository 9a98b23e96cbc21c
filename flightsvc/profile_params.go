package flightsvc

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
)

// Parameters in the bi profile are described in the profile's types, and times
// in milliseconds: the JDBC driver sends the milliseconds of java.sql.Timestamp
// whatever unit is described. What is bound in the types that were described
// becomes what the statement takes, so that its result stays the promised one.

// biParams is how the profile describes parameters; nil for none.
func biParams(s *arrow.Schema) *arrow.Schema {
	if s == nil {
		return nil
	}
	shown := biSchema(s).Fields()
	for i := range shown {
		if t, ok := shown[i].Type.(*arrow.TimestampType); ok {
			shown[i].Type = &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: t.TimeZone}
		}
	}
	return arrow.NewSchema(shown, nil)
}

// fromBISchema gives the columns that have the shown type the declared one.
func fromBISchema(bound, declared *arrow.Schema) *arrow.Schema {
	shown := biParams(declared)
	fields := bound.Fields()
	for i, f := range fields {
		if arrow.TypeEqual(f.Type, shown.Field(i).Type) && comesBack(declared.Field(i).Type) {
			fields[i].Type = declared.Field(i).Type
		}
	}
	return arrow.NewSchema(fields, nil)
}

// comesBack says that declaredValues makes a type of what the profile shows.
func comesBack(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.UINT8, arrow.UINT16, arrow.UINT32, arrow.UINT64, arrow.TIMESTAMP:
		return true
	}
	return false
}

// fromBIParams converts a batch to a schema of fromBISchema. A value that a
// type cannot hold is fault.Invalid. The caller releases the result.
func fromBIParams(b arrow.RecordBatch, to *arrow.Schema, mem memory.Allocator) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, 0, b.NumCols())
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, c := range b.Columns() {
		if arrow.TypeEqual(c.DataType(), to.Field(i).Type) {
			c.Retain()
			columns = append(columns, c)
			continue
		}
		converted, err := declaredValues(c, i, to.Field(i).Type, mem)
		if err != nil {
			return nil, err
		}
		columns = append(columns, converted)
	}
	return array.NewRecordBatch(to, columns, b.NumRows()), nil
}

func declaredValues(c arrow.Array, column int, to arrow.DataType, mem memory.Allocator) (arrow.Array, error) {
	switch to := to.(type) {
	case *arrow.Uint8Type:
		return narrowed(c, c.(*array.Int16).Int16Values(), column, math.MaxUint8, to, mem, func(v int16) uint8 { return uint8(v) })
	case *arrow.Uint16Type:
		return narrowed(c, c.(*array.Int32).Int32Values(), column, math.MaxUint16, to, mem, func(v int32) uint16 { return uint16(v) })
	case *arrow.Uint32Type:
		return narrowed(c, c.(*array.Int64).Int64Values(), column, math.MaxUint32, to, mem, func(v int64) uint32 { return uint32(v) })
	case *arrow.Uint64Type:
		return narrowed(c, c.(*array.Int64).Int64Values(), column, math.MaxInt64, to, mem, func(v int64) uint64 { return uint64(v) })
	case *arrow.TimestampType:
		return fromMilliseconds(c.(*array.Timestamp), column, to, mem)
	}
	return nil, fault.New(fault.Internal, "flightsvc: no way back from %s to %s", c.DataType(), to)
}

// narrowed converts whole numbers to unsigned ones of at most most.
func narrowed[F int16 | int32 | int64, T uint8 | uint16 | uint32 | uint64](
	c arrow.Array, values []F, column int, most int64, to arrow.DataType, mem memory.Allocator, convert func(F) T,
) (arrow.Array, error) {
	out := make([]T, len(values))
	for i, v := range values {
		if c.IsNull(i) {
			continue
		}
		if v < 0 || int64(v) > most {
			return nil, fault.New(fault.Invalid, "parameters: column %d, row %d: %d is no %s", column, i, v, to)
		}
		out[i] = convert(v)
	}
	return fixedArray(arrow.GetBytes(out), c, to, mem), nil
}

// fromMilliseconds converts times to another unit.
func fromMilliseconds(c *array.Timestamp, column int, to *arrow.TimestampType, mem memory.Allocator) (arrow.Array, error) {
	factor := int64(1) // of what a millisecond is, seconds aside
	switch to.Unit {
	case arrow.Microsecond:
		factor = 1_000
	case arrow.Nanosecond:
		factor = 1_000_000
	}
	out := make([]int64, c.Len())
	for i, v := range c.TimestampValues() {
		v := int64(v)
		switch {
		case c.IsNull(i):
			continue
		case to.Unit == arrow.Second && v%1000 != 0, v > math.MaxInt64/factor, v < math.MinInt64/factor:
			return nil, fault.New(fault.Invalid, "parameters: column %d, row %d: %d milliseconds are no %s", column, i, v, to)
		case to.Unit == arrow.Second:
			out[i] = v / 1000
		default:
			out[i] = v * factor
		}
	}
	return fixedArray(arrow.GetBytes(out), c, to, mem), nil
}

func fixedArray(values []byte, like arrow.Array, to arrow.DataType, mem memory.Allocator) arrow.Array {
	data := fixed(values, like, to, mem)
	defer data.Release()
	return array.MakeFromData(data)
}

package query

import (
	"math"
	"math/big"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/half"
)

// This file holds the conversions of single types, into the engine and back.
// Each pair is exact for every value that a table can hold.

// taken gives the data of an array that the caller built, for keeps.
func taken(a arrow.Array) arrow.ArrayData {
	defer a.Release()
	a.Data().Retain()
	return a.Data()
}

func widenHalf(data arrow.ArrayData) arrow.ArrayData {
	a := array.NewFloat16Data(data)
	defer a.Release()
	b := array.NewFloat32Builder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(a.Len())
	for i := range a.Len() {
		if a.IsNull(i) {
			b.AppendNull()
			continue
		}
		b.Append(half.Float32(a.Value(i)))
	}
	return taken(b.NewArray())
}

func narrowHalf(a *array.Float32) (arrow.ArrayData, error) {
	b := array.NewFloat16Builder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(a.Len())
	for i := range a.Len() {
		if a.IsNull(i) {
			b.AppendNull()
			continue
		}
		v := a.Value(i)
		n := half.Nearest(v)
		if half.IsInf(n) && !math.IsInf(float64(v), 0) {
			return nil, cellf(i, "%v is beyond the numbers of 16 bits, which end at 65504", v)
		}
		b.Append(n)
	}
	return taken(b.NewArray()), nil
}

func narrowDecimal(data arrow.ArrayData, f arrow.Field) (arrow.ArrayData, error) {
	a := array.NewDecimal256Data(data)
	defer a.Release()
	dt := f.Type.(*arrow.Decimal128Type)
	b := array.NewDecimal128Builder(memory.DefaultAllocator, dt)
	defer b.Release()
	b.Reserve(a.Len())
	for i := range a.Len() {
		if a.IsNull(i) {
			b.AppendNull()
			continue
		}
		v := a.Value(i)
		if !v.FitsInPrecision(dt.Precision) {
			return nil, fault.New(fault.Corrupt, "query: column %q holds a decimal of more than the %d digits of its type", f.Name, dt.Precision)
		}
		b.Append(decimal128.FromBigInt(v.BigInt()))
	}
	return taken(b.NewArray()), nil
}

// decimalText spells decimals that the engine has no type for.
func decimalText(data arrow.ArrayData) (arrow.ArrayData, error) {
	a := array.MakeFromData(data)
	defer a.Release()
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(a.Len())
	for i := range a.Len() {
		if a.IsNull(i) {
			b.AppendNull()
			continue
		}
		switch a := a.(type) {
		case *array.Decimal128:
			b.Append(spell(a.Value(i).BigInt().String(), a.DataType().(*arrow.Decimal128Type).Scale))
		case *array.Decimal256:
			b.Append(spell(a.Value(i).BigInt().String(), a.DataType().(*arrow.Decimal256Type).Scale))
		default:
			return nil, fault.New(fault.Internal, "query: %T is no decimal", a)
		}
	}
	return taken(b.NewArray()), nil
}

// spell puts the point into the digits of a decimal; a negative scale is an
// exponent.
func spell(digits string, scale int32) string {
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	switch {
	case scale < 0:
		if digits != "0" {
			for range -scale {
				digits += "0"
			}
		}
	case scale > 0:
		for len(digits) <= int(scale) {
			digits = "0" + digits
		}
		digits = digits[:len(digits)-int(scale)] + "." + digits[len(digits)-int(scale):]
	}
	return sign + digits
}

// decimals reads spelt decimals back.
func decimals(texts *array.LargeString, dt arrow.DecimalType) (arrow.ArrayData, error) {
	var b array.Builder
	var add func(*big.Int)
	switch dt := dt.(type) {
	case *arrow.Decimal128Type:
		d := array.NewDecimal128Builder(memory.DefaultAllocator, dt)
		b, add = d, func(n *big.Int) { d.Append(decimal128.FromBigInt(n)) }
	case *arrow.Decimal256Type:
		d := array.NewDecimal256Builder(memory.DefaultAllocator, dt)
		b, add = d, func(n *big.Int) { d.Append(decimal256.FromBigInt(n)) }
	default:
		return nil, fault.New(fault.Internal, "query: %s is no decimal here", dt)
	}
	defer b.Release()
	b.Reserve(texts.Len())
	for i := range texts.Len() {
		if texts.IsNull(i) {
			b.AppendNull()
			continue
		}
		n, err := parseDecimal(texts.Value(i), dt)
		if err != "" {
			return nil, &cellError{row: i, text: err}
		}
		add(n)
	}
	return taken(b.NewArray()), nil
}

func widenDecimal(a *array.Decimal128, dt *arrow.Decimal256Type) arrow.ArrayData {
	b := array.NewDecimal256Builder(memory.DefaultAllocator, dt)
	defer b.Release()
	b.Reserve(a.Len())
	for i := range a.Len() {
		if a.IsNull(i) {
			b.AppendNull()
			continue
		}
		v := a.Value(i)
		if arrow.TypeEqual(dt, unsignedWide) {
			b.Append(decimal256.New(0, 0, uint64(v.HighBits()), v.LowBits()))
		} else {
			b.Append(decimal256.FromDecimal128(v))
		}
	}
	return taken(b.NewArray())
}

// boolOf makes true of each struct that is not null.
func boolOf(data arrow.ArrayData) arrow.ArrayData {
	a := array.MakeFromData(data)
	defer a.Release()
	b := array.NewBooleanBuilder(memory.DefaultAllocator)
	defer b.Release()
	for i := range a.Len() {
		if a.IsNull(i) {
			b.AppendNull()
			continue
		}
		b.Append(true)
	}
	return taken(b.NewArray())
}

// numbers converts fixed-width values one by one; fail gives the error for a
// value that does not fit.
func numbers[From, To int32 | int64](in arrow.ArrayData, to arrow.DataType, convert func(From) (To, bool), fail func(From) string) (arrow.ArrayData, error) {
	from := fixed[From](in)
	out := newBuffer(len(from) * size[To]())
	defer out.Release()
	dst := castTo[To](out.Bytes())
	validity := validityOf(in)
	if validity != nil {
		defer validity.Release()
	}
	for i, v := range from {
		if validity != nil && !bitutil.BitIsSet(validity.Bytes(), i) {
			continue
		}
		n, ok := convert(v)
		if !ok {
			return nil, &cellError{row: i, text: fail(v)}
		}
		dst[i] = n
	}
	return array.NewData(to, in.Len(), []*memory.Buffer{validity, out}, nil, in.NullN(), 0), nil
}

func size[T int32 | int64]() int {
	var v T
	if _, wide := any(v).(int64); wide {
		return 8
	}
	return 4
}

func castTo[T int32 | int64](b []byte) []T {
	var v T
	if _, wide := any(v).(int64); wide {
		return any(arrow.Int64Traits.CastFromBytes(b)).([]T)
	}
	return any(arrow.Int32Traits.CastFromBytes(b)).([]T)
}

// fixed views the values of a fixed-width array.
func fixed[T int32 | int64](data arrow.ArrayData) []T {
	if data.Len() == 0 || data.Buffers()[1] == nil {
		return nil
	}
	return castTo[T](data.Buffers()[1].Bytes())[data.Offset() : data.Offset()+data.Len()]
}

// validityOf copies the validity bits of an array to offset 0, nil when all
// values are valid. The caller releases it.
func validityOf(data arrow.ArrayData) *memory.Buffer {
	buffers := data.Buffers()
	if data.NullN() == 0 || len(buffers) == 0 || buffers[0] == nil || buffers[0].Len() == 0 {
		return nil
	}
	out := newBuffer(int(bitutil.BytesForBits(int64(data.Len()))))
	bitutil.CopyBitmap(buffers[0].Bytes(), data.Offset(), data.Len(), out.Bytes(), 0)
	return out
}

// perSecond is how many of a unit a second has.
func perSecond(u arrow.TimeUnit) int64 {
	switch u {
	case arrow.Second:
		return 1
	case arrow.Millisecond:
		return 1e3
	case arrow.Microsecond:
		return 1e6
	}
	return 1e9
}

// intervals makes intervals of durations, in days and the rest of a day: the
// engine counts microseconds, and nanoseconds in its results overflow after 292
// years.
func intervals(data arrow.ArrayData, name string) (arrow.ArrayData, error) {
	a := array.NewDurationData(data)
	defer a.Release()
	unit := a.DataType().(*arrow.DurationType).Unit
	perDay := 24 * 3600 * perSecond(unit)
	b := array.NewMonthDayNanoIntervalBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(a.Len())
	for i := range a.Len() {
		if a.IsNull(i) {
			b.AppendNull()
			continue
		}
		v := int64(a.Value(i))
		days := v / perDay
		if days > math.MaxInt32 || days < math.MinInt32 {
			return nil, fault.New(fault.Unsupported, "query: column %q holds a duration of %d days, longer than the %d that an INTERVAL of SQL has; "+
				"leave the column out, or read the table without SQL", name, days, math.MaxInt32)
		}
		b.Append(arrow.MonthDayNanoInterval{Days: int32(days), Nanoseconds: v % perDay * (1_000_000_000 / perSecond(unit))})
	}
	return taken(b.NewArray()), nil
}

// durations reads them back.
func durations(a *array.MonthDayNanoInterval, dt *arrow.DurationType) (arrow.ArrayData, error) {
	b := array.NewDurationBuilder(memory.DefaultAllocator, dt)
	defer b.Release()
	b.Reserve(a.Len())
	unit, perDay := 1_000_000_000/perSecond(dt.Unit), 24*3600*perSecond(dt.Unit)
	for i := range a.Len() {
		if a.IsNull(i) {
			b.AppendNull()
			continue
		}
		v := a.Value(i)
		days, rest := int64(v.Days), v.Nanoseconds
		switch {
		case v.Months != 0:
			return nil, cellf(i, "an interval of %d months has no fixed length; a duration takes days and less", v.Months)
		case rest%unit != 0:
			return nil, cellf(i, "an interval with %d ns has a fraction that the column, of whole %s, does not hold", rest, unitNames[dt.Unit])
		case days > math.MaxInt64/perDay-1 || days < math.MinInt64/perDay+1:
			return nil, cellf(i, "an interval of %d days is longer than a duration in %s can be", days, unitNames[dt.Unit])
		}
		n := days * perDay
		if rest /= unit; n > math.MaxInt64-max(rest, 0) || n < math.MinInt64-min(rest, 0) {
			return nil, cellf(i, "an interval of %d days is longer than a duration in %s can be", days, unitNames[dt.Unit])
		}
		b.Append(arrow.Duration(n + rest))
	}
	return taken(b.NewArray()), nil
}

// dictionaryValues looks up the values of a dictionary array. The engine reads
// null indices of a dictionary as its first value.
func dictionaryValues(data arrow.ArrayData) (arrow.ArrayData, error) {
	a := array.NewDictionaryData(data)
	defer a.Release()
	n := a.Dictionary().Len()
	index := func(i int) (int, error) {
		at := a.GetValueIndex(i)
		if at < 0 || at >= n {
			return 0, fault.New(fault.Corrupt, "query: index %d in a dictionary of %d values", at, n)
		}
		return at, nil
	}
	switch d := a.Dictionary().(type) {
	case *array.Null:
		return taken(array.NewNull(a.Len())), nil
	case *array.Boolean:
		return lookUp(a, array.NewBooleanBuilder(memory.DefaultAllocator), d.IsNull, d.Value, index)
	case *array.String:
		return lookUp(a, array.NewStringBuilder(memory.DefaultAllocator), d.IsNull, d.Value, index)
	case *array.LargeString:
		return lookUp(a, array.NewLargeStringBuilder(memory.DefaultAllocator), d.IsNull, d.Value, index)
	case *array.Binary:
		return lookUp(a, array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary), d.IsNull, d.Value, index)
	case *array.LargeBinary:
		return lookUp(a, array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.LargeBinary), d.IsNull, d.Value, index)
	}
	return fixedValues(a, index)
}

// appender is what builders of one value type have in common.
type appender[T any] interface {
	array.Builder
	Append(T)
}

func lookUp[T any](a *array.Dictionary, b appender[T], isNull func(int) bool, value func(int) T, index func(int) (int, error)) (arrow.ArrayData, error) {
	defer b.Release()
	b.Reserve(a.Len())
	for i := range a.Len() {
		if a.IsNull(i) {
			b.AppendNull()
			continue
		}
		at, err := index(i)
		if err != nil {
			return nil, err
		}
		if isNull(at) {
			b.AppendNull()
			continue
		}
		b.Append(value(at))
	}
	return taken(b.NewArray()), nil
}

// fixedValues looks up values of a fixed width.
func fixedValues(a *array.Dictionary, index func(int) (int, error)) (arrow.ArrayData, error) {
	d := a.Dictionary()
	dt, ok := d.DataType().(arrow.FixedWidthDataType)
	if !ok || dt.BitWidth()%8 != 0 || len(d.Data().Buffers()) != 2 {
		return nil, fault.New(fault.Internal, "query: a dictionary of %s", d.DataType())
	}
	width := dt.BitWidth() / 8
	out, validity := newBuffer(a.Len()*width), newBuffer(int(bitutil.BytesForBits(int64(a.Len()))))
	defer out.Release()
	defer validity.Release()
	nulls := 0
	for i := range a.Len() {
		at, err := 0, error(nil)
		isNull := a.IsNull(i)
		if !isNull {
			if at, err = index(i); err != nil {
				return nil, err
			}
			isNull = d.IsNull(at)
		}
		if isNull {
			nulls++
			continue
		}
		bitutil.SetBit(validity.Bytes(), i)
		from := (d.Data().Offset() + at) * width
		copy(out.Bytes()[i*width:(i+1)*width], d.Data().Buffers()[1].Bytes()[from:from+width])
	}
	return array.NewData(d.DataType(), a.Len(), []*memory.Buffer{validity, out}, nil, nulls, 0), nil
}

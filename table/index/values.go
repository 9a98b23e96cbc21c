package index

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/half"
)

// KindOf says what values of a stored type are compared as; false for types
// that no index here is over.
func KindOf(dt arrow.DataType) (Kind, bool) {
	switch dt.ID() {
	case arrow.BOOL, arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32, arrow.UINT64,
		arrow.DECIMAL128, arrow.DECIMAL256, arrow.DATE32, arrow.DATE64, arrow.TIME32, arrow.TIME64, arrow.TIMESTAMP, arrow.DURATION:
		return Number, true
	case arrow.FLOAT16, arrow.FLOAT32, arrow.FLOAT64:
		return Float, true
	case arrow.STRING, arrow.LARGE_STRING, arrow.BINARY, arrow.LARGE_BINARY, arrow.FIXED_SIZE_BINARY:
		return Text, true
	}
	return 0, false
}

// values are the values of an array, one by one.
type values struct {
	array arrow.Array
	at    func(i int) Value // of one that is not null
}

// valuesOf reads an array of a type that KindOf knows.
func valuesOf(a arrow.Array) (values, error) {
	v := values{array: a}
	switch a := a.(type) {
	case *array.Boolean:
		v.at = func(i int) Value { return Bool(a.Value(i)) }
	case *array.Int8:
		v.at = signed(a.Value)
	case *array.Int16:
		v.at = signed(a.Value)
	case *array.Int32:
		v.at = signed(a.Value)
	case *array.Int64:
		v.at = signed(a.Value)
	case *array.Uint8:
		v.at = unsigned(a.Value)
	case *array.Uint16:
		v.at = unsigned(a.Value)
	case *array.Uint32:
		v.at = unsigned(a.Value)
	case *array.Uint64:
		v.at = unsigned(a.Value)
	case *array.Date32:
		v.at = signed(a.Value)
	case *array.Date64:
		v.at = signed(a.Value)
	case *array.Time32:
		v.at = signed(a.Value)
	case *array.Time64:
		v.at = signed(a.Value)
	case *array.Timestamp:
		v.at = signed(a.Value)
	case *array.Duration:
		v.at = signed(a.Value)
	case *array.Decimal128:
		v.at = func(i int) Value { return Big(a.Value(i)) }
	case *array.Decimal256:
		for i := range a.Len() {
			if a.IsValid(i) && !fits128(a.Value(i)) {
				return v, fault.Corruptf(-1, "index: value %d is a decimal of more than 128 bits", i)
			}
		}
		v.at = func(i int) Value {
			n := a.Value(i).Array()
			return Big(decimal128.New(int64(n[1]), n[0]))
		}
	case *array.Float16:
		v.at = func(i int) Value { return Fraction(float64(half.Float32(a.Value(i)))) }
	case *array.Float32:
		v.at = func(i int) Value { return Fraction(float64(a.Value(i))) }
	case *array.Float64:
		v.at = func(i int) Value { return Fraction(a.Value(i)) }
	case *array.String:
		v.at = func(i int) Value { return String(a.Value(i)) }
	case *array.LargeString:
		v.at = func(i int) Value { return String(a.Value(i)) }
	case *array.Binary:
		v.at = func(i int) Value { return String(string(a.Value(i))) }
	case *array.LargeBinary:
		v.at = func(i int) Value { return String(string(a.Value(i))) }
	case *array.FixedSizeBinary:
		v.at = func(i int) Value { return String(string(a.Value(i))) }
	default:
		return v, fault.New(fault.Unsupported, "index: values of type %s", a.DataType())
	}
	return v, nil
}

func fits128(n decimal256.Num) bool {
	words := n.Array() // least significant first
	sign := uint64(int64(words[1]) >> 63)
	return words[2] == sign && words[3] == sign
}

func signed[T ~int8 | ~int16 | ~int32 | ~int64](at func(int) T) func(int) Value {
	return func(i int) Value { return Int(int64(at(i))) }
}

func unsigned[T uint8 | uint16 | uint32 | uint64](at func(int) T) func(int) Value {
	return func(i int) Value { return Uint(uint64(at(i))) }
}

func (v values) len() int { return v.array.Len() }

// end gives value i as an end of a run, nil when it is null.
func (v values) end(i int) *Value {
	if v.array.IsNull(i) {
		return nil
	}
	x := v.at(i)
	return &x
}

// matches says that a test is true of value i.
func (v values) matches(t Test, i int) bool {
	if v.array.IsNull(i) {
		return t.null == True
	}
	return t.Matches(v.at(i))
}

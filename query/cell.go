package query

import (
	"errors"
	"fmt"
	"math/big"
	"sort"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
)

// cellError is a value of the engine that a column cannot hold. Among the rows of
// a query, whose columns have the types of the engine's, there is none; what is
// written goes into columns of other types.
type cellError struct {
	column string
	row    int // of the array, later of the batch
	text   string
}

// Error says what is wrong, where it is known.
func (e *cellError) Error() string {
	return fmt.Sprintf("query: column %s, row %d: %s", e.column, e.row, e.text)
}

func cellf(row int, format string, args ...any) error {
	return &cellError{row: row, text: fmt.Sprintf(format, args...)}
}

// ofHolder gives an error about an item the row of the list that holds it.
func ofHolder(err error, holder func(item int) int) error {
	var cell *cellError
	if errors.As(err, &cell) {
		cell.row = holder(cell.row)
	}
	return err
}

// holderOf finds the list of n that holds an item.
func holderOf(offsets *memory.Buffer, t arrow.DataType, n, item int) int {
	ends := func(i int) bool {
		if t.ID() == arrow.LARGE_LIST {
			return arrow.Int64Traits.CastFromBytes(offsets.Bytes())[i+1] > int64(item)
		}
		return int(arrow.Int32Traits.CastFromBytes(offsets.Bytes())[i+1]) > item
	}
	return sort.Search(n, ends)
}

// named puts the column into an error of a value, or says for a query that there
// should be none.
func named(err error, column string, written bool) error {
	var cell *cellError
	if errors.As(err, &cell) {
		if cell.column = column; written {
			return cell
		}
		return fault.New(fault.Internal, "%w", cell)
	}
	return fault.New(fault.KindOf(err), "column %q: %w", column, err)
}

// nullsOnly refuses values in a column that has none.
func nullsOnly(data arrow.ArrayData, visible []bool) error {
	a := array.MakeFromData(data)
	defer a.Release()
	for i := range a.Len() {
		if a.IsValid(i) && (visible == nil || visible[i]) {
			return cellf(i, "%s, and the column takes nothing but NULL", fault.Quote(a.ValueStr(i)))
		}
	}
	return nil
}

// unitNames are the units of times in words.
var unitNames = map[arrow.TimeUnit]string{
	arrow.Second: "seconds", arrow.Millisecond: "milliseconds", arrow.Microsecond: "microseconds", arrow.Nanosecond: "nanoseconds",
}

// mostExponent bounds the exponents of decimals: a few digits can spell a number
// that no memory holds.
const mostExponent = 1000

// parseDecimal reads a number in decimals, with point and exponent, as one of a
// type, or says why it is none.
func parseDecimal(text string, dt arrow.DecimalType) (*big.Int, string) {
	s := strings.TrimSpace(text)
	mantissa, exponent := s, 0
	if at := strings.IndexAny(s, "eE"); at >= 0 {
		n, err := strconv.Atoi(s[at+1:])
		if err != nil || n > mostExponent || n < -mostExponent {
			return nil, fmt.Sprintf("%s is no number of type %s", fault.Quote(text), dt)
		}
		mantissa, exponent = s[:at], n
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimPrefix(whole+fraction, "+")
	n, ok := new(big.Int).SetString(digits, 10)
	if !ok || strings.Contains(digits, "_") || len(digits) > mostExponent {
		return nil, fmt.Sprintf("%s is no number of type %s", fault.Quote(text), dt)
	}
	shift := exponent - len(fraction) + int(dt.GetScale())
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(shift, -shift))), nil)
	if shift >= 0 {
		n.Mul(n, power)
	} else {
		var rest big.Int
		if n.QuoRem(n, power, &rest); rest.Sign() != 0 {
			return nil, fmt.Sprintf("%s has more digits than %s holds, whose last one stands for 1e%d", fault.Quote(text), dt, -dt.GetScale())
		}
	}
	if most := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(dt.GetPrecision())), nil); n.CmpAbs(most) >= 0 {
		return nil, fmt.Sprintf("%s has more than the %d digits of %s", fault.Quote(text), dt.GetPrecision(), dt)
	}
	return n, ""
}

package index

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// Kind is what values of a column are compared as.
type Kind uint8

// The kinds of value.
const (
	Number Kind = iota // whole numbers: integers, booleans, unscaled decimals, counts of time units
	Float              // binary fractions
	Text               // bytes
)

// Value is one value of a column in the unit in which it is stored. It orders
// as SQL does: NaN is equal to itself and above all other numbers, -0 is 0, text
// is compared byte by byte.
type Value struct {
	kind Kind
	high int64 // number: upper half
	low  uint64
	f    float64
	text string
}

// Int makes a Number.
func Int(v int64) Value { return Value{kind: Number, high: v >> 63, low: uint64(v)} }

// Uint makes a Number.
func Uint(v uint64) Value { return Value{kind: Number, low: v} }

// Big makes a Number of 128 bits.
func Big(v decimal128.Num) Value { return Value{kind: Number, high: v.HighBits(), low: v.LowBits()} }

// Bool makes a Number: 1 for true.
func Bool(v bool) Value {
	if v {
		return Int(1)
	}
	return Int(0)
}

// Fraction makes a Float.
func Fraction(v float64) Value { return Value{kind: Float, f: v} }

// String makes a Text.
func String(v string) Value { return Value{kind: Text, text: v} }

// Kind tells what the value is compared as.
func (v Value) Kind() Kind { return v.kind }

// Compare orders values of one kind.
func (v Value) Compare(o Value) int {
	switch v.kind {
	case Number:
		if v.high != o.high {
			return cmp.Compare(v.high, o.high)
		}
		return cmp.Compare(v.low, o.low)
	case Float:
		switch {
		case v.f < o.f:
			return -1
		case v.f > o.f:
			return 1
		case v.f == o.f:
			return 0
		}
		a, b := math.IsNaN(v.f), math.IsNaN(o.f)
		switch {
		case a && b:
			return 0
		case a:
			return 1
		}
		return -1
	}
	return strings.Compare(v.text, o.text)
}

// isNaN says that v is no number.
func (v Value) isNaN() bool { return v.kind == Float && math.IsNaN(v.f) }

// String shows the value for tests and logs.
func (v Value) String() string {
	switch v.kind {
	case Number:
		return decimal128.New(v.high, v.low).BigInt().String()
	case Float:
		return fmt.Sprint(v.f)
	}
	return fmt.Sprintf("%q", v.text)
}

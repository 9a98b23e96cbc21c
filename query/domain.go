package query

import (
	"math/big"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/index"
)

// domain says how the values of a column, perhaps cast to another type, compare
// with constants: what a stored number stands for.
type domain struct {
	kind index.Kind
	// typ is the engine's type, as plans name it.
	typ string
	// unit is what one stands for in a stored Number: times are in nanoseconds.
	unit *big.Rat
	// scale is the number of decimal places of typ DECIMAL.
	scale int
	// slack is how much a stored Number may differ from what the engine has, in
	// stored units; error is by what share of a value it may.
	slack int64
	error *big.Rat
}

// exact says that the engine compares just what is stored.
func (d domain) exact() bool { return d.slack == 0 && d.error == nil }

// Nanoseconds of units of time.
const (
	microsecond = 1_000
	millisecond = 1_000_000
	second      = 1_000_000_000
	day         = 86_400 * second
)

// whole is a domain of stored whole numbers.
func whole(typ string, unit int64) (domain, bool) {
	return domain{kind: index.Number, typ: typ, unit: big.NewRat(unit, 1)}, true
}

// domainOf gives the domain of a field's own values, false for types whose
// values the engine has in another form or order.
func domainOf(f *schema.Field) (domain, bool) {
	if f.Shape != schema.Leaf || f.Packed || f.Blob != schema.NotBlob || f.Storage == nil || f.Metadata[schema.KeyExtensionName] != "" {
		return domain{}, false
	}
	switch dt := f.Storage.(type) {
	case *arrow.BooleanType:
		return whole("BOOLEAN", 1)
	case *arrow.Int8Type:
		return whole("TINYINT", 1)
	case *arrow.Int16Type:
		return whole("SMALLINT", 1)
	case *arrow.Int32Type:
		return whole("INTEGER", 1)
	case *arrow.Int64Type:
		return whole("BIGINT", 1)
	case *arrow.Uint8Type:
		return whole("UTINYINT", 1)
	case *arrow.Uint16Type:
		return whole("USMALLINT", 1)
	case *arrow.Uint32Type:
		return whole("UINTEGER", 1)
	case *arrow.Uint64Type:
		return whole("UBIGINT", 1)
	case *arrow.Float16Type, *arrow.Float32Type:
		return domain{kind: index.Float, typ: "FLOAT"}, true
	case *arrow.Float64Type:
		return domain{kind: index.Float, typ: "DOUBLE"}, true
	case arrow.DecimalType:
		if dt.GetPrecision() > 38 || dt.GetScale() < 0 {
			return domain{}, false // text in SQL
		}
		scale := int(dt.GetScale())
		return domain{kind: index.Number, typ: "DECIMAL", unit: new(big.Rat).SetFrac(big.NewInt(1), powerOfTen(scale)), scale: scale}, true
	case *arrow.Date32Type:
		return whole("DATE", day)
	case *arrow.Date64Type: // milliseconds, of which SQL sees the day
		d, ok := whole("DATE", millisecond)
		d.slack = day/millisecond - 1
		return d, ok
	case *arrow.Time32Type:
		return whole("TIME", nanoseconds(dt.Unit))
	case *arrow.Time64Type:
		if dt.Unit == arrow.Nanosecond {
			return whole("TIME_NS", 1)
		}
		return whole("TIME", nanoseconds(dt.Unit))
	case *arrow.TimestampType:
		switch {
		case dt.Unit == arrow.Nanosecond:
			return whole("TIMESTAMP_NS", 1)
		case dt.TimeZone != "":
			return whole("TIMESTAMP WITH TIME ZONE", nanoseconds(dt.Unit))
		case dt.Unit == arrow.Second:
			return whole("TIMESTAMP_S", second)
		case dt.Unit == arrow.Millisecond:
			return whole("TIMESTAMP_MS", millisecond)
		}
		return whole("TIMESTAMP", microsecond)
	case *arrow.StringType, *arrow.LargeStringType:
		return domain{kind: index.Text, typ: "VARCHAR"}, true
	case *arrow.BinaryType, *arrow.LargeBinaryType, *arrow.FixedSizeBinaryType:
		return domain{kind: index.Text, typ: "BLOB"}, true
	}
	return domain{}, false
}

func nanoseconds(u arrow.TimeUnit) int64 { return second / perSecond(u) }

func powerOfTen(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// integers are the engine's types of whole numbers.
var integers = map[string]bool{
	"TINYINT": true, "SMALLINT": true, "INTEGER": true, "BIGINT": true, "HUGEINT": true,
	"UTINYINT": true, "USMALLINT": true, "UINTEGER": true, "UBIGINT": true, "UHUGEINT": true,
}

// finer lists the types to which a cast keeps the moment.
var finer = map[string][]string{
	"DATE":         {"TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP", "TIMESTAMP_NS"},
	"TIMESTAMP_S":  {"TIMESTAMP_MS", "TIMESTAMP", "TIMESTAMP_NS"},
	"TIMESTAMP_MS": {"TIMESTAMP", "TIMESTAMP_NS"},
	"TIMESTAMP":    {"TIMESTAMP_NS"},
	"TIME":         {"TIME_NS"},
}

// What a number loses at most when it becomes a binary fraction, by share.
var (
	errorOfDouble = big.NewRat(1, 1<<50)
	errorOfFloat  = big.NewRat(1, 1<<20)
)

// cast gives the domain of values cast to another type, false unless order and
// value are kept, or nearly so.
func (d domain) cast(to planType) (domain, bool) {
	from := d.typ
	d.typ = to.id
	switch {
	case from == to.id && from != "DECIMAL":
		return d, true
	case integers[from] && integers[to.id]:
		return d, true
	case (integers[from] || from == "DECIMAL") && to.id == "DECIMAL":
		ok := to.scale >= d.scale
		d.scale = to.scale
		return d, ok
	case (integers[from] || from == "DECIMAL") && to.id == "DOUBLE":
		d.error = errorOfDouble
		return d, true
	case (integers[from] || from == "DECIMAL") && to.id == "FLOAT":
		d.error = errorOfFloat
		return d, true
	case from == "FLOAT" && to.id == "DOUBLE":
		return d, true
	}
	for _, t := range finer[from] {
		if t == to.id {
			return d, true
		}
	}
	return d, false
}

// bound is one end of what a comparison allows: a value and whether it is
// allowed itself. Nil ends mean that there is none.
type bound struct {
	value index.Value
	open  bool
}

// low and high give the stored values from which on, and up to which, a column
// is at least, or at most, a constant; strict leaves out the constant itself.
// False means that there is no such value.
func (d domain) low(c constant, strict bool) (*bound, bool) {
	if d.kind != index.Number {
		return &bound{c.value(d.kind), strict}, true
	}
	at, strict := d.stored(c.number, -1, strict)
	n, exact := floor(at)
	if !exact {
		n.Add(n, big.NewInt(1))
	} else if strict {
		n.Add(n, big.NewInt(1))
	}
	switch v, side := number(n); side {
	case 0:
		return &bound{value: v}, true
	case -1:
		return nil, true
	}
	return nil, false
}

func (d domain) high(c constant, strict bool) (*bound, bool) {
	if d.kind != index.Number {
		return &bound{c.value(d.kind), strict}, true
	}
	at, strict := d.stored(c.number, 1, strict)
	n, exact := floor(at)
	if exact && strict {
		n.Sub(n, big.NewInt(1))
	}
	switch v, side := number(n); side {
	case 0:
		return &bound{value: v}, true
	case 1:
		return nil, true
	}
	return nil, false
}

// stored turns a constant into stored units; where they are not exact it is moved
// as far as they may be off, below (-1) or above (1).
func (d domain) stored(c *big.Rat, side int64, strict bool) (*big.Rat, bool) {
	at := new(big.Rat).Set(c)
	if d.error != nil {
		off := new(big.Rat).Abs(c)
		off.Mul(off, d.error)
		at.Add(at, off.Mul(off, big.NewRat(side, 1)))
	}
	at.Quo(at, d.unit)
	at.Add(at, big.NewRat(side*d.slack, 1))
	return at, strict && d.exact()
}

// floor is the greatest whole number that is not above r, and whether it is r.
func floor(r *big.Rat) (*big.Int, bool) {
	n, rest := new(big.Int), new(big.Int)
	n.DivMod(r.Num(), r.Denom(), rest)
	return n, rest.Sign() == 0
}

// number makes a value, or tells on which side of all values it is.
func number(n *big.Int) (v index.Value, side int) {
	if n.BitLen() > 127 {
		return v, n.Sign()
	}
	return index.Big(decimal128.FromBigInt(n)), 0
}

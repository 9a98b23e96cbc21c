package query

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/flightblob/flightblob/table/index"
)

// planType is a type in a plan, as far as lookups need it.
type planType struct {
	id    string
	scale int // of a DECIMAL
}

func planTypeOf(v any) planType {
	o, _ := v.(object)
	t := planType{id: text(o["id"])}
	info, _ := o["type_info"].(object)
	if info["alias"] != nil && info["alias"] != "" { // a type of its own, such as JSON
		t.id = ""
	}
	if n, ok := whole64(info["scale"]); ok {
		t.scale = int(n)
	}
	return t
}

// whole64 reads a number of a plan that was decoded with json.Number.
func whole64(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := n.Int64()
	return i, err == nil
}

// constant is a constant that a column is compared with, by the kind of the
// column's values.
type constant struct {
	typ      planType
	null     bool
	number   *big.Rat // of types that are not FLOAT or DOUBLE; times in nanoseconds
	fraction float64
	text     string // VARCHAR, BLOB
}

func (c constant) value(kind index.Kind) index.Value {
	if kind == index.Float {
		return index.Fraction(c.fraction)
	}
	return index.String(c.text)
}

// timeUnits are the nanoseconds of one, for types of time.
var timeUnits = map[string]int64{
	"DATE": day, "TIME": microsecond, "TIME_NS": 1, "TIMESTAMP_S": second, "TIMESTAMP_MS": millisecond,
	"TIMESTAMP": microsecond, "TIMESTAMP_NS": 1, "TIMESTAMP WITH TIME ZONE": microsecond,
}

// constantOf reads a value as plans show it, false for values that lookups have
// no use for.
func constantOf(v any) (constant, bool) {
	o, _ := v.(object)
	c := constant{typ: planTypeOf(o["type"])}
	if o["is_null"] == true {
		c.null = true
		return c, c.typ.id != ""
	}
	switch value := o["value"]; {
	case c.typ.id == "BOOLEAN":
		b, ok := value.(bool)
		c.number = new(big.Rat)
		if b {
			c.number.SetInt64(1)
		}
		return c, ok
	case integers[c.typ.id]:
		n, ok := bigOf(value)
		c.number = n
		return c, ok
	case c.typ.id == "DECIMAL":
		n, ok := bigOf(value)
		if ok {
			c.number = n.Quo(n, new(big.Rat).SetInt(powerOfTen(c.typ.scale)))
		}
		return c, ok
	case c.typ.id == "FLOAT" || c.typ.id == "DOUBLE":
		n, ok := value.(json.Number)
		if !ok {
			return c, false
		}
		f, err := n.Float64()
		c.fraction = f
		return c, err == nil && c.setFraction(f)
	case timeUnits[c.typ.id] != 0:
		n, ok := whole64(value)
		return c, ok && c.setTime(n)
	case c.typ.id == "VARCHAR":
		s, ok := value.(string)
		c.text = s
		return c, ok
	case c.typ.id == "BLOB":
		s, ok := value.(string)
		if ok {
			c.text, ok = blobOf(s)
		}
		return c, ok
	}
	return c, false
}

// setFraction keeps a fraction as a number too, for columns of numbers.
func (c *constant) setFraction(f float64) bool {
	if c.typ.id == "FLOAT" {
		f = float64(float32(f))
	}
	c.fraction = f
	if !math.IsNaN(f) && !math.IsInf(f, 0) {
		c.number = new(big.Rat)
		c.number.SetFloat64(f)
	}
	return true
}

// setTime takes a time in its type's unit. The ends of the range stand for
// infinity.
func (c *constant) setTime(n int64) bool {
	most := int64(math.MaxInt64)
	if c.typ.id == "DATE" {
		most = math.MaxInt32
	}
	if n >= most || n <= -most {
		return false
	}
	c.number = new(big.Rat).Mul(big.NewRat(n, 1), big.NewRat(timeUnits[c.typ.id], 1))
	return true
}

// bigOf reads a whole number: as such, or as the halves of 128 bits.
func bigOf(v any) (*big.Rat, bool) {
	switch v := v.(type) {
	case json.Number:
		n, ok := new(big.Int).SetString(v.String(), 10)
		if !ok {
			return nil, false
		}
		return new(big.Rat).SetInt(n), true
	case object:
		upper, ok := v["upper"].(json.Number)
		lower, ok2 := v["lower"].(json.Number)
		if v["upper"] == nil {
			upper, ok = "0", true
		}
		if v["lower"] == nil {
			lower, ok2 = "0", true
		}
		high, ok3 := new(big.Int).SetString(upper.String(), 10)
		low, ok4 := new(big.Int).SetString(lower.String(), 10)
		if !ok || !ok2 || !ok3 || !ok4 {
			return nil, false
		}
		return new(big.Rat).SetInt(high.Add(high.Lsh(high, 64), low)), true
	}
	return nil, false
}

// blobOf reads the engine's text form of bytes, in which \x41 is a byte.
func blobOf(s string) (string, bool) {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out.WriteByte(s[i])
			continue
		}
		if i+4 > len(s) || s[i+1] != 'x' {
			return "", false
		}
		b, err := hex.DecodeString(s[i+2 : i+4])
		if err != nil {
			return "", false
		}
		out.WriteByte(b[0])
		i += 3
	}
	return out.String(), true
}

// boundConstant is the value of a parameter of a type, as Statement.Bind has it.
// The engine takes a value for what it is, not for what the parameter was taken
// for when the statement was prepared, so only values that mean the same both
// ways are told.
func boundConstant(typ planType, v any) (constant, bool) {
	c := constant{typ: typ}
	switch v := v.(type) {
	case nil:
		c.null = true
		return c, true
	case bool:
		c.number = new(big.Rat)
		if v {
			c.number.SetInt64(1)
		}
		return c, typ.id == "BOOLEAN"
	case int64:
		return c.whole(new(big.Int).SetInt64(v))
	case uint64:
		return c.whole(new(big.Int).SetUint64(v))
	case float64:
		if typ.id == "FLOAT" && float64(float32(v)) != v {
			return c, false
		}
		return c, (typ.id == "FLOAT" || typ.id == "DOUBLE") && c.setFraction(v)
	case []byte:
		c.text = string(v)
		return c, typ.id == "BLOB"
	case string:
		if typ.id == "VARCHAR" {
			c.text = v
			return c, true
		}
		return c.spelt(v)
	}
	return c, false
}

// exactFraction is the range in which each whole number is a DOUBLE or FLOAT.
var exactFraction = map[string]int{"DOUBLE": 53, "FLOAT": 24}

func (c constant) whole(n *big.Int) (constant, bool) {
	switch {
	case integers[c.typ.id] || c.typ.id == "DECIMAL":
		c.number = new(big.Rat).SetInt(n)
		return c, true
	case exactFraction[c.typ.id] > 0 && n.BitLen() <= exactFraction[c.typ.id]:
		f, _ := new(big.Float).SetInt(n).Float64()
		return c, c.setFraction(f)
	}
	return c, false
}

// spelt reads a time or decimal as paramValue spells it.
func (c constant) spelt(s string) (constant, bool) {
	layouts := map[string][]string{
		"DATE": {time.DateOnly}, "TIME": {"15:04:05.999999999"}, "TIME_NS": {"15:04:05.999999999"},
		"TIMESTAMP WITH TIME ZONE": {"2006-01-02 15:04:05.999999999Z07:00"},
	}[c.typ.id]
	unit := timeUnits[c.typ.id]
	if c.typ.id == "DECIMAL" {
		n, ok := new(big.Rat).SetString(s)
		if !ok || strings.ContainsAny(s, "/eExXpP_") || !new(big.Rat).Mul(n, new(big.Rat).SetInt(powerOfTen(c.typ.scale))).IsInt() {
			return c, false
		}
		c.number = n
		return c, true
	}
	if unit == 0 {
		return c, false
	}
	if layouts == nil {
		layouts = []string{"2006-01-02 15:04:05.999999999"}
	}
	t, err := time.Parse(layouts[0], s)
	if err != nil {
		return c, false
	}
	n := new(big.Int).Add(new(big.Int).Mul(big.NewInt(t.Unix()), big.NewInt(second)), big.NewInt(int64(t.Nanosecond())))
	if c.typ.id == "TIME" || c.typ.id == "TIME_NS" {
		n.SetInt64(int64(time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second + time.Duration(t.Nanosecond())))
	}
	if new(big.Int).Mod(n, big.NewInt(unit)).Sign() != 0 {
		return c, false
	}
	c.number = new(big.Rat).SetInt(n)
	return c, true
}

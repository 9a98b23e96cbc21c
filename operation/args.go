package operation

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/flightblob/flightblob/internal/duration"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table"
)

// Kind is the type of a parameter.
type Kind uint8

// The kinds, with the Go type of their values.
const (
	Text     Kind = iota + 1 // string, not empty
	Number                   // uint64
	Fraction                 // float64
	Bool                     // bool
	Duration                 // time.Duration, not negative
	Version                  // uint64, not 0
)

var kindNames = [...]string{"", "text", "a whole number from 0 on", "a number", "true or false", "a length of time such as 7d, 12h or 30m", "a whole number from 1 on"}

// String says what a value of the kind is, for messages.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return ""
}

// Args are values by the names of their parameters.
type Args map[string]any

// Has says whether a value was given.
func (a Args) Has(name string) bool { _, ok := a[name]; return ok }

// Text gives a text, "" when it was not given.
func (a Args) Text(name string) string { s, _ := a[name].(string); return s }

// Number gives a number, 0 when it was not given.
func (a Args) Number(name string) uint64 { n, _ := a[name].(uint64); return n }

// Fraction gives a number, 0 when it was not given.
func (a Args) Fraction(name string) float64 { f, _ := a[name].(float64); return f }

// Bool gives a truth value, false when it was not given.
func (a Args) Bool(name string) bool { b, _ := a[name].(bool); return b }

// Duration gives a length of time, 0 when it was not given.
func (a Args) Duration(name string) time.Duration { d, _ := a[name].(time.Duration); return d }

// Ref reads the parameters version, tag and branch, as far as they were given.
func (a Args) Ref() table.Ref {
	return table.Ref{Version: a.Number("version"), Tag: a.Text("tag"), Branch: a.Text("branch")}
}

// Set takes a value for a parameter of the operation: of the parameter's own Go
// type, or text that says it. Values of other kinds, values given twice and names
// that the operation does not have are fault.Invalid and say what is allowed.
func (o *Operation) Set(a Args, name string, value any) error {
	p, ok := o.Param(name)
	if !ok {
		return fault.New(fault.Invalid, "%s: unknown argument %q; known are table%s", o.Name, name, o.listed())
	}
	if a.Has(name) {
		return fault.New(fault.Invalid, "%s: %s is given twice", o.Name, name)
	}
	v, ok := p.Kind.parse(value)
	if !ok {
		return fault.New(fault.Invalid, "%s: %s is %v, it must be %s", o.Name, name, shown(value), p.Kind)
	}
	a[name] = v
	return nil
}

func (o *Operation) listed() string {
	var b strings.Builder
	for _, p := range o.Params {
		b.WriteString(", " + p.Name)
	}
	return b.String()
}

// shown prints a value for a message.
func shown(value any) string {
	s, ok := value.(string)
	switch {
	case !ok:
		return textOf(value)
	case len(s) > 100:
		s = strings.ToValidUTF8(s[:100], "") + "…"
	}
	return strconv.Quote(s)
}

func textOf(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case uint64:
		return strconv.FormatUint(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case time.Duration:
		return v.String()
	}
	return "of another type"
}

// parse gives a value of the kind.
func (k Kind) parse(value any) (any, bool) {
	if n, ok := value.(int64); ok && n >= 0 {
		value = uint64(n)
	}
	text, isText := value.(string)
	switch k {
	case Text:
		return text, isText && text != ""
	case Number:
		if isText {
			n, err := strconv.ParseUint(text, 10, 64)
			return n, err == nil
		}
		n, ok := value.(uint64)
		return n, ok
	case Version:
		n, ok := Number.parse(value)
		return n, ok && n != uint64(0)
	case Fraction:
		switch v := value.(type) {
		case string:
			f, err := strconv.ParseFloat(v, 64)
			return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
		case uint64:
			return float64(v), true
		case float64:
			return v, !math.IsNaN(v) && !math.IsInf(v, 0)
		}
	case Bool:
		if isText {
			b, err := strconv.ParseBool(text)
			return b, err == nil
		}
		b, ok := value.(bool)
		return b, ok
	case Duration:
		if isText {
			d, ok := duration.Parse(text)
			return d, ok
		}
		d, ok := value.(time.Duration)
		return d, ok && d >= 0
	}
	return nil, false
}

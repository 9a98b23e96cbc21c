package index

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Truth is what a condition says of a null: SQL has three answers.
type Truth uint8

// The answers.
const (
	Unknown Truth = iota // neither true nor false; so is its opposite
	False
	True
)

// Interval is a range of values. Absent ends are nil.
type Interval struct {
	Low, High         *Value
	LowOpen, HighOpen bool // the end itself is outside
}

// Point is the interval of one value.
func Point(v Value) Interval { return Interval{Low: &v, High: &v} }

// Test is what a condition asks of one column: it is true of the values in its
// intervals, false of all other values, and says something of nulls. The zero
// Test is true of nothing.
type Test struct {
	intervals []Interval // ascending, not empty, disjoint
	null      Truth
}

// NewTest makes a test of intervals of values of one kind, in any order.
func NewTest(null Truth, intervals ...Interval) Test {
	return Test{normal(intervals), null}
}

// Intervals are ascending and disjoint.
func (t Test) Intervals() []Interval { return t.intervals }

// Null is what the test says of a null.
func (t Test) Null() Truth { return t.null }

// above says that the interval begins above a value.
func (i Interval) above(v Value) bool {
	if i.Low == nil {
		return false
	}
	c := v.Compare(*i.Low)
	return c < 0 || c == 0 && i.LowOpen
}

// below says that the interval ends below a value.
func (i Interval) below(v Value) bool {
	if i.High == nil {
		return false
	}
	c := v.Compare(*i.High)
	return c > 0 || c == 0 && i.HighOpen
}

func (i Interval) empty() bool {
	if i.Low == nil || i.High == nil {
		return false
	}
	c := i.Low.Compare(*i.High)
	return c > 0 || c == 0 && (i.LowOpen || i.HighOpen)
}

// lower orders intervals by where they begin.
func lower(a, b Interval) int {
	switch {
	case a.Low == nil && b.Low == nil:
		return 0
	case a.Low == nil:
		return -1
	case b.Low == nil:
		return 1
	}
	if c := a.Low.Compare(*b.Low); c != 0 {
		return c
	}
	switch {
	case a.LowOpen == b.LowOpen:
		return 0
	case b.LowOpen:
		return -1
	}
	return 1
}

// higher orders intervals by where they end.
func higher(a, b Interval) int {
	switch {
	case a.High == nil && b.High == nil:
		return 0
	case a.High == nil:
		return 1
	case b.High == nil:
		return -1
	}
	if c := a.High.Compare(*b.High); c != 0 {
		return c
	}
	switch {
	case a.HighOpen == b.HighOpen:
		return 0
	case a.HighOpen:
		return -1
	}
	return 1
}

// touches says that no value lies between a and a b that begins no earlier.
func touches(a, b Interval) bool {
	if a.High == nil || b.Low == nil {
		return true
	}
	c := a.High.Compare(*b.Low)
	return c > 0 || c == 0 && !(a.HighOpen && b.LowOpen)
}

func normal(in []Interval) []Interval {
	in = slices.DeleteFunc(slices.Clone(in), Interval.empty)
	slices.SortFunc(in, lower)
	out := in[:0]
	for _, next := range in {
		if n := len(out); n > 0 && touches(out[n-1], next) {
			if higher(out[n-1], next) < 0 {
				out[n-1].High, out[n-1].HighOpen = next.High, next.HighOpen
			}
			continue
		}
		out = append(out, next)
	}
	return out
}

// Matches says that the test is true of a value.
func (t Test) Matches(v Value) bool {
	i := t.first(v)
	return i < len(t.intervals) && !t.intervals[i].above(v)
}

// first is the first interval that does not end below v.
func (t Test) first(v Value) int {
	if len(t.intervals) == 1 {
		if t.intervals[0].below(v) {
			return 1
		}
		return 0
	}
	return sort.Search(len(t.intervals), func(i int) bool { return !t.intervals[i].below(v) })
}

// overlap is how much of a run of values a test matches.
type overlap uint8

const (
	none overlap = iota
	some         // perhaps
	all
)

// within compares the test with the values from low to high; absent ends mean
// that the run has none.
func (t Test) within(low, high *Value) overlap {
	i := 0
	if low != nil {
		i = t.first(*low)
	}
	if i == len(t.intervals) {
		return none
	}
	in := t.intervals[i]
	if high != nil && in.above(*high) {
		return none
	}
	if low == nil && in.Low != nil || low != nil && in.above(*low) ||
		high == nil && in.High != nil || high != nil && in.below(*high) {
		return some
	}
	return all
}

// or is true where one of the tests is.
func or(tests []Test) Test {
	var intervals []Interval
	null := False
	for _, t := range tests {
		intervals = append(intervals, t.intervals...)
		if t.null == True || t.null == Unknown && null == False {
			null = t.null
		}
	}
	return NewTest(null, intervals...)
}

// and is true where all tests are.
func and(tests []Test) Test {
	opposites := make([]Test, len(tests))
	for i, t := range tests {
		opposites[i] = t.Not()
	}
	return or(opposites).Not()
}

// Not is true where the test is false.
func (t Test) Not() Test {
	out := Test{null: Unknown}
	switch t.null {
	case True:
		out.null = False
	case False:
		out.null = True
	}
	next := Interval{}
	for _, i := range t.intervals {
		if i.Low != nil {
			next.High, next.HighOpen = i.Low, !i.LowOpen
			if !next.empty() {
				out.intervals = append(out.intervals, next)
			}
		}
		if i.High == nil {
			return out
		}
		next = Interval{Low: i.High, LowOpen: !i.HighOpen}
	}
	out.intervals = append(out.intervals, next)
	return out
}

// String shows the test for tests and logs.
func (t Test) String() string {
	var parts []string
	for _, i := range t.intervals {
		switch {
		case i.Low != nil && i.High != nil && i.Low.Compare(*i.High) == 0:
			parts = append(parts, i.Low.String())
			continue
		case i.Low == nil && i.High == nil:
			parts = append(parts, "any")
			continue
		}
		s := "["
		if i.LowOpen || i.Low == nil {
			s = "("
		}
		if i.Low != nil {
			s += i.Low.String()
		}
		s += ", "
		if i.High != nil {
			s += i.High.String()
		}
		if i.HighOpen || i.High == nil {
			s += ")"
		} else {
			s += "]"
		}
		parts = append(parts, s)
	}
	if t.null == True {
		parts = append(parts, "null")
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return fmt.Sprintf("{%s}", strings.Join(parts, " "))
}

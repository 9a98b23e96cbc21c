package index

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/flightblob/flightblob/schema"
)

func TestValueOrder(t *testing.T) {
	t.Parallel()
	ascending := [][]Value{
		{Big(decimal128.New(math.MinInt64, 0)), Int(math.MinInt64), Int(-1), Int(0), Int(7), Int(math.MaxInt64), Uint(math.MaxUint64), Big(decimal128.New(1, 0))},
		{Fraction(math.Inf(-1)), Fraction(-1.5), Fraction(0), Fraction(1e-300), Fraction(math.Inf(1)), Fraction(math.NaN())},
		{String(""), String("\x00"), String("a"), String("a\x00"), String("b"), String("é"), String("\xff")},
	}
	for _, list := range ascending {
		for i, a := range list {
			for k, b := range list {
				want := 0
				if i < k {
					want = -1
				} else if i > k {
					want = 1
				}
				if got := a.Compare(b); got != want {
					t.Errorf("%v against %v gives %d", a, b, got)
				}
			}
		}
	}
	negative := math.Float64frombits(math.Float64bits(math.NaN()) | 1<<63)
	for _, same := range [][2]Value{
		{Fraction(0), Fraction(math.Copysign(0, -1))},
		{Fraction(math.NaN()), Fraction(negative)},
		{Int(5), Uint(5)},
		{Int(-5), Big(decimal128.FromI64(-5))},
		{Bool(true), Int(1)},
	} {
		if same[0].Compare(same[1]) != 0 {
			t.Errorf("%v is not %v", same[0], same[1])
		}
	}
}

// model is a test over the values 0 to 9 and null, one by one.
type model struct {
	values [10]bool
	null   Truth
}

func modelOf(t Test) (m model) {
	for i := range m.values {
		m.values[i] = t.Matches(Int(int64(i)))
	}
	m.null = t.Null()
	return m
}

func randomTest(r *rand.Rand) (Test, model) {
	m := model{null: Truth(r.IntN(3))}
	var intervals []Interval
	for range r.IntN(4) {
		var in Interval
		low, high := 0, 9
		if r.IntN(4) > 0 {
			low = r.IntN(11)
			v := Int(int64(low))
			in.Low, in.LowOpen = &v, r.IntN(2) == 0
		}
		if r.IntN(4) > 0 {
			high = r.IntN(11)
			v := Int(int64(high))
			in.High, in.HighOpen = &v, r.IntN(2) == 0
		}
		intervals = append(intervals, in)
		for i := range m.values {
			above := in.Low == nil || i > low || i == low && !in.LowOpen
			below := in.High == nil || i < high || i == high && !in.HighOpen
			m.values[i] = m.values[i] || above && below
		}
	}
	return NewTest(m.null, intervals...), m
}

// TestAlgebra compares tests with a truth table.
func TestAlgebra(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		a, ma := randomTest(r)
		b, mb := randomTest(r)
		if modelOf(a) != ma {
			t.Fatalf("%v is %v, not %v", a, modelOf(a), ma)
		}
		want := map[string]model{}
		both, either, opposite := model{}, model{}, model{}
		for i := range ma.values {
			both.values[i] = ma.values[i] && mb.values[i]
			either.values[i] = ma.values[i] || mb.values[i]
			opposite.values[i] = !ma.values[i]
		}
		// SQL's three values of AND, OR and NOT.
		number := map[Truth]int{False: 0, Unknown: 1, True: 2}
		truth := []Truth{False, Unknown, True}
		both.null = truth[min(number[ma.null], number[mb.null])]
		either.null = truth[max(number[ma.null], number[mb.null])]
		opposite.null = truth[2-number[ma.null]]
		want["and"], want["or"], want["not"] = both, either, opposite
		got := map[string]model{"and": modelOf(and([]Test{a, b})), "or": modelOf(or([]Test{a, b})), "not": modelOf(a.Not())}
		for op, m := range got {
			if m != want[op] {
				t.Fatalf("%v %s %v is %v, not %v", a, op, b, m, want[op])
			}
		}
		low, high := r.IntN(10), r.IntN(10)
		low, high = min(low, high), max(low, high)
		matched := 0
		for i := low; i <= high; i++ {
			if ma.values[i] {
				matched++
			}
		}
		from, to := Int(int64(low)), Int(int64(high))
		switch o := a.within(&from, &to); {
		case o == none && matched > 0, o == all && matched <= high-low, o == some && low == high:
			t.Fatalf("of [%d, %d] %v matches %d: %d", low, high, a, matched, o)
		}
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	a, b := &schema.Field{Name: "a"}, &schema.Field{Name: "b"}
	from := func(v int64) Test { x := Int(v); return NewTest(Unknown, Interval{Low: &x}) }
	to := func(v int64) Test { x := Int(v); return NewTest(Unknown, Interval{High: &x, HighOpen: true}) }
	for _, c := range []struct {
		condition Condition
		want      string
	}{
		{And(Where{a, from(3)}, nil, Where{b, to(1)}, Where{a, to(7)}), "(a in {[3, 7)} and b in {(, 1)})"},
		{And(Where{a, from(3)}, Where{a, to(3)}), "a in nothing"},
		{And(nil, nil), ""},
		{And(Where{a, from(3)}, And(Where{a, to(4)}, Or(Where{a, to(1)}, Where{b, from(2)}))), "(a in {[3, 4)} and (a in {(, 1)} or b in {[2, )}))"},
		{Or(Where{a, NewTest(True, Point(Int(1)))}, Where{a, NewTest(False, Point(Int(3)))}, Where{a, to(0)}), "a in {(, 0) 1 3 null}"},
		{Or(Where{a, from(3)}, nil), ""},
		{Or(Where{a, from(3)}, Where{a, to(3)}), "a in {any}"},
	} {
		got := ""
		if c.condition != nil {
			got = c.condition.String()
		}
		if got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func TestRows(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	random := func() (Rows, [40]bool) {
		var m [40]bool
		var ranges []Range
		for range r.IntN(6) {
			start := r.IntN(40)
			x := Range{uint64(start), uint64(min(40, start+r.IntN(6)))}
			ranges = append(ranges, x)
			for i := x.Start; i < x.End; i++ {
				m[i] = true
			}
		}
		return RowsOf(ranges), m
	}
	check := func(rows Rows, m [40]bool) {
		t.Helper()
		var got [40]bool
		last, count := uint64(0), uint64(0)
		for i, x := range rows.Ranges() {
			if x.Start >= x.End || i > 0 && x.Start <= last {
				t.Fatalf("ranges %v", rows.Ranges())
			}
			last = x.End
			for v := x.Start; v < x.End; v++ {
				got[v] = true
				count++
			}
		}
		if got != m || count != rows.Count() {
			t.Fatalf("%v of %d is not %v", rows.Ranges(), rows.Count(), m)
		}
	}
	for range 5000 {
		a, ma := random()
		b, mb := random()
		var both, either [40]bool
		for i := range ma {
			both[i], either[i] = ma[i] && mb[i], ma[i] || mb[i]
		}
		check(a, ma)
		check(a.Intersect(b), both)
		check(a.Union(b), either)
		var first [40]bool
		for i := range ma {
			first[i] = ma[i] && !mb[i]
		}
		check(a.Without(b), first)
	}
}

func TestRowsOfNumbers(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	for round := range 2000 {
		var numbers []uint64
		var ranges []Range
		span := 1 + r.Uint64N(1<<r.Uint64N(20))
		for range 1 + r.IntN(300) {
			n := uint64(r.IntN(1+round%3))<<32 + 1000 + r.Uint64N(span)
			numbers, ranges = append(numbers, n), append(ranges, Range{n, n + 1})
		}
		got, want := rowsOfNumbers(numbers), RowsOf(ranges)
		if !slices.Equal(got.Ranges(), want.Ranges()) || got.Count() != want.Count() {
			t.Fatalf("%v, want %v", got.Ranges(), want.Ranges())
		}
	}
}

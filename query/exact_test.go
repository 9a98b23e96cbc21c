package query

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
)

func TestParseDecimal(t *testing.T) {
	t.Parallel()
	wide, tens := &arrow.Decimal256Type{Precision: 40, Scale: 3}, &arrow.Decimal128Type{Precision: 5, Scale: -2}
	for _, c := range []struct {
		text string
		dt   arrow.DecimalType
		want string // "" = refused
	}{
		{"1.5", wide, "1500"},
		{"-1.500000", wide, "-1500"},
		{"+2", wide, "2000"},
		{" 7 ", wide, "7000"},
		{"1e3", wide, "1000000"},
		{"12E-3", wide, "12"},
		{".5", wide, "500"},
		{"5.", wide, "5000"},
		{"-.001", wide, "-1"},
		{"1.2345", wide, ""},
		{"1e-4", wide, ""},
		{"1e37", wide, ""},
		{"1e36", wide, "1000000000000000000000000000000000000000"},
		{"x", wide, ""},
		{"", wide, ""},
		{".", wide, ""},
		{"1_0", wide, ""},
		{"NaN", wide, ""},
		{"1e9999999999", wide, ""},
		{"1e1001", wide, ""},
		{"--1", wide, ""},
		{"1.-5", wide, ""},
		{"0x10", wide, ""},
		{"1e", wide, ""},
		{"1200", tens, "12"},
		{"1250", tens, ""},
		{"9999900", tens, "99999"},
		{"10000000", tens, ""},
	} {
		n, why := parseDecimal(c.text, c.dt)
		switch {
		case c.want == "" && why == "":
			t.Errorf("%q became %v", c.text, n)
		case c.want != "" && (why != "" || n.String() != c.want):
			t.Errorf("%q became %v (%s), want %s", c.text, n, why, c.want)
		}
	}
}

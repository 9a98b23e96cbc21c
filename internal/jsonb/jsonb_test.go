package jsonb

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/flightblob/flightblob/internal/fault"
)

// stored are values as pylance 14.0.2 stored them in a data file.
var stored = []struct{ name, hex, text string }{
	{
		"object of everything",
		"40000002 10000001 10000001 50000038 20000002 61 62" +
			"80000008 20000002 20000003 20000005 20000009 00000000 40000000 30000000 10000001" +
			"5001 40fed4 5000011170 604004000000000000 78 5001",
		`{"a":[1,-300,70000,2.5,null,true,false,"x"],"b":1}`,
	},
	{"string", "20000000 10000001 73", `"s"`},
	{"number", "20000000 20000002 5005", `5`},
	{"empty array", "80000000", `[]`},
	{"greatest unsigned", "20000000 20000009 50ffffffffffffffff", `18446744073709551615`},
}

func bytesOf(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAppendText(t *testing.T) {
	for _, c := range stored {
		t.Run(c.name, func(t *testing.T) {
			got, err := AppendText([]byte("> "), bytesOf(t, c.hex))
			if err != nil || string(got) != "> "+c.text {
				t.Errorf("got %s, %v, want %s", got, err, c.text)
			}
		})
	}
}

// The expected texts are what pylance 14.0.2 shows for these numbers.
func TestFloatSpelling(t *testing.T) {
	for _, c := range []struct {
		v    float64
		text string
	}{
		{1e300, "1e+300"},
		{1, "1.0"},
		{math.Copysign(0, -1), "-0.0"},
		{0.1, "0.1"},
		{1e5, "100000.0"},
		{1.5e-10, "1.5e-10"},
		{1e20, "1e+20"},
		{1e16, "1e+16"},
		{1e15, "1000000000000000.0"},
		{123456789.123, "123456789.123"},
		{5e-324, "5e-324"},
		{1e-5, "0.00001"},
		{1e-6, "1e-6"},
		{1.25e-5, "0.0000125"},
		{12345.678e-9, "0.000012345678"},
		{1234567890123456.7, "1234567890123456.8"},
		{2.5e22, "2.5e+22"},
		{-1e-5, "-0.00001"},
		{9.999e15, "9999000000000000.0"},
	} {
		if got, err := appendFloat(nil, c.v); err != nil || string(got) != c.text {
			t.Errorf("%v: got %s, %v, want %s", c.v, got, err, c.text)
		}
	}
}

func TestStringEscapes(t *testing.T) {
	const want = `"\b\f\r\n\t\u0000\u001f\"\\` + "\u007f\u2028<>&/é😀\""
	if got := string(appendString(nil, []byte("\b\f\r\n\t\x00\x1f\"\\\u007f\u2028<>&/é😀"))); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestDamage(t *testing.T) {
	deep := strings.Repeat("80000001 50000000", 2000)
	for _, c := range []struct {
		name, hex string
		kind      fault.Kind
	}{
		{"empty", "", fault.Corrupt},
		{"unknown header", "00000000", fault.Corrupt},
		{"entries past the end", "9fffffff 10000001", fault.Corrupt},
		{"bytes past the end", "20000000 1fffffff 73", fault.Corrupt},
		{"keys past the end", "40000001 1fffffff 00000000 61", fault.Corrupt},
		{"key that is no string", "40000001 20000001 00000000 00", fault.Corrupt},
		{"bad UTF-8", "20000000 10000001 ff", fault.Corrupt},
		{"integer of three bytes", "20000000 20000004 50000000", fault.Corrupt},
		{"short float", "20000000 20000002 6000", fault.Corrupt},
		{"number without bytes", "20000000 20000000", fault.Corrupt},
		{"decimal", "20000000 20000002 7000", fault.Unsupported},
		{"not a number", "20000000 20000009 60 7ff8000000000001", fault.Unsupported},
		{"extension entry", "20000000 60000000", fault.Unsupported},
		{"too deep", deep, fault.Corrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := AppendText(nil, bytesOf(t, c.hex))
			if err == nil || fault.KindOf(err) != c.kind {
				t.Errorf("got %s, %v, want a %s error", got, err, c.kind)
			}
		})
	}
}

func FuzzAppendText(f *testing.F) {
	for _, c := range stored {
		f.Add(bytesOf(f, c.hex))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := AppendText(nil, data)
		if err == nil && !json.Valid(text) {
			t.Errorf("%x decodes to %q, which is no JSON", data, text)
		}
	})
}

package jsonb

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/flightblob/flightblob/internal/fault"
)

// TestAppendAgainstReference holds bytes that pylance 14.0.2 stored for the
// same text.
func TestAppendAgainstReference(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"b":1,"a":[1,2.5,-3,true,null,"x\u00e9\n"]}`: "4000000210000001100000015000002d20000002616280000006200000022000000920000002400000000000000010000004500160400400000000000040fd78c3a90a5001",
		`0`:                       "200000002000000100",
		`-0`:                      "200000002000000100",
		`0.0`:                     "2000000020000009600000000000000000",
		`-0.0`:                    "2000000020000009608000000000000000",
		`1`:                       "20000000200000025001",
		`255`:                     "200000002000000250ff",
		`256`:                     "2000000020000003500100",
		`65535`:                   "200000002000000350ffff",
		`65536`:                   "20000000200000055000010000",
		`4294967295`:              "200000002000000550ffffffff",
		`4294967296`:              "2000000020000009500000000100000000",
		`18446744073709551615`:    "200000002000000950ffffffffffffffff",
		`18446744073709551616`:    "20000000200000096043f0000000000000",
		`-1`:                      "200000002000000240ff",
		`-128`:                    "20000000200000024080",
		`-129`:                    "200000002000000340ff7f",
		`-32768`:                  "2000000020000003408000",
		`-32769`:                  "200000002000000540ffff7fff",
		`-2147483649`:             "200000002000000940ffffffff7fffffff",
		`-9223372036854775808`:    "2000000020000009408000000000000000",
		`-9223372036854775809`:    "200000002000000960c3e0000000000000",
		`1e3`:                     "200000002000000960408f400000000000",
		`1e-400`:                  "2000000020000009600000000000000000",
		`0.1`:                     "2000000020000009603fb999999999999a",
		`1.5e300`:                 "2000000020000009607e41eb2d66005835",
		`"a"`:                     "200000001000000161",
		`""`:                      "2000000010000000",
		`null`:                    "2000000000000000",
		`true`:                    "2000000040000000",
		`[]`:                      "80000000",
		`{}`:                      "40000000",
		`{"z":{"y":[{}]},"a":""}`: "4000000210000001100000011000000050000019617a40000001100000015000000c79800000015000000440000000",
		` [ 1 , 2 ] `:             "80000002200000022000000250015002",
		`"\ud83d\ude00"`:          "2000000010000004f09f9880",
		`{"\u0061":1}`:            "400000011000000120000002615001",
	} {
		got, err := Append([]byte("before"), []byte(text))
		if err != nil || hex.EncodeToString(bytes.TrimPrefix(got, []byte("before"))) != want {
			t.Errorf("%s: %x, %v; want %s", text, got, err, want)
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                          "the text ends before the value",
		`nul`:                       `'n' starts no value`,
		`{a:1}`:                     "a key in double quotes is missing",
		`{"a":1,"a":2}`:             `the key "a" twice`,
		`{"a":1,"b":{},"\u0061":2}`: `the key "a" twice`,
		`{"a" 1}`:                   "a colon is missing",
		`{"a":1 "b":2}`:             "a comma or } is missing",
		`[1,]`:                      `']' starts no value`,
		`[1 2]`:                     "a comma or ] is missing",
		`01`:                        "a malformed number",
		`-`:                         "a malformed number",
		`1.`:                        "a malformed number",
		`1e`:                        "a malformed number",
		`+1`:                        "'+' starts no value",
		`1e400`:                     "larger than any float64",
		`NaN`:                       "starts no value",
		`"a`:                        "a string has no end",
		"\"a\nb\"":                  "a control character",
		`"\x41"`:                    "an unknown escape",
		`"\u12"`:                    "four hexadecimal digits",
		`"\ud800"`:                  "half a surrogate pair",
		`"\ud800\u0041"`:            "half a surrogate pair",
		`"\udc00\ud800"`:            "half a surrogate pair",
		"\"\xff\"":                  "not UTF-8",
		`1 x`:                       "text behind the value",
		`[[`:                        "the text ends",
		strings.Repeat("[", 2000):   "more than 500 levels",
	} {
		if _, err := Append(nil, []byte(text)); fault.KindOf(err) != fault.Invalid || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %q", text, err, want)
		}
	}
}

// FuzzAppend: what the strict parser of the standard library takes is taken,
// apart from what is refused by name, and reads back as the same value.
func FuzzAppend(f *testing.F) {
	for _, s := range []string{`{"b":1,"a":[1,2.5,-3,true,null,"x\u00e9\n"]}`, `-0`, `1e5`, `"\ud83d\ude00"`, `[[],{}]`, `{"a":1,"a":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		stored, err := Append(nil, text)
		if !json.Valid(text) {
			if err == nil {
				t.Fatalf("%q is taken", text)
			}
			return
		}
		if err != nil {
			for _, reason := range []string{"twice", "float64", "surrogate", "UTF-8", "levels"} {
				if strings.Contains(err.Error(), reason) {
					return
				}
			}
			t.Fatalf("%q: %v", text, err)
		}
		back, err := AppendText(nil, stored)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Append(nil, back)
		if err != nil || !bytes.Equal(again, stored) {
			t.Fatalf("%q is stored as %x, read as %q and stored again as %x: %v", text, stored, back, again, err)
		}
	})
}

package main

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Values are written as DuckDB writes them as text, but for times, which are
// ISO 8601 with a T and Z.
func TestValuesAsText(t *testing.T) {
	t.Parallel()
	iso := strings.NewReplacer(" ", "T", "+00", "Z")
	for _, value := range []string{
		"1.10::DECIMAL(10,2)", "0.00::DECIMAL(4,2)", "-0.05::DECIMAL(4,2)", "-12.00::DECIMAL(18,2)", "7::DECIMAL(5,0)",
		"123456789012345678901234567890.12345678::DECIMAL(38,8)", "99999999999999999999999999999999999999::DECIMAL(38,0)",
		"170141183460469231731687303715884105727::HUGEINT", "18446744073709551615::UBIGINT",
		"340282366920938463463374607431768211455::UHUGEINT", "0::UHUGEINT", "170141183460469231731687303715884105728::UHUGEINT", "(-9223372036854775807 - 1)::BIGINT",
		"255::UTINYINT", "true", "'a'::ENUM('b', 'a')", "UUID '123e4567-e89b-12d3-a456-426614174000'", "'NULL'", "'q\"u,o\n\r'", "' x'",
		"0.1::FLOAT", "0.1::DOUBLE", "1e300::DOUBLE", "1e-9::DOUBLE",
		"INTERVAL '1 year 2 months 3 days 04:05:06.789'", "INTERVAL '-1 day'", "INTERVAL '0 seconds'", "INTERVAL '-1.5 seconds'",
		"INTERVAL '25 hours'", "INTERVAL '-14 months'", "INTERVAL '11 months 100 hours'", "INTERVAL '1 month -1 day'",
		"TIME '03:04:05.5'", "TIME '03:04:05'", "DATE '2026-01-02'", "DATE '12026-01-02'", "DATE 'infinity'", "DATE '-infinity'",
	} {
		check(t, value, func(text string) string { return text })
	}
	for _, value := range []string{
		"TIMESTAMP '2026-01-02 03:04:05.12'", "TIMESTAMP '2026-01-02 03:04:05'", "TIMESTAMP '12026-01-02 03:04:05'",
		"TIMESTAMP_S '2026-01-02 03:04:05'", "TIMESTAMP_MS '2026-01-02 03:04:05.120'", "TIMESTAMP_NS '2026-01-02 03:04:05.123456789'",
		"TIMESTAMPTZ '2026-01-02 03:04:05.5+05'", "'infinity'::TIMESTAMP", "'-infinity'::TIMESTAMPTZ", "TIMESTAMP '1900-01-01 00:00:00.000001'",
	} {
		check(t, value, iso.Replace)
	}
}

// check reads a value and its text by the engine from CSV.
func check(t *testing.T, value string, as func(string) string) {
	t.Helper()
	status, out, errs := runQuery(t, "--root", fixture(t, "kinds_basic_v22"), "--format", "csv", "SELECT "+value+" AS v, ("+value+")::VARCHAR AS text")
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if status != exitDone || err != nil || len(rows) != 2 {
		t.Errorf("%s: %s, %v, %q", value, errs, err, out)
		return
	}
	if got, want := rows[1][0], as(rows[1][1]); got != want {
		t.Errorf("%s is written %q, want %q", value, got, want)
	}
}

// What JSON has a form for takes it, at any depth; a line is one object.
func TestValuesAsJSON(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"1.50::DECIMAL(4,2)": `1.50`,
		"[{'a': INTERVAL '1 day', 'b': TIMESTAMPTZ '2026-01-02 03:04:05+00'}]": `[{"a":"1 day","b":"2026-01-02T03:04:05Z"}]`,
		"[{'u': 340282366920938463463374607431768211455::UHUGEINT}, NULL]":     `[{"u":340282366920938463463374607431768211455},null]`,
		"340282366920938463463374607431768211455::UHUGEINT % 1000":             `455`,
		"union_value(num := 2)":                        `{"num":2}`,
		"map {1: [1.0::DECIMAL(2,1), NULL]}":           `[[1,[1.0,null]]]`,
		"['nan'::DOUBLE, 'inf'::DOUBLE, '-0'::DOUBLE]": `["NaN","Infinity",-0]`,
		"['a\nb', '日\"本', '', chr(1)]":                 `["a\nb","日\"本","","\u0001"]`,
		"[''::BLOB, NULL, 'abc'::BLOB]":                `["",null,"YWJj"]`,
		"{'i': [1, 2]::INT[2], 'n': NULL}":             `{"i":[1,2],"n":null}`,
		"[]":                                           `[]`,
		"170141183460469231731687303715884105727":      `170141183460469231731687303715884105727`,
		"[DATE 'infinity', DATE '0044-03-15 (BC)']":    `["infinity","-0043-03-15"]`,
	} {
		status, out, errs := runQuery(t, "--root", fixture(t, "kinds_basic_v22"), "--format", "json", "SELECT "+value+" AS v")
		if status != exitDone || out != `{"v":`+want+"}\n" || !json.Valid([]byte(out)) {
			t.Errorf("%s is written %s, want %s; %s", value, out, want, errs)
		}
	}
}

// NULL and text without characters are not the same in CSV, and blobs are base64
// in each face.
func TestValuesInCSV(t *testing.T) {
	t.Parallel()
	root := fixture(t, "kinds_basic_v22")
	status, out, errs := runQuery(t, "--root", root, "--format", "csv", "SELECT '' AS a, NULL AS b, ' c' AS \"c,d\", ''::BLOB AS e")
	if want := "a,b,\"c,d\",e\n\"\",,\" c\",\"\"\n"; status != exitDone || out != want {
		t.Errorf("%q, want %q; %s", out, want, errs)
	}
	status, out, _ = runQuery(t, "--root", root, "--format", "csv", `SELECT {'b': img} AS s, img FROM "table" WHERE id IN (0, 1, 2) ORDER BY id`)
	want := "s,img\n\"{\"\"b\"\":\"\"FIQvr0wGSU5nrQ==\"\"}\",FIQvr0wGSU5nrQ==\n\"{\"\"b\"\":\"\"\"\"}\",\"\"\n\"{\"\"b\"\":null}\",\n"
	if diff := cmp.Diff(want, out); status != exitDone || diff != "" {
		t.Error(diff)
	}
}

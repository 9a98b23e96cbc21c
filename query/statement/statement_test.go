package statement

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
)

func mustParse(t *testing.T, text string) *Statement {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestKinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text          string
		kind          Kind
		reads, update bool
	}{
		{"FROM t", Select, true, false},
		{"SHOW TABLES", Show, true, false},
		{"DESCRIBE t", Describe, true, false},
		{"EXPLAIN FROM t", Explain, true, false},
		{"INSERT INTO t VALUES (1)", Insert, false, true},
		{"CREATE TABLE t (a INT)", CreateTable, false, true},
		{"CREATE TABLE t AS FROM u", CreateTableAs, false, true},
		{"DROP TABLE t", DropTable, false, true},
		{"CREATE SCHEMA s", CreateSchema, false, true},
		{"DROP SCHEMA s", DropSchema, false, true},
		{"ALTER TABLE t DROP a", AlterTable, false, true},
		{"UPDATE t SET a = 1", Update, false, true},
		{"DELETE FROM t", Delete, false, true},
		{"TRUNCATE t", Truncate, false, true},
		{"MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE", Merge, false, true},
		{"CALL f()", Call, false, false},
	} {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			s := mustParse(t, c.text)
			if s.Kind != c.kind || s.Kind.Reads() != c.reads || s.IsUpdate() != c.update {
				t.Errorf("kind %v, reads %v, update %v", s.Kind, s.Kind.Reads(), s.IsUpdate())
			}
		})
	}
}

func TestDepthIsBounded(t *testing.T) {
	t.Parallel()
	deep := func(open, closing string, n int) string {
		return strings.Repeat(open, n) + "1" + strings.Repeat(closing, n)
	}
	for _, c := range []struct {
		name, text string
		ok         bool
	}{
		{"brackets at the limit", "SELECT " + deep("(", ")", MaxDepth), true},
		{"brackets over the limit", "SELECT " + deep("(", ")", MaxDepth+1), false},
		{"many brackets", "SELECT " + deep("([{", "}])", 100_000), false},
		{"statement in brackets", deep("(", ")", 100_000), false},
		{"nested comments are no brackets", deep("/*", "*/", 100_000) + "SELECT 1", true},
		{"struct types", "CREATE TABLE t (a " + strings.Repeat("STRUCT(a ", MaxDepth-1) + "LANCE_BLOB" + strings.Repeat(")", MaxDepth-1) + ")", true},
		{"VALUES in brackets", "INSERT INTO t " + strings.Repeat("(", MaxDepth-1) + "VALUES (1)" + strings.Repeat(")", MaxDepth-1), true},
		{"long operators", "SELECT " + strings.Repeat("+-", 100_000) + "1", true},
		{"many PIVOT", "SELECT " + strings.Repeat("pivot a ", 100_000) + "1", true},
		{"many ON CONFLICT", "INSERT INTO t SELECT " + strings.Repeat("on conflict ", 100_000) + "1", true},
		{"many strings", "SELECT " + strings.Repeat("'a'\n", 100_000) + "||''", true},
		{"many dollars", "SELECT " + strings.Repeat("$a ", 100_000), true},
		{"many brackets of a type", "CALL f(a " + strings.Repeat("()", 100_000) + "'x')", false},
		{"long casts", "CALL f(1" + strings.Repeat("::int", 100_000) + ")", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := Parse(c.text)
			if (err == nil) != c.ok {
				t.Fatalf("error %v", err)
			}
			if err == nil && s.Span.End != len(strings.TrimRight(c.text, " ")) {
				t.Errorf("span %v of %d bytes", s.Span, len(c.text))
			}
		})
	}
	s := mustParse(t, "CREATE TABLE t (a "+strings.Repeat("STRUCT(f ", MaxDepth-1)+"LANCE_BLOB"+strings.Repeat(")", MaxDepth-1)+")")
	if b := s.Create.Columns[0].Blobs; len(b) != 1 || len(b[0].Path) != MaxDepth-1 {
		t.Errorf("deep blobs %d", len(b))
	}
}

func TestTextLimits(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"bytes": "SELECT '" + strings.Repeat("x", MaxText) + "'",
		"words": "SELECT " + strings.Repeat("1,", MaxTokens/2) + "1",
	} {
		_, err := Parse(text)
		var e *Error
		if fault.KindOf(err) != fault.Exhausted || !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestError(t *testing.T) {
	t.Parallel()
	text := "-- first\nSELECT 1;\n\tDROP\tVIEW ü"
	_, err := Parse(text[strings.Index(text, ";")+1:])
	var e *Error
	if !errors.As(err, &e) || e.Offset != 2 || e.Line != 2 || e.Column != 2 {
		t.Fatalf("%+v", err)
	}
	if got, want := e.Caret(text[strings.Index(text, ";")+1:], 80), " DROP VIEW ü\n ^"; got != want {
		t.Errorf("caret %q, want %q", got, want)
	}
	if got, want := err.Error(), "statement: line 2, column 2: DROP VIEW is refused: there are tables and schemas only"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if fault.KindOf(err) != fault.Invalid {
		t.Errorf("kind %v", fault.KindOf(err))
	}
	// The caret stands under the place where characters take two cells or none.
	wide := "SELECT '日本', 'e\u0301',\t) FROM t"
	if _, err = Parse(wide); !errors.As(err, &e) {
		t.Fatal(err)
	}
	if got, want := e.Caret(wide, 80), "SELECT '日本', 'e\u0301', ) FROM t\n"+strings.Repeat(" ", 20)+"^"; got != want {
		t.Errorf("caret\n%s\nwant\n%s", got, want)
	}
	// A long line is cut on both sides, in characters.
	long := "SELECT '" + strings.Repeat("ä", 200) + "' || ) || '" + strings.Repeat("ö", 200) + "'"
	_, err = Parse(long)
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	line, caret, _ := strings.Cut(e.Caret(long, 80), "\n")
	runes := []rune(line)
	if at := len(caret) - 1; runes[at] != ')' || runes[0] != '…' || runes[len(runes)-1] != '…' || len(runes) > 80 {
		t.Errorf("%s\n%s", line, caret)
	}
}

func TestRewrite(t *testing.T) {
	t.Parallel()
	const text = "abcdefgh"
	for _, c := range []struct {
		name  string
		span  Span
		edits []Edit
		want  string // empty: an error
	}{
		{"nothing", Span{0, 8}, nil, "abcdefgh"},
		{"any order", Span{0, 8}, []Edit{{Span{6, 8}, "X"}, {Span{0, 1}, ""}}, "bcdefX"},
		{"insertions keep their order", Span{0, 8}, []Edit{{Span{2, 2}, "1"}, {Span{2, 2}, "2"}, {Span{8, 8}, "!"}}, "ab12cdefgh!"},
		{"neighbours", Span{0, 8}, []Edit{{Span{2, 4}, "X"}, {Span{4, 6}, "Y"}}, "abXYgh"},
		{"an inner edit goes with the outer", Span{0, 8}, []Edit{{Span{3, 4}, "in"}, {Span{2, 6}, "out"}, {Span{4, 4}, "in"}}, "aboutgh"},
		{"overlap", Span{0, 8}, []Edit{{Span{1, 4}, "X"}, {Span{3, 5}, "Y"}}, ""},
		{"outside the text", Span{0, 8}, []Edit{{Span{7, 9}, "X"}}, ""},
		{"backwards", Span{0, 8}, []Edit{{Span{5, 4}, "X"}}, ""},
		{"slice", Span{2, 5}, []Edit{{Span{0, 1}, "X"}, {Span{3, 4}, "Y"}, {Span{5, 6}, "Z"}}, "cYe"},
		{"slice crossed", Span{2, 5}, []Edit{{Span{1, 3}, "X"}}, ""},
		{"slice outside", Span{2, 9}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := RewriteSpan(text, c.span, c.edits...)
			if got != c.want || (err != nil) != (c.want == "") {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// Every byte that a rewritten text has kept is found again where it was.
func TestOrigin(t *testing.T) {
	t.Parallel()
	const text = "abcdefghijklmnop"
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		var edits []Edit
		for range rng.IntN(5) {
			start := rng.IntN(len(text))
			edits = append(edits, Edit{Span{start, start + rng.IntN(4)}, strings.Repeat("X", rng.IntN(4))})
		}
		span := Span{rng.IntN(4), len(text) - rng.IntN(4)}
		out, err := RewriteSpan(text, span, edits...)
		if err != nil {
			continue
		}
		for i := range len(out) {
			from := Origin(text, span, i, edits...)
			if out[i] != 'X' && text[from] != out[i] {
				t.Fatalf("byte %d of %q by %v is from byte %d", i, out, edits, from)
			}
			if out[i] == 'X' && !slices.ContainsFunc(edits, func(e Edit) bool { return e.Span.Start == from }) {
				t.Fatalf("byte %d of %q by %v is from byte %d, where nothing was changed", i, out, edits, from)
			}
		}
		if end := Origin(text, span, len(out), edits...); end > span.End {
			t.Fatalf("the end of %q by %v is byte %d", out, edits, end)
		}
	}
}

func TestNumbered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"with c as (select ? as x) select ?, x from c", "with c as (select $1 as x) select $2, x from c"},
		{"select 1 in?and?2a, $2b", "select 1 in $1 and $2 a, $2 b"},
		{`select $b, $a, $"B"1, 'x $b'`, `select $1, $2, $1 1, 'x $b'`},
	} {
		s := mustParse(t, c.text)
		got, err := Rewrite(s.Text, s.Numbered()...)
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v", c.text, got, err)
		}
	}
	s := mustParse(t, "update t set a = ?, b = ? where c = ? and d = ?")
	if s.ParamCount() != 4 {
		t.Errorf("%d parameters", s.ParamCount())
	}
	where, err := RewriteSpan(s.Text, s.Update.Where, s.Numbered()...)
	if err != nil || where != "c = $3 and d = $4" {
		t.Errorf("slice %q, %v", where, err)
	}
}

func TestUnicodeBlanks(t *testing.T) {
	t.Parallel()
	in := "\ufeffSELECT\u00a0'\u00a0',\u2003\"\u3000\" /* \u00a0 */ FROM\u200bt"
	want := "   SELECT  '\u00a0',   \"\u3000\" /*    */ FROM   t"
	want = strings.Replace(want, "/*    */", "/*    */", 1)
	s := mustParse(t, in)
	if diff := cmp.Diff(want, s.Text); diff != "" {
		t.Error(diff)
	}
	if s.Span != (Span{3, len(in)}) {
		t.Errorf("span %v", s.Span)
	}
}

func TestStringValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{`'a''b'`, `a'b`},
		{`'a\b'`, `a\b`},
		{`E'a\'b\\c\td'`, "a'b\\c\td"},
		{`e'\x41\101\u00e9\U0001F600\q\b\f\r'`, "AA\u00e9\U0001F600q\b\f\r"},
		{`E'\xg\u12'`, "xgu12"},
		{"'a'\n'b'", "ab"},
		{"'a' -- note\n\t 'b' \r 'c'", "abc"},
		{"E'a\\n'\n'\\n'", "a\n\n"},
		{`$$a'b\n$$`, `a'b\n`},
		{`$t$ $$ $t$`, ` $$ `},
		{`n'x'`, `x`},
	} {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			l, ok := mustParse(t, "CALL f("+c.text+")").Call.Positional(0)
			if !ok || l.Kind != String || l.Text != c.want {
				t.Errorf("%+v, want %q", l, c.want)
			}
		})
	}
	if _, err := Parse(`CALL f(E'\xff')`); err == nil {
		t.Error("bytes that are not UTF-8 were accepted as text")
	}
}

func TestCallArguments(t *testing.T) {
	t.Parallel()
	call := mustParse(t, "CALL F('t', 7, Version := -3, tag => 'x')").Call
	if call.Function != "f" {
		t.Errorf("function %s", call.Function)
	}
	if l, ok := call.Named("version"); !ok {
		t.Error("version is missing")
	} else if n, ok := l.Int(); !ok || n != -3 {
		t.Errorf("version %d", n)
	}
	if l, ok := call.Positional(1); !ok || l.Text != "7" {
		t.Errorf("second argument %+v", l)
	}
	for _, n := range []int{-1, 2, 9} {
		if _, ok := call.Positional(n); ok {
			t.Errorf("argument %d exists", n)
		}
	}
	for _, name := range []string{"", "Version", "nosuch"} {
		if _, ok := call.Named(name); ok {
			t.Errorf("argument %q exists", name)
		}
	}
	big, _ := mustParse(t, "CALL f(99999999999999999999)").Call.Positional(0)
	if _, ok := big.Int(); ok {
		t.Error("a number over 64 bits fits")
	}
}

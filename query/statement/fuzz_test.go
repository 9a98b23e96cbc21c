package statement

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/cells"
	"github.com/flightblob/flightblob/internal/fault"
)

// seeds adds the input of every directive of the given commands.
func seeds(f *testing.F, commands ...string) {
	f.Helper()
	files, err := filepath.Glob("testdata/sql/*")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	added := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for block := range strings.SplitSeq(string(data), "\n\n") {
			command, rest, _ := strings.Cut(block, "\n")
			command, _, _ = strings.Cut(command, " ")
			input, _, ok := strings.Cut(rest, "\n----")
			if ok && slices.Contains(commands, command) {
				f.Add(input)
				added++
			}
		}
	}
	if added < 20 {
		f.Fatalf("only %d seeds", added)
	}
}

// FuzzParse checks the invariants of the package comment on any text.
func FuzzParse(f *testing.F) {
	seeds(f, "parse", "split", "rewrite")
	f.Add(strings.Repeat("(", 5000))
	f.Add("select " + strings.Repeat("[", 900) + strings.Repeat("]", 900))
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			checkError(t, text, err)
			return
		}
		checkStatement(t, text, s)
	})
}

func checkError(t *testing.T, text string, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *Error", err)
	}
	if k := fault.KindOf(err); k != fault.Invalid && k != fault.Exhausted {
		t.Fatalf("kind %v of %v", k, err)
	}
	if e.Offset < 0 || e.Offset > len(text) || e.Line < 1 || e.Column < 1 {
		t.Fatalf("place %+v outside %d bytes", e, len(text))
	}
	line, caret, ok := strings.Cut(e.Caret(text, 80), "\n")
	if !ok || strings.Trim(caret, " ") != "^" || len(caret)-1 > cells.Width(line) || len(caret) > 80 || cells.Width(line) > 80 {
		t.Fatalf("caret %q below %q", caret, line)
	}
	if len(err.Error()) > 2048 {
		t.Fatalf("%d bytes of error", len(err.Error()))
	}
}

func checkStatement(t *testing.T, text string, s *Statement) {
	t.Helper()
	if len(s.Text) != len(text) {
		t.Fatalf("text of %d bytes became %d", len(text), len(s.Text))
	}
	pieces, err := Split(text)
	if err != nil || len(pieces) != 1 || pieces[0] != s.Span {
		t.Fatalf("split gives %v, %v; parse gives %v", pieces, err, s.Span)
	}
	var spans []Span
	collectSpans(reflect.ValueOf(*s), &spans)
	for _, p := range spans {
		if p == (Span{}) {
			continue
		}
		if !s.Span.Contains(p) || p.End < p.Start {
			t.Fatalf("span %v leaves %v", p, s.Span)
		}
		if !utf8.ValidString(p.Of(s.Text)) || p.Len() > 0 && p.Of(s.Text) == "" {
			t.Fatalf("span %v cuts a character", p)
		}
		if strings.TrimSpace(p.Of(s.Text)) != p.Of(s.Text) && !strings.ContainsAny(p.Of(s.Text), "\u0085\u2028\u2029\v\u1680\u2000") {
			t.Fatalf("span %q has blanks around it", p.Of(s.Text))
		}
	}
	checkNesting(t, s, spans)
	checkEdits(t, s, spans)
}

// collectSpans finds every span in a value.
func collectSpans(v reflect.Value, out *[]Span) {
	if s, ok := v.Interface().(Span); ok {
		*out = append(*out, s)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			collectSpans(v.Elem(), out)
		}
	case reflect.Slice:
		for i := range v.Len() {
			collectSpans(v.Index(i), out)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			collectSpans(v.Field(i), out)
		}
	}
}

// checkNesting demands that two spans are disjoint or one holds the other.
func checkNesting(t *testing.T, s *Statement, spans []Span) {
	t.Helper()
	sorted := slices.Clone(spans)
	slices.SortFunc(sorted, func(a, b Span) int {
		if a.Start != b.Start {
			return a.Start - b.Start
		}
		return b.End - a.End
	})
	var open []Span
	for _, p := range sorted {
		if p.Empty() {
			continue
		}
		for len(open) > 0 && open[len(open)-1].End <= p.Start {
			open = open[:len(open)-1]
		}
		if len(open) > 0 && !open[len(open)-1].Contains(p) {
			t.Fatalf("spans %q and %q overlap", open[len(open)-1].Of(s.Text), p.Of(s.Text))
		}
		open = append(open, p)
	}
}

// checkEdits demands that pieces put back give the text, and that numbered
// parameters are the same parameters.
func checkEdits(t *testing.T, s *Statement, spans []Span) {
	t.Helper()
	var same []Edit
	for _, p := range spans {
		if !p.Empty() {
			same = append(same, Edit{Span: p, Text: p.Of(s.Text)})
		}
	}
	if got, err := Rewrite(s.Text, same...); err != nil || got != s.Text {
		t.Fatalf("pieces make %q of %q, %v", got, s.Text, err)
	}
	numbered, err := Rewrite(s.Text, s.Numbered()...)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(numbered)
	if err != nil {
		t.Fatalf("numbered %q: %v", numbered, err)
	}
	if again.Kind != s.Kind || len(again.Params) != len(s.Params) {
		t.Fatalf("numbered %q has kind %v and %d parameters", numbered, again.Kind, len(again.Params))
	}
	for n, p := range again.Params {
		if p.Index != s.Params[n].Index || p.Name != "" {
			t.Fatalf("parameter %d of %q is %+v, was %+v", n, numbered, p, s.Params[n])
		}
	}
}

// FuzzSplit checks that the pieces hold every token: what lies between is blank
// or a semicolon, and a piece is one statement by itself.
func FuzzSplit(f *testing.F) {
	seeds(f, "parse", "split")
	f.Fuzz(func(t *testing.T, text string) {
		pieces, err := Split(text)
		if err != nil {
			checkError(t, text, err)
			return
		}
		at := 0
		for _, p := range append(pieces, Span{len(text), len(text)}) {
			toks, err := lex(text[at:p.Start])
			if err != nil {
				t.Fatalf("between %d and %d: %v", at, p.Start, err)
			}
			for _, tok := range toks {
				if tok.kind != tokEnd && text[at+int(tok.start):at+int(tok.end)] != ";" {
					t.Fatalf("text left between %d and %d: %q", at, p.Start, text[at:p.Start])
				}
			}
			at = p.End
			if p.Empty() {
				continue
			}
			one, err := Split(p.Of(text))
			if err != nil || len(one) != 1 || one[0] != (Span{0, p.Len()}) {
				t.Fatalf("piece %q splits into %v, %v", p.Of(text), one, err)
			}
		}
	})
}

// FuzzCheckPredicate checks that an accepted condition is accepted again as it
// came out, and stays one condition in brackets.
func FuzzCheckPredicate(f *testing.F) {
	seeds(f, "predicate")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := CheckPredicate(text)
		if err != nil {
			checkError(t, text, err)
			return
		}
		again, err := CheckPredicate(got)
		if err != nil || again != got {
			t.Fatalf("%q became %q, then %q, %v", text, got, again, err)
		}
		statement := "SELECT 1 WHERE (" + got + "\n) LIMIT 1"
		if s, err := Parse(statement); err != nil {
			// Only what is refused at any depth may fail here.
			if !strings.Contains(err.Error(), "AT ") {
				t.Fatalf("%q: %v", statement, err)
			}
		} else if s.Kind != Select || len(s.Params) != 0 {
			t.Fatalf("%q is %v", statement, s.Kind)
		}
	})
}

// FuzzName checks that what is read is written back as the same name, and that
// any text survives quoting.
func FuzzName(f *testing.F) {
	seeds(f, "name", "path")
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := ParsePath(text); err != nil {
			checkError(t, text, err)
		} else if again, err := ParsePath(n.String()); err != nil || !cmp.Equal(again.Path(), n.Path()) {
			t.Fatalf("%q is %q, written %s, read %q, %v", text, n.Path(), n, again.Path(), err)
		}
		if text == "" || !utf8.ValidString(text) || strings.Contains(text, "\x00") {
			return
		}
		n, err := ParseName(Quote(text))
		if err != nil || len(n) != 1 || n.Last() != text {
			t.Fatalf("%q quoted is %q, %v", text, n.Path(), err)
		}
		s, err := Parse("CALL f(" + QuoteString(text) + ")")
		if err != nil {
			t.Fatal(err)
		}
		if l, ok := s.Call.Positional(0); !ok || l.Kind != String || l.Text != text {
			t.Fatalf("%q as a string is %+v", text, l)
		}
	})
}

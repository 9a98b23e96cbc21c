package statement

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/flightblob/flightblob/internal/fault"
)

// TestData runs the text files of testdata/sql. Commands: parse and split take a
// statement, predicate a condition, name and path a dotted name, rewrite a query
// whose AT clauses become calls. A refusal is printed with its caret.
func TestData(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/sql", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			text := d.Input
			if d.HasArg("escaped") {
				text = strings.NewReplacer(`\u00a0`, "\u00a0", `\u200b`, "\u200b", `\ufeff`, "\ufeff", `\u3000`, "\u3000",
					`\t`, "\t", `\r`, "\r", `\f`, "\f", `\0`, "\x00", `\xff`, "\xff").Replace(text)
			}
			switch d.Cmd {
			case "parse":
				s, err := Parse(text)
				if err != nil {
					return refusal(t, text, err)
				}
				return dump(s)
			case "split":
				spans, err := Split(text)
				if err != nil {
					return refusal(t, text, err)
				}
				var out strings.Builder
				for n, s := range spans {
					fmt.Fprintf(&out, "%d: ⟨%s⟩\n", n, s.Of(text))
				}
				return out.String()
			case "predicate":
				s, err := CheckPredicate(text)
				if err != nil {
					return refusal(t, text, err)
				}
				return "⟨" + s + "⟩\n"
			case "name", "path":
				read := ParseName
				if d.Cmd == "path" {
					read = ParsePath
				}
				n, err := read(text)
				if err != nil {
					return refusal(t, text, err)
				}
				return fmt.Sprintf("%q written %s\n", n.Path(), n)
			case "rewrite":
				s, err := Parse(text)
				if err != nil {
					return refusal(t, text, err)
				}
				var edits []Edit
				for n, a := range s.Ats {
					edits = append(edits, a.Replace(s.Text, fmt.Sprintf("scan(%d)", n)))
				}
				out, err := Rewrite(s.Text, edits...)
				if err != nil {
					t.Fatal(err)
				}
				return out + "\n"
			}
			t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
			return ""
		})
	})
}

func refusal(t *testing.T, text string, err error) string {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *Error", err)
	}
	if fault.KindOf(err) != fault.Invalid {
		t.Fatalf("kind %v of %v", fault.KindOf(err), err)
	}
	return err.Error() + "\n" + e.Caret(text, 120) + "\n"
}

// dump prints what is set in a statement, spans as the text that they cover.
func dump(s *Statement) string {
	var out strings.Builder
	dumpValue(&out, s.Text, "", "", reflect.ValueOf(*s))
	return out.String()
}

func dumpValue(out *strings.Builder, text, indent, name string, v reflect.Value) {
	line := func(format string, args ...any) {
		fmt.Fprintf(out, "%s%s: %s\n", indent, name, fmt.Sprintf(format, args...))
	}
	switch x := v.Interface().(type) {
	case Span:
		if !x.Empty() {
			line("⟨%s⟩", x.Of(text))
		}
		return
	case Part:
		if x.Text != "" {
			line("%s", x)
		}
		return
	case Name:
		if !x.Empty() {
			line("%s", x)
		}
		return
	case Literal:
		if x.Kind != 0 {
			line("%s ⟨%s⟩ %s %s%s", x.Kind, x.Span.Of(text), shownValue(x), x.Type, map[bool]string{true: " true"}[x.Bool])
		}
		return
	case []string:
		if len(x) > 0 {
			line("%q", x)
		}
		return
	case fmt.Stringer:
		if v.Kind() == reflect.Uint8 {
			if !v.IsZero() {
				line("%s", x)
			}
			return
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			dumpValue(out, text, indent, name, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			dumpValue(out, text, indent, fmt.Sprintf("%s[%d]", name, i), v.Index(i))
		}
	case reflect.Struct:
		if name != "" {
			fmt.Fprintf(out, "%s%s:\n", indent, name)
			indent += "  "
		}
		for i := range v.NumField() {
			f := v.Type().Field(i).Name
			if s, ok := v.Interface().(Statement); ok && (f == "Text" || f == "Span" || f == "Main" && s.With.Empty() && s.Explain == nil) {
				continue
			}
			dumpValue(out, text, indent, f, v.Field(i))
		}
	default:
		if !v.IsZero() {
			line("%v", v.Interface())
		}
	}
}

func shownValue(l Literal) string {
	switch l.Kind {
	case Bound:
		return fmt.Sprint(l.Param)
	case Null, Bool:
		return ""
	}
	return fmt.Sprintf("%q", l.Text)
}

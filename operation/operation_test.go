package operation

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
)

// sample has a parameter of each kind.
func sample() *Operation {
	return &Operation{
		Name: "sample", About: "Does nothing.",
		Params: []Param{
			{Name: "to", Kind: Text, Required: true, About: "where"},
			{Name: "count", Kind: Number},
			{Name: "share", Kind: Fraction},
			{Name: "sure", Kind: Bool},
			{Name: "age", Kind: Duration},
			{Name: "version", Kind: Version},
		},
		Answers: []arrow.Field{textColumn("to"), numberColumn("rows"), boolColumn("sure")},
		Run: func(_ context.Context, c *Call) (*Answer, error) {
			return &Answer{Version: 7, Values: []any{c.Args.Text("to"), nil, c.Args.Bool("sure")}, Notice: "look \"here\""}, nil
		},
	}
}

func TestArgs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		value any
		want  any // nil: refused
	}{
		{"to", "x", "x"},
		{"to", "", nil},
		{"to", uint64(3), nil},
		{"count", "18446744073709551615", uint64(1<<64 - 1)},
		{"count", "-1", nil},
		{"count", "1.5", nil},
		{"count", int64(4), uint64(4)},
		{"count", int64(-4), nil},
		{"count", true, nil},
		{"share", "0.25", 0.25},
		{"share", uint64(1), 1.0},
		{"share", "NaN", nil},
		{"share", "much", nil},
		{"sure", true, true},
		{"sure", "false", false},
		{"sure", "perhaps", nil},
		{"sure", uint64(2), nil},
		{"age", "7d", 168 * time.Hour},
		{"age", "0", time.Duration(0)},
		{"age", "1d 12h", 36 * time.Hour},
		{"age", "90 minutes", 90 * time.Minute},
		{"age", "7", nil},
		{"age", "", nil},
		{"age", "-7d", nil},
		{"age", "7x", nil},
		{"age", "999999999999d", nil},
		{"age", "106751d 106751d", nil},
		{"age", time.Hour, time.Hour},
		{"age", -time.Hour, nil},
		{"version", "3", uint64(3)},
		{"version", int64(1), uint64(1)},
		{"version", "0", nil},
		{"version", uint64(0), nil},
		{"version", "-1", nil},
		{"other", "x", nil},
	} {
		a := Args{}
		err := sample().Set(a, c.name, c.value)
		switch {
		case c.want == nil && fault.KindOf(err) != fault.Invalid:
			t.Errorf("%s = %v: got %v, %v", c.name, c.value, a, err)
		case c.want != nil && (err != nil || a[c.name] != c.want):
			t.Errorf("%s = %v: got %v, %v; want %v", c.name, c.value, a, err, c.want)
		}
	}
}

// A session's branch is where operations work, and where new branches begin.
func TestOnBranch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args Args
		want Args
	}{
		{"compact", Args{}, Args{"branch": "b"}},
		{"compact", Args{"branch": "c"}, Args{"branch": "c"}},
		{"create_tag", Args{"tag": "x"}, Args{"tag": "x", "branch": "b"}},
		{"restore", Args{"tag": "x"}, Args{"tag": "x"}},
		{"create_branch", Args{"branch": "c"}, Args{"branch": "c", "from": "b"}},
		{"create_branch", Args{"branch": "c", "from": "main"}, Args{"branch": "c", "from": "main"}},
		{"create_branch", Args{"branch": "c", "tag": "x"}, Args{"branch": "c", "tag": "x"}},
		{"delete_branch", Args{"branch": "c"}, Args{"branch": "c"}},
	} {
		got := maps.Clone(c.args)
		if err := Find(c.name).On("b", got); err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%s with %v on b: %v, %v", c.name, c.args, got, err)
		}
	}
}

func TestArgsTwice(t *testing.T) {
	t.Parallel()
	a := Args{}
	if err := sample().Set(a, "count", "1"); err != nil {
		t.Fatal(err)
	}
	if err := sample().Set(a, "count", "2"); err == nil || !strings.Contains(err.Error(), "given twice") {
		t.Errorf("got %v", err)
	}
}

func TestAnswerInAllForms(t *testing.T) {
	t.Parallel()
	o := sample()
	if _, err := o.Do(t.Context(), &Call{Args: Args{}}); err == nil || !strings.Contains(err.Error(), "to is missing, where") {
		t.Errorf("without what is required: %v", err)
	}
	done, err := o.Do(t.Context(), &Call{Args: Args{"to": "x", "sure": true}})
	if err != nil {
		t.Fatal(err)
	}
	row, err := o.Record("t", done)
	if err != nil {
		t.Fatal(err)
	}
	defer row.Release()
	got, err := row.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if want := `[{"notice":"look \"here\"","report":null,"rows":null,"sure":true,"table":"t","to":"x","version":7}` + "\n]"; string(got) != want {
		t.Errorf("row %s, want %s", got, want)
	}
	object, err := o.JSON("t", done)
	if want := `{"table":"t","version":7,"to":"x","sure":true,"notice":"look \"here\""}`; err != nil || string(object) != want || !json.Valid(object) {
		t.Errorf("object %s, %v, want %s", object, err, want)
	}
	if got, want := o.Lines("t", done), "t: version 7\n  to: x\n  sure: true\nlook \"here\"\n"; got != want {
		t.Errorf("lines %q, want %q", got, want)
	}
	done.Report = "would do this\nand that"
	if got, want := o.Lines("t", done), "would do this\nand that\nlook \"here\"\n"; got != want {
		t.Errorf("lines with a report %q, want %q", got, want)
	}
}

// TestList checks what CALL, the actions and the commands rely on.
func TestList(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, o := range All() {
		t.Run(o.Name, func(t *testing.T) {
			if Find(o.Name) != o || seen[o.Name] || o.About == "" || !strings.HasSuffix(o.About, ".") {
				t.Error("it has no name of its own, or no sentence about it")
			}
			if o.Example != "" && !json.Valid([]byte("{"+o.Example+"}")) {
				t.Errorf("the example is no JSON: %s", o.Example)
			}
			for i, p := range o.Params {
				if p.About == "" || p.Kind.String() == "" || strings.Contains("table schema catalog", p.Name) {
					t.Errorf("parameter %d, %q, is not described, or has the name of a part of the table's", i, p.Name)
				}
			}
			if o.Positional > len(o.Params) {
				t.Error("more positional parameters than there are")
			}
			names := map[string]bool{}
			for _, f := range o.Schema().Fields() {
				if names[f.Name] {
					t.Errorf("column %s twice", f.Name)
				}
				names[f.Name] = true
			}
		})
		seen[o.Name] = true
	}
}

package schema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
)

func projected(t *testing.T) *Schema {
	t.Helper()
	strict := func(name string, children ...node) node { return node{name, "struct", false, nil, children} }
	return build(t,
		leaf("id", "int64"),
		node{"s", "struct", true, nil, []node{blob("img"), strict("in", node{"n", "int8", false, nil, nil})}},
		strict("t", node{"n", "int8", false, nil, nil}),
		leaf("s.img.raw", "int8"),
		node{"s.x", "struct", true, nil, []node{leaf("y", "int8"), leaf("y.z", "int8")}},
		leaf("t.n", "string"),
		node{"l", "list.struct", true, nil, []node{{"item", "struct", true, nil, []node{leaf("a", "int8")}}}},
		node{"m", "map", true, nil, []node{{"entries", "struct", false, nil, []node{{"key", "string", false, nil, nil}, leaf("value", "int8")}}}},
		node{"p", "struct", true, map[string]string{KeyPacked: "true"}, []node{leaf("a", "int8")}},
		leaf("twin", "int8"), leaf("twin", "int16"),
		leaf("", "int8"), leaf("Größe", "int8"),
	)
}

func TestProject(t *testing.T) {
	t.Parallel()
	s := projected(t)
	tests := []struct {
		path, logical string
		null          bool
	}{
		{"id", "int64", true},
		{"s", "struct", true},
		{"s.img", "struct", true},
		{"s.in", "struct", true},    // nullable, since s is
		{"s.in.n", "int8", true},    // likewise
		{"t", "struct", false},      // as it is
		{"s.img.raw", "int8", true}, // the exact name wins over the way into the blob
		{"s.x.y", "int8", true},     // the longest name: s.x and not s
		{"s.x.y.z", "int8", true},
		{"t.n", "string", true}, // exact before splitting
		{"l", "list.struct", true},
		{"p.a", "int8", true}, // out of a packed struct
		{"", "int8", true},
		{"Größe", "int8", true},
	}
	var paths []string
	for _, tt := range tests {
		paths = append(paths, tt.path)
	}
	columns, err := s.Project(paths)
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.ArrowOf(columns, Materialized)
	if err != nil {
		t.Fatal(err)
	}
	for i, tt := range tests {
		if c := columns[i]; c.Name != tt.path || c.Field.Logical != tt.logical {
			t.Errorf("%s: %s of type %s", tt.path, c.Field.FullName(), c.Field.Logical)
		}
		if f := out.Field(i); f.Name != tt.path || f.Nullable != tt.null {
			t.Errorf("%s: %v", tt.path, f)
		}
	}
	if columns, err := s.Project(nil); err != nil || len(columns) != 0 {
		t.Errorf("no paths give %v, %v", columns, err)
	}
	if diff := cmp.Diff(len(s.Fields), len(s.Columns())); diff != "" {
		t.Error(diff)
	}
}

func TestProjectRefuses(t *testing.T) {
	t.Parallel()
	s := projected(t)
	for _, tt := range []struct {
		paths []string
		kind  fault.Kind
		want  string
	}{
		{[]string{"id", "id"}, fault.Invalid, `"id" is asked for twice`},
		{[]string{"ID"}, fault.NotFound, `there is no column "ID"; the nearest are "id"`},
		{[]string{"s.imq"}, fault.NotFound, `the nearest are "s.img"`},
		{[]string{"s."}, fault.NotFound, `there is no column "s."`},
		{[]string{"s..img"}, fault.NotFound, "nearest"},
		{[]string{"x.."}, fault.NotFound, "nearest"},
		{[]string{strings.Repeat("a.", 5000)}, fault.NotFound, "nearest"},
		{[]string{"s.img.size"}, fault.Invalid, `leads into "s.img", which is a blob`},
		{[]string{"l.item"}, fault.Invalid, `leads into "l", which is a list`},
		{[]string{"m.key"}, fault.Invalid, "a map"},
		{[]string{"id.x"}, fault.Invalid, "type int64"},
		{[]string{"twin"}, fault.Invalid, "ambiguous"},
	} {
		_, err := s.Project(tt.paths)
		if err == nil || fault.KindOf(err) != tt.kind || !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%.40q: got %v, want %v with %q", tt.paths, err, tt.kind, tt.want)
		}
	}
	_, err := (&Schema{}).Project([]string{"a"})
	if fault.KindOf(err) != fault.NotFound || !strings.Contains(fmt.Sprint(err), "no columns") {
		t.Error(err)
	}
}

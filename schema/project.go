package schema

import (
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/spelling"
)

// Column is one column of a projection: a field anywhere below structs, under
// the name that was asked for.
type Column struct {
	Name  string
	Field *Field
}

// Arrow gives the Arrow field of the column in a view. A column taken out of a
// struct is null where the struct is, so it is nullable if any field on the way
// is.
func (c Column) Arrow(v View) (arrow.Field, error) {
	out, err := c.Field.Arrow(v)
	if err != nil {
		return out, err
	}
	out.Name = c.Name
	for p := c.Field.Parent; p != nil; p = p.Parent {
		out.Nullable = out.Nullable || p.Nullable
	}
	return out, nil
}

// Columns gives all top-level fields as columns.
func (s *Schema) Columns() []Column {
	columns := make([]Column, len(s.Fields))
	for i, f := range s.Fields {
		columns[i] = Column{Name: f.Name, Field: f}
	}
	return columns
}

// ArrowOf gives the Arrow schema of a projection in a view, with the table's
// schema metadata.
func (s *Schema) ArrowOf(columns []Column, v View) (*arrow.Schema, error) {
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		var err error
		if fields[i], err = c.Arrow(v); err != nil {
			return nil, err
		}
	}
	m := metadata(s.Metadata)
	return arrow.NewSchema(fields, &m), nil
}

// Project finds columns by name, in the order asked for. A dotted name reaches
// through structs; names may hold dots themselves, and at each level the
// longest name that leads to a column wins. Unknown names are fault.NotFound;
// a name twice, two columns of one name, and names that lead into lists, maps,
// or blobs are fault.Invalid.
func (s *Schema) Project(paths []string) ([]Column, error) {
	columns := make([]Column, 0, len(paths))
	seen := make(map[string]bool, len(paths))
	for _, path := range paths {
		if seen[path] {
			return nil, fault.New(fault.Invalid, "schema: column %q is asked for twice", path)
		}
		seen[path] = true
		f, err := s.find(path)
		if err != nil {
			return nil, err
		}
		columns = append(columns, Column{Name: path, Field: f})
	}
	return columns, nil
}

func (s *Schema) find(path string) (*Field, error) {
	var blocked error
	f, err := descend(s.Fields, path, path, &blocked)
	switch {
	case err != nil:
		return nil, err
	case f != nil:
		return f, nil
	case blocked != nil:
		return nil, blocked
	}
	return nil, s.unknown(path)
}

// descend resolves the rest of a path among siblings. It gives nil when no
// name leads on, and then blocked says whether one ended at a field that has no
// columns below it.
func descend(fields []*Field, rest, path string, blocked *error) (*Field, error) {
	for end := len(rest); end >= 0; end = strings.LastIndexByte(rest[:end], '.') {
		name := rest[:end]
		f, err := named(fields, name, path)
		if err != nil {
			return nil, err
		}
		switch {
		case f == nil:
		case end == len(rest):
			return f, nil
		case f.Shape != Struct && !f.Packed:
			if *blocked == nil {
				*blocked = closed(f, path)
			}
		default:
			if found, err := descend(f.Children, rest[end+1:], path, blocked); found != nil || err != nil {
				return found, err
			}
		}
	}
	return nil, nil
}

func named(fields []*Field, name, path string) (*Field, error) {
	var found *Field
	for _, f := range fields {
		if f.Name != name {
			continue
		}
		if found != nil {
			return nil, fault.New(fault.Invalid, "schema: column %q is ambiguous: fields %d and %d have the name %q", path, found.ID, f.ID, name)
		}
		found = f
	}
	return found, nil
}

func closed(f *Field, path string) error {
	what := "type " + f.Logical
	switch {
	case f.Blob != NotBlob:
		what = "a blob; ask for the whole column, with the descriptor face for its parts"
	case f.Shape == List, f.Shape == LargeList, f.Shape == FixedSizeList:
		what = "a list; ask for the whole list"
	case f.Shape == Map:
		what = "a map; ask for the whole map"
	}
	return fault.New(fault.Invalid, "schema: column %q leads into %q, which is %s", path, f.dotted(), what)
}

// unknown names the columns nearest to a name that does not exist.
func (s *Schema) unknown(path string) error {
	var have []string
	var visit func(fields []*Field)
	visit = func(fields []*Field) {
		for _, f := range fields {
			have = append(have, f.dotted())
			if f.Shape == Struct && len(have) < 1000 {
				visit(f.Children)
			}
		}
	}
	visit(s.Fields)
	if len(have) == 0 {
		return fault.New(fault.NotFound, "schema: there is no column %q; the table has no columns", path)
	}
	names := spelling.Nearest(path, have, 3, -1)
	for i, n := range names {
		names[i] = strconv.Quote(n)
	}
	return fault.New(fault.NotFound, "schema: there is no column %q; the nearest are %s", path, strings.Join(names, ", "))
}

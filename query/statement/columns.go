package statement

import "strings"

// ColumnDef is one column of CREATE TABLE or ALTER TABLE ADD COLUMN.
type ColumnDef struct {
	Name    Part
	Type    Span // as written, LANCE_BLOB included
	NotNull bool
	Default Span       // of ADD COLUMN: the expression behind DEFAULT; empty without
	Blobs   []BlobType // where LANCE_BLOB stands in Type, in the order of the text
}

// BlobType is one LANCE_BLOB in a column's type.
type BlobType struct {
	// Path names the struct fields from the column's type down to the blob; none
	// when the column itself, or the items of its lists, are blobs. List levels
	// have no name.
	Path []string
	Span Span // the word LANCE_BLOB, quotes included
}

// lanceBlob is the type's name in lower case.
const lanceBlob = "lance_blob"

// constraints says what to do instead of column constraints.
var constraints = map[string]string{
	"primary":    "PRIMARY KEY is refused: tables enforce no keys; MERGE INTO … ON keeps rows unique",
	"unique":     "UNIQUE is refused: tables enforce no keys; MERGE INTO … ON keeps rows unique",
	"check":      "CHECK is refused: tables keep no conditions; test them in the query that feeds the table",
	"references": "REFERENCES is refused: tables enforce no keys",
	"foreign":    "FOREIGN KEY is refused: tables enforce no keys",
	"default":    "DEFAULT is refused: tables keep no defaults; give the value in INSERT",
	"generated":  "GENERATED is refused: tables keep values only; compute the column in the query that feeds the table",
	"as":         "computed columns are refused: tables keep values only; compute the column in the query that feeds the table",
	"collate":    "COLLATE is refused: columns keep no collation; put it into the ORDER BY",
	"using":      "USING COMPRESSION is refused: the encoder chooses by the data",
	"constraint": "named constraints are refused; NOT NULL stands behind the type",
	"like":       "LIKE is refused; use CREATE TABLE … AS FROM t WITH NO DATA",
}

// columnDefs reads (name type [NOT NULL], …) whose bracket is at open.
func (c *cursor) columnDefs(open int) ([]ColumnDef, error) {
	closing := int(c.toks[open].pair)
	parts, err := c.split(open+1, closing)
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return nil, c.errorAt(closing, "a table has at least one column")
	}
	defs := make([]ColumnDef, 0, len(parts))
	for _, p := range parts {
		if word := lowerWord(c.str(p[0])); c.toks[p[0]].kind == tokWord && constraints[word] != "" {
			return nil, c.errorAt(p[0], "%s", constraints[word])
		}
		if !c.name(p[0]) {
			return nil, c.expected(p[0], "the name of a column")
		}
		d, err := c.columnType(c.part(p[0]), p[0]+1, p[1], false)
		if err != nil {
			return nil, err
		}
		defs = append(defs, d)
	}
	return defs, nil
}

// columnType reads type [NOT NULL | NULL] in the tokens [from, to), where it may
// with DEFAULT and an expression.
func (c *cursor) columnType(name Part, from, to int, mayDefault bool) (ColumnDef, error) {
	d := ColumnDef{Name: name}
	end := c.find(from, to, func(i int) bool { return c.keyword(i, "not", "null") || c.isConstraint(i) })
	if end == from {
		if from < to && c.isConstraint(from) {
			return d, c.errorAt(from, "%s", constraints[lowerWord(c.str(from))])
		}
		return d, c.errorAt(min(from, to), "the type of column %s is missing here", name)
	}
	d.Type = c.span(from, end)
	if err := c.blobTypes(&d, nil, from, end); err != nil {
		return d, err
	}
	for at := end; at < to; {
		switch {
		case c.word(at, "not") && c.word(at+1, "null") && at+1 < to:
			d.NotNull = true
			at += 2
		case c.word(at, "null"):
			at++
		case mayDefault && c.word(at, "default") && d.Default.Empty():
			end := c.find(at+1, to, func(i int) bool { return c.word(i, "not") && c.word(i+1, "null") && !c.word(i-1, "is") })
			if end == at+1 {
				return d, c.expected(end, "an expression")
			}
			d.Default = c.span(at+1, end)
			at = end
		case c.isConstraint(at):
			return d, c.errorAt(at, "%s", constraints[lowerWord(c.str(at))])
		default:
			return d, c.errorAt(at, "%s is not understood behind the type of column %s", shown(c.str(at)), name)
		}
	}
	return d, nil
}

func (c *cursor) isConstraint(i int) bool {
	return i < c.end && c.toks[i].kind == tokWord && !c.op(i-1, ".") && constraints[lowerWord(c.str(i))] != ""
}

// blobTypes finds LANCE_BLOB in the type [from, to) and adds it to d. Depth is
// bounded by MaxDepth.
func (c *cursor) blobTypes(d *ColumnDef, path []string, from, to int) error {
	switch {
	case c.isBlob(from):
		d.Blobs = append(d.Blobs, BlobType{Path: append([]string(nil), path...), Span: c.spanOf(from)})
		return c.onlyLists("LANCE_BLOB", from+1, to)
	case c.word(from, "struct", "row") && c.op(from+1, "(") && from+1 < to:
		before := len(d.Blobs)
		if err := c.structFields(d, path, from+1); err != nil {
			return err
		}
		if len(d.Blobs) == before {
			return nil
		}
		return c.onlyLists("a STRUCT with LANCE_BLOB", c.next(from+1), to)
	}
	for i := from; i < to; i++ {
		if c.isBlob(i) {
			return c.errorAt(i, "LANCE_BLOB stands in STRUCT and list types only, not in %s", shown(strings.ToUpper(c.str(from))))
		}
	}
	return nil
}

// onlyLists accepts [] any number of times, or ARRAY, behind a type that holds
// blobs: lists of fixed length cannot.
func (c *cursor) onlyLists(what string, from, to int) error {
	for i := from; i < to; i = c.next(i) {
		if c.op(i, "[") && c.next(i) == i+2 || c.word(i, "array") && i+1 == to {
			continue
		}
		return c.errorAt(i, "%s takes [] for a list and nothing else, not %s", what, shown(c.span(i, to).Of(c.text)))
	}
	return nil
}

// structFields reads (name type, …) whose bracket is at open.
func (c *cursor) structFields(d *ColumnDef, path []string, open int) error {
	parts, err := c.split(open+1, int(c.toks[open].pair))
	if err != nil {
		return err
	}
	for _, p := range parts {
		if k := c.toks[p[0]].kind; k != tokWord && k != tokQuoted {
			return c.expected(p[0], "the name of a struct field")
		}
		if p[1] == p[0]+1 {
			return c.errorAt(p[0], "the type of struct field %s is missing", c.part(p[0]))
		}
		if err := c.blobTypes(d, append(path, c.part(p[0]).Text), p[0]+1, p[1]); err != nil {
			return err
		}
	}
	return nil
}

// isBlob says whether token i names the type LANCE_BLOB, quoted or not.
func (c *cursor) isBlob(i int) bool {
	if i >= c.end || c.toks[i].kind != tokWord && c.toks[i].kind != tokQuoted {
		return false
	}
	return sameWord(c.part(i).Text, lanceBlob)
}

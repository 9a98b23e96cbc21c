package operation

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/maintain"
)

// clone makes another table of a version.
var clone = &Operation{
	Name:    "clone",
	Command: "clone",
	About: "Makes another table that begins with a version of this one. A shallow clone has the files of this table for its own and copies nothing; " +
		"it breaks when a cleanup here removes the version, unless a tag keeps it. A deep clone has copies of all files and needs this table no more.",
	Notes: "TO is a name, in the catalog and schema of TABLE unless it says others, or a path or URI.\n\n" +
		"A deep clone that failed or was interrupted goes on where it was when it is begun again.",
	Example: `"to":"copy"`,
	Params: []Param{
		{Name: "to", Kind: Text, Required: true, About: "the name of the new table"},
		{Name: "deep", Kind: Bool, About: "copy all files that the version needs"},
		{Name: "version", Kind: Version, About: "the version to clone, the newest by default"},
		{Name: "tag", Kind: Text, About: "a tag, in the place of a version"},
		{Name: "branch", Kind: Text, About: "the branch of the version, main by default"},
		{Name: "tag_source", Kind: Bool, About: "set a tag here that keeps the version for a shallow clone"},
	},
	Positional: 1,
	Answers: append([]arrow.Field{textColumn("to"), boolColumn("deep"), textColumn("source_tag"), boolColumn("source_tagged")},
		numberColumn("objects_copied"), numberColumn("bytes_copied")),
	Run: runClone,
}

func runClone(ctx context.Context, c *Call) (*Answer, error) {
	deep := c.Args.Bool("deep")
	if deep && c.Args.Bool("tag_source") {
		return nil, fault.New(fault.Invalid, "clone: tag_source is for shallow clones; a deep one needs no version of its source")
	}
	to, name, err := newTable(ctx, c, c.Args.Text("to"))
	if err != nil {
		return nil, err
	}
	shown := to.Name()
	if name.Table != "" {
		shown = name.String()
	}
	if deep {
		done, err := maintain.DeepClone(ctx, c.Table, c.Args.Ref(), to, maintain.DeepOptions{
			// A table of a child namespace gets another folder each time.
			Once:     name.Schema != "" && name.Schema != catalog.Main,
			Progress: func(copied maintain.Copied) { c.Tell("bytes copied", copied.Bytes, 0) },
		})
		if err != nil {
			return nil, err
		}
		return &Answer{Version: done.Clone.Version(), Values: []any{shown, true, nil, nil, done.Copied.Objects, done.Copied.Bytes}}, nil
	}
	done, err := maintain.ShallowClone(ctx, c.Table, c.Args.Ref(), to, maintain.ShallowOptions{TagSource: c.Args.Bool("tag_source")})
	if err != nil {
		return nil, err
	}
	a := &Answer{Version: done.Clone.Version(), Values: []any{shown, false, done.Tag, done.Tagged, uint64(0), uint64(0)}}
	if !done.Tagged {
		a.Notice = fmt.Sprintf("nothing keeps version %d of %s for its clone: set a tag on it, such as %s, before a cleanup removes it", done.Source.Version(), c.Shown, done.Tag)
	}
	return a, nil
}

// newTable finds the place of a new table that is given by its name, as SQL
// writes it, or by a path or URI where the caller allows that. What the name does
// not say is as in the name of the call's table.
func newTable(ctx context.Context, c *Call, text string) (*table.Table, catalog.Name, error) {
	if strings.Contains(text, "/") || c.Place != nil && strings.HasSuffix(text, ".lance") {
		if c.Place == nil {
			return nil, catalog.Name{}, fault.New(fault.Invalid, "%s is a path; a new table is given by its name", fault.Quote(text))
		}
		t, err := c.Place(ctx, text)
		return t, catalog.Name{}, err
	}
	path, ok := parts(text)
	if !ok {
		return nil, catalog.Name{}, fault.New(fault.Invalid, "%s is no name of a table; write it as in SQL: t, schema.t or catalog.schema.t, with double quotes around a part that holds dots", fault.Quote(text))
	}
	name, err := c.Catalog.Resolve(path)
	if err != nil {
		return nil, name, err
	}
	if len(path) < 2 && c.Name.Schema != "" {
		name.Schema = c.Name.Schema
	}
	if len(path) < 3 && c.Name.Catalog != "" {
		name.Catalog = c.Name.Catalog
	}
	if c.Folds {
		same, err := c.Catalog.Match(ctx, name)
		if err == nil && len(same) > 0 {
			err = fault.New(fault.Exists, "clone: table %s exists already", same[0])
		}
		if err != nil {
			return nil, name, err
		}
	}
	t, err := c.Catalog.NewTable(ctx, name)
	return t, name, err
}

// parts splits a dotted name; a part may stand in double quotes.
func parts(text string) (path []string, ok bool) {
	for rest := text; ; {
		part, after := rest, ""
		quoted := strings.HasPrefix(rest, `"`)
		if quoted {
			end := strings.IndexByte(rest[1:], '"')
			if end < 0 {
				return nil, false
			}
			part, after = rest[1:end+1], rest[end+2:]
		} else if i := strings.IndexByte(rest, '.'); i >= 0 {
			part, after = rest[:i], rest[i:]
		}
		if part == "" || strings.Contains(part, `"`) || after != "" && after[0] != '.' {
			return nil, false
		}
		path = append(path, part)
		if after == "" {
			return path, true
		}
		rest = after[1:]
	}
}

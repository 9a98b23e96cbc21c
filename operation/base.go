package operation

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/table/manifest"
)

// addBase registers a base path.
var addBase = &Operation{
	Name: "add_base",
	About: "Registers a base path: a folder in which files of the table, or objects that its External values name, may lie. " +
		"The server must be allowed to touch it (--external).",
	Example: `"path":"s3://bucket/folder","name":"cam"`,
	Params: []Param{
		{Name: "path", Kind: Text, Required: true, About: "the folder, a path or URI"},
		{Name: "name", Kind: Text, About: "a name by which writes choose the base"},
		{Name: "dataset_root", Kind: Bool, About: "whether the folder is the root of a table"},
		branchParam,
	},
	Positional: 1,
	Answers:    []arrow.Field{textColumn("name"), textColumn("path"), boolColumn("dataset_root")},
	Run: func(ctx context.Context, c *Call) (*Answer, error) {
		b := manifest.Base{Path: c.Args.Text("path"), Name: c.Args.Text("name"), IsDatasetRoot: c.Args.Bool("dataset_root")}
		s, err := c.Table.AddBase(ctx, c.Args.Text("branch"), b)
		if err != nil {
			return nil, err
		}
		return &Answer{Version: s.Version(), Values: []any{orNull(b.Name), b.Path, b.IsDatasetRoot}}, nil
	},
}

// branchParam is the branch that an operation works on.
var branchParam = Param{Name: "branch", Kind: Text, About: "the branch to work on, main by default"}

// orNull gives a text, nil for an empty one.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

package operation

import (
	"cmp"
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// createTag names a version.
var createTag = &Operation{
	Name: "create_tag", Command: "tag create",
	About: "Gives a version a name. As long as it has one no cleanup removes it.",
	Notes: "A tag that exists is refused unless it is to be replaced.",

	Example: `"tag":"v1","version":3`,
	Params: []Param{
		{Name: "tag", Kind: Text, Required: true, About: "the name: letters, digits, dots, hyphens and underscores"},
		{Name: "version", Kind: Version, About: "the version to name, the newest by default"},
		branchParam,
		{Name: "replace", Kind: Bool, About: "move a tag that exists"},
	},
	Positional: 1,
	Answers:    []arrow.Field{textColumn("tag"), textColumn("branch")},
	Run: func(ctx context.Context, c *Call) (*Answer, error) {
		of := table.Ref{Version: c.Args.Number("version"), Branch: c.Args.Text("branch")}
		tag, err := c.Table.CreateTag(ctx, c.Args.Text("tag"), of, table.TagOptions{Replace: c.Args.Bool("replace")})
		if err != nil {
			return nil, err
		}
		return tagAnswer(tag), nil
	},
}

// deleteTag removes a name.
var deleteTag = &Operation{
	Name: "delete_tag", Command: "tag delete",
	About:      "Removes a tag. The version stays until a cleanup removes it.",
	Example:    `"tag":"v1"`,
	Params:     []Param{{Name: "tag", Kind: Text, Required: true, About: "its name"}},
	Positional: 1,
	Answers:    []arrow.Field{textColumn("tag"), textColumn("branch")},
	Run: func(ctx context.Context, c *Call) (*Answer, error) {
		tag, err := c.Table.DeleteTag(ctx, c.Args.Text("tag"))
		if err != nil {
			return nil, err
		}
		return tagAnswer(tag), nil
	},
}

// tagAnswer is a tag with the version that it names or named.
func tagAnswer(tag table.Tag) *Answer {
	return &Answer{Version: tag.Version, Values: []any{tag.Name, cmp.Or(tag.Branch, manifest.MainBranch)}}
}

// createBranch makes a line of versions of its own.
var createBranch = &Operation{
	Name: "create_branch", Command: "branch create",
	About: "Makes a branch: versions of its own that begin at a version of main or of another branch. " +
		"Nothing is copied; the files of that version stay as long as the branch needs them.",

	Example: `"branch":"dev","version":3`,
	Params: []Param{
		{Name: "branch", Kind: Text, Required: true, About: "the name: parts of letters, digits, dots, hyphens and underscores, with slashes between"},
		{Name: "version", Kind: Version, About: "the version where it begins, the newest by default"},
		{Name: "tag", Kind: Text, About: "the tag where it begins"},
		{Name: "from", Kind: Text, About: "the branch where it begins, main by default"},
	},
	Positional: 1,
	Answers:    []arrow.Field{textColumn("branch"), textColumn("parent_branch"), numberColumn("parent_version")},
	Run: func(ctx context.Context, c *Call) (*Answer, error) {
		from := table.Ref{Version: c.Args.Number("version"), Tag: c.Args.Text("tag"), Branch: c.Args.Text("from")}
		source, err := c.Table.At(ctx, from)
		if err != nil {
			return nil, err
		}
		name := c.Args.Text("branch")
		first, err := c.Table.CreateBranch(ctx, name, source.Ref())
		if err != nil {
			return nil, err
		}
		return &Answer{Version: first.Version(), Values: []any{name, cmp.Or(source.Ref().Branch, manifest.MainBranch), source.Version()}}, nil
	},
}

// deleteBranch removes a branch.
var deleteBranch = &Operation{
	Name: "delete_branch", Command: "branch delete",
	About: "Deletes a branch with its versions and files. It is refused while tags point at it or other branches begin at it.",
	Notes: "What another program, or a creation that was stopped, has left of a branch goes as well.",

	Example:    `"branch":"dev"`,
	Params:     []Param{{Name: "branch", Kind: Text, Required: true, About: "its name"}},
	Positional: 1,
	Answers:    []arrow.Field{textColumn("branch")},
	Run: func(ctx context.Context, c *Call) (*Answer, error) {
		name := c.Args.Text("branch")
		if err := c.Table.DeleteBranch(ctx, name); err != nil {
			return nil, err
		}
		newest, err := c.Table.At(ctx, table.Ref{})
		if err != nil {
			return nil, err
		}
		return &Answer{Version: newest.Version(), Values: []any{name}}, nil
	},
}

// restore makes an old version the newest one.
var restore = &Operation{
	Name: "restore", Command: "restore",
	About: "Makes an old version the newest one again: a new version that says what that one said. The versions between stay.",
	Notes: "A tag is restored on the branch that it is of.",

	Example: `"version":3`,
	Params: []Param{
		{Name: "version", Kind: Version, About: "the version to restore"},
		{Name: "tag", Kind: Text, About: "the tag to restore"},
		branchParam,
	},
	Answers: []arrow.Field{numberColumn("restored"), textColumn("branch")},
	Judge: func(a Args) error {
		if a.Has("version") == a.Has("tag") {
			return fault.New(fault.Invalid, "restore: version or tag must be given, and only one of them")
		}
		return nil
	},
	Run: func(ctx context.Context, c *Call) (*Answer, error) {
		to := table.Ref{Version: c.Args.Number("version"), Tag: c.Args.Text("tag")}
		branch := c.Args.Text("branch")
		if to.Tag == "" {
			to.Branch = branch
		}
		old, err := c.Table.At(ctx, to)
		if err != nil {
			return nil, err
		}
		if !c.Args.Has("branch") {
			branch = old.Ref().Branch
		}
		s, err := c.Table.Restore(ctx, branch, to)
		if err != nil {
			return nil, err
		}
		return &Answer{Version: s.Version(), Values: []any{old.Version(), cmp.Or(s.Ref().Branch, manifest.MainBranch)}}, nil
	},
}

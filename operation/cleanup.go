package operation

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table/maintain"
)

// cleanup removes old versions.
var cleanup = &Operation{
	Name:    "cleanup",
	Command: "cleanup",
	About: "Removes old versions, and the files that no version needs then. A version goes when it meets every condition that is given; " +
		"without one, when it is older than 14 days. The newest version stays, and those that have a tag or a lease or that a branch needs.",
	Notes: "Files that no version knows, as a write that failed leaves them, go when they are 7 days old. " +
		"Objects of others that External values name are never removed, nor is anything in other bases.",
	Example: `"older_than":"7d","retain_versions":3`,
	Params: []Param{
		{Name: "retain_versions", Kind: Number, About: "how many of the newest versions stay, 1 or more"},
		{Name: "older_than", Kind: Duration, About: "how old the versions are that go, 14d by default"},
		{Name: "delete_unverified", Kind: Bool, About: "whether files that no version knows go whatever their age; this damages writes that are going on"},
		{Name: "dry_run", Kind: Bool, About: "whether only to tell what would go"},
		branchParam,
	},
	Answers: []arrow.Field{
		numberColumn("old_versions"), numberColumn("bytes_removed"), numberColumn("data_files_removed"),
		numberColumn("blob_files_removed"), numberColumn("deletion_files_removed"), numberColumn("index_files_removed"),
		numberColumn("transaction_files_removed"), boolColumn("dry_run"),
	},
	Judge: func(a Args) error {
		if a.Has("retain_versions") && a.Number("retain_versions") == 0 {
			return fault.New(fault.Invalid, "cleanup: retain_versions is 0; the newest version always stays, so it must be 1 or more")
		}
		return nil
	},
	Run: func(ctx context.Context, c *Call) (*Answer, error) {
		policy := maintain.Policy{
			Branch: c.Args.Text("branch"), RetainVersions: c.Args.Number("retain_versions"),
			DeleteUnverified: c.Args.Bool("delete_unverified"), DryRun: c.Args.Bool("dry_run"),
		}
		if c.Args.Has("older_than") {
			age := c.Args.Duration("older_than")
			policy.OlderThan = &age
		}
		r, err := maintain.Cleanup(ctx, c.Table, policy)
		if err != nil {
			return nil, err
		}
		files := func(classes ...maintain.Class) (n uint64) {
			for _, class := range classes {
				n += r.Files[class].Files
			}
			return n
		}
		return &Answer{
			Version: r.Newest,
			Values: []any{
				uint64(len(r.Removed)), r.Total().Bytes, files(maintain.DataFiles), files(maintain.Sidecars, maintain.Objects),
				files(maintain.DeletionFiles), files(maintain.IndexFiles), files(maintain.TransactionFiles), policy.DryRun,
			},
			Report: r.String(),
		}, nil
	},
}

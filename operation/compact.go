package operation

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table/maintain"
	"github.com/flightblob/flightblob/table/manifest"
)

// compact rewrites small and half-deleted fragments.
var compact = &Operation{
	Name:    "compact",
	Command: "compact",
	About: "Rewrites small fragments into full ones, and fragments with many deleted rows without those rows. " +
		"Readers and writers go on meanwhile; what they change is skipped. Older versions stay until a cleanup.",
	Notes: "Payload outside of data files moves only where the table has not opted in to managed blobs. " +
		"Options that are not given are those of the table's configuration, lance.compaction.NAME.",
	Example: `"dry_run":true`,
	Params: []Param{
		{Name: "target_rows_per_fragment", Kind: Number, About: "rows that a fragment should have, 1048576 by default"},
		{Name: "max_bytes_per_file", Kind: Number, About: "bytes after which a data file ends early"},
		{Name: "materialize_deletions", Kind: Bool, About: "whether deleted rows alone make a fragment worth rewriting, true by default"},
		{Name: "materialize_deletions_threshold", Kind: Fraction, About: "the share of deleted rows above which they do, 0.1 by default"},
		{Name: "max_source_fragments", Kind: Number, About: "fragments that one run rewrites at most"},
		{Name: "max_source_rows", Kind: Number, About: "rows that one run rewrites at most"},
		{Name: "max_source_bytes", Kind: Number, About: "bytes of data files that one run rewrites at most"},
		{Name: "data_storage_version", Kind: Text, About: "the format of new data files, 2.2 or 2.3, the table's by default"},
		{Name: "dry_run", Kind: Bool, About: "whether to tell only what would be done"},
		branchParam,
	},
	Answers: []arrow.Field{
		numberColumn("fragments_removed"), numberColumn("fragments_added"),
		numberColumn("files_removed"), numberColumn("files_added"), numberColumn("rows"), numberColumn("skipped"),
	},
	Run: func(ctx context.Context, c *Call) (*Answer, error) {
		o, err := compactOptions(c)
		if err != nil {
			return nil, err
		}
		if c.Args.Bool("dry_run") {
			plan, err := maintain.PlanCompact(ctx, c.Table, o)
			if err != nil {
				return nil, err
			}
			return planned(plan), nil
		}
		r, err := maintain.Compact(ctx, c.Table, o)
		if err != nil {
			if r != nil && r.Commits > 0 {
				err = fmt.Errorf("compact: %d fragments were compacted up to version %d before this: %w", r.FragmentsRemoved, r.Snapshot.Version(), err)
			}
			return nil, err
		}
		return compacted(r), nil
	},
}

func compactOptions(c *Call) (maintain.CompactOptions, error) {
	number := func(name string) *uint64 {
		if !c.Args.Has(name) {
			return nil
		}
		n := c.Args.Number(name)
		return &n
	}
	o := maintain.CompactOptions{
		Branch: c.Args.Text("branch"), FileVersion: c.Args.Text("data_storage_version"),
		TargetRows: number("target_rows_per_fragment"), TargetBytes: number("max_bytes_per_file"),
		MostFragments: number("max_source_fragments"), MostRows: number("max_source_rows"), MostBytes: number("max_source_bytes"),
		Progress: func(p maintain.CompactProgress) { c.Tell("rows", p.RowsDone, p.Rows) },
	}
	switch o.FileVersion {
	case "", "2.2", "2.3":
	default:
		return o, fault.New(fault.Invalid, "compact: data_storage_version is %s; it is 2.2 or 2.3", fault.Quote(o.FileVersion))
	}
	if c.Args.Has("materialize_deletions") {
		on := c.Args.Bool("materialize_deletions")
		o.Deletions = &on
	}
	if c.Args.Has("materialize_deletions_threshold") {
		share := c.Args.Fraction("materialize_deletions_threshold")
		o.DeletionsAbove = &share
	}
	return o, nil
}

// shownTasks is how many tasks a report lists.
const shownTasks = 50

// planned tells what a compaction would do. How many fragments would come is
// known only where no limit of bytes ends them.
func planned(p *maintain.CompactPlan) *Answer {
	var b strings.Builder
	removed, files := 0, 0
	for i := range p.Tasks {
		t := &p.Tasks[i]
		removed += len(t.Fragments)
		files += maintain.FilesOf(t.Fragments)
		switch {
		case i < shownTasks:
			fmt.Fprintf(&b, "would rewrite %s, %d rows, %d bytes of data files\n", fragmentsText(t.Fragments), t.Rows, t.Bytes)
		case i == shownTasks:
			fmt.Fprintf(&b, "and %d more groups\n", len(p.Tasks)-shownTasks)
		}
	}
	if len(p.Tasks) == 0 {
		b.WriteString("nothing to compact\n")
	}
	return &Answer{
		Version: p.Snapshot.Version(),
		Values:  []any{uint64(removed), nil, uint64(files), nil, p.Rows(), uint64(0)},
		Report:  b.String(),
	}
}

func fragmentsText(fragments []manifest.Fragment) string {
	first, last := fragments[0].ID, fragments[len(fragments)-1].ID
	if len(fragments) == 1 {
		return fmt.Sprintf("fragment %d", first)
	}
	return fmt.Sprintf("%d fragments from %d to %d", len(fragments), first, last)
}

func compacted(r *maintain.CompactReport) *Answer {
	a := &Answer{Version: r.Snapshot.Version(), Values: []any{
		uint64(r.FragmentsRemoved), uint64(r.FragmentsAdded), uint64(r.FilesRemoved), uint64(r.FilesAdded), r.Rows, uint64(len(r.Skipped)),
	}}
	var notices []string
	if len(r.Skipped) > 0 {
		notices = append(notices, fmt.Sprintf("%d of the groups of fragments were changed by others meanwhile and are as those left them; compact again for them", len(r.Skipped)))
	}
	if n := r.IndexesBehind(); n > 0 {
		notices = append(notices, fmt.Sprintf("%d of the indexes do not know all of the new fragments, whose rows are found without them until Lance's optimize_indices is run", n))
	}
	a.Notice = strings.Join(notices, "; ")
	return a
}

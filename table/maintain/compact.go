package maintain

import (
	"context"
	"slices"
	"time"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// CompactReport is what a compaction did.
type CompactReport struct {
	// Snapshot is the last version that it published, or the one that it looked at
	// when there was nothing to do.
	Snapshot *table.Snapshot
	Commits  int

	FragmentsRemoved, FragmentsAdded int
	FilesRemoved, FilesAdded         int // data files, and deletion files that went
	Rows                             uint64

	// Skipped are the tasks of which others changed or removed a fragment
	// meanwhile; they are as those others left them.
	Skipped []CompactTask

	added []uint64 // ids of new fragments
}

// IndexesBehind is how many indexes do not know all of the new fragments: those
// that name rows by their addresses lose the ones that were rewritten.
func (r *CompactReport) IndexesBehind() int {
	behind := map[string]bool{}
	indexes := r.Snapshot.Manifest().Indexes
	for i := range indexes {
		x := &indexes[i]
		if x.Fragments != nil && !x.System() && slices.ContainsFunc(r.added, func(id uint64) bool { return !x.Fragments.Contains(uint32(id)) }) {
			behind[x.Name] = true
		}
	}
	return len(behind)
}

// Compact rewrites small fragments into full ones and rows without the deleted
// ones beside them, as PlanCompact says. Readers and writers go on meanwhile:
// tasks whose fragments they touch are skipped and reported, and when that is
// all of them the error is fault.Conflict. Row order within the rewritten
// fragments, row ids, lineage, nullness and every value stay (RWR-2); payload
// outside of data files moves only where the table did not opt in to managed
// blobs (RWR-1, RWR-4).
//
// A large compaction is several commits, each whole. With an error the report
// tells what was published before it, nothing when it is nil; all else is as it
// was.
func Compact(ctx context.Context, t *table.Table, o CompactOptions) (*CompactReport, error) {
	plan, err := PlanCompact(ctx, t, o)
	if err != nil {
		return nil, err
	}
	c := &compactor{table: t, options: &o, plan: plan, report: &CompactReport{Snapshot: plan.Snapshot}}
	c.progress.Tasks, c.progress.Rows = len(plan.Tasks), plan.Rows()
	for todo := plan.Tasks; len(todo) > 0; {
		n, err := c.part(ctx, todo)
		if err != nil {
			return c.report, err
		}
		todo = todo[n:]
	}
	if len(plan.Tasks) > 0 && c.report.Commits == 0 {
		return c.report, c.lost
	}
	return c.report, nil
}

// compactor is one compaction on its way.
type compactor struct {
	table    *table.Table
	options  *CompactOptions
	plan     *CompactPlan
	report   *CompactReport
	progress CompactProgress
	lost     error // why tasks were skipped last
}

// part does some of the tasks and publishes them. It answers how many.
func (c *compactor) part(ctx context.Context, todo []CompactTask) (int, error) {
	base, err := c.table.At(ctx, table.Ref{Branch: c.options.Branch})
	if err != nil {
		return 0, err
	}
	free, err := c.table.Hold(ctx, base) // GC-3
	if err != nil {
		return 0, err
	}
	defer free()
	w, err := base.Rewrite(table.RewriteOptions{
		FileVersion: c.plan.fileVersion, RowsPerFile: c.plan.targetRows, BytesPerFile: int64(min(c.plan.targetBytes, 1<<62)),
		Message: c.options.Message,
	})
	if err != nil {
		return 0, err
	}
	defer w.Abort()
	var begun []CompactTask
	done, bytes, start := 0, uint64(0), time.Now()
	for done < len(todo) && len(begun) < commitTasks && bytes < commitBytes && time.Since(start) < commitTime {
		task := todo[done]
		done++
		first, ok := whereIs(base.Manifest(), task.Fragments)
		if !ok {
			c.lost = fault.New(fault.Conflict, "maintain: fragments of %s that were to be compacted are gone since version %d; run it again", c.table.Name(), c.plan.Snapshot.Version())
			c.skip(task)
			continue
		}
		if err := w.Group(ctx, first, len(task.Fragments), c.wrote); err != nil {
			return 0, err
		}
		c.progress.TasksDone++
		begun = append(begun, task)
		bytes += task.Bytes
	}
	if len(begun) == 0 {
		return done, nil
	}
	out, err := w.Commit(ctx)
	if fault.KindOf(err) == fault.Conflict && ctx.Err() == nil {
		c.lost = err
		for _, task := range begun {
			c.skip(task)
		}
		return done, nil
	}
	if err != nil {
		return 0, err
	}
	c.published(out)
	return done, nil
}

// whereIs finds the fragments of a task in a version, side by side and with the
// files that they had. Rows of them may have been deleted since.
func whereIs(m *manifest.Manifest, fragments []manifest.Fragment) (first int, ok bool) {
	for first = range m.Fragments {
		if m.Fragments[first].ID == fragments[0].ID {
			break
		}
	}
	if first+len(fragments) > len(m.Fragments) {
		return 0, false
	}
	for i := range fragments {
		if f := &m.Fragments[first+i]; f.ID != fragments[i].ID || !f.HasFiles(fragments[i].Files) {
			return 0, false
		}
	}
	return first, true
}

func (c *compactor) wrote(rows uint64) {
	c.progress.RowsDone += rows
	if c.options.Progress != nil {
		c.options.Progress(c.progress)
	}
}

func (c *compactor) skip(task CompactTask) { c.report.Skipped = append(c.report.Skipped, task) }

func (c *compactor) published(out *table.Rewritten) {
	r := c.report
	r.Snapshot = out.Snapshot
	r.Commits++
	for _, g := range out.Groups {
		r.FragmentsRemoved += len(g.Old)
		r.FragmentsAdded += len(g.New)
		r.FilesRemoved += FilesOf(g.Old)
		r.FilesAdded += FilesOf(g.New)
		for i := range g.New {
			r.Rows += g.New[i].PhysicalRows
			r.added = append(r.added, g.New[i].ID)
		}
	}
	for _, g := range out.Lost {
		c.skip(taskOf(g.Old))
	}
}

// FilesOf counts data files and deletion files, as the reference does.
func FilesOf(fragments []manifest.Fragment) int {
	n := 0
	for i := range fragments {
		n += len(fragments[i].Files)
		if fragments[i].Deletion != nil {
			n++
		}
	}
	return n
}

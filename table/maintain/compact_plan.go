package maintain

import (
	"context"
	"slices"

	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// CompactPlan is what a compaction would do to one version.
type CompactPlan struct {
	Snapshot *table.Snapshot
	Tasks    []CompactTask
	compaction
}

// CompactTask is neighbouring fragments that become one, or several full ones.
type CompactTask struct {
	Fragments []manifest.Fragment
	Rows      uint64 // live ones
	Bytes     uint64 // of data files, where they are known
}

// PlanCompact looks which fragments of the newest version a compaction would
// rewrite: it reads the manifest and nothing else.
func PlanCompact(ctx context.Context, t *table.Table, o CompactOptions) (*CompactPlan, error) {
	s, err := t.At(ctx, table.Ref{Branch: o.Branch})
	if err != nil {
		return nil, err
	}
	c, err := o.on(s)
	if err != nil {
		return nil, err
	}
	return &CompactPlan{Snapshot: s, Tasks: c.plan(s.Manifest()), compaction: c}, nil
}

// Rows are those that the tasks write.
func (p *CompactPlan) Rows() uint64 {
	sum := uint64(0)
	for i := range p.Tasks {
		sum += p.Tasks[i].Rows
	}
	return sum
}

// candidate says why a fragment is compacted.
type candidate uint8

const (
	stays candidate = iota
	withNeighbours
	byItself
)

func (c *compaction) candidate(f *manifest.Fragment) candidate {
	deleted := float32(f.PhysicalRows-f.LiveRows()) / float32(f.PhysicalRows) // as the reference computes it
	switch {
	case c.deletions && deleted > float32(c.deletionsAbove):
		return byItself
	case f.PhysicalRows < c.targetRows:
		return withNeighbours
	}
	return stays
}

// plan finds the tasks as the reference does (table-format sheet section 7.4):
// neighbouring candidates that the same indexes know, cut so that each part has
// enough rows.
func (c *compaction) plan(m *manifest.Manifest) []CompactTask {
	var tasks []CompactTask
	knows := indexedBy(m)
	for start := 0; start < len(m.Fragments); {
		why := c.candidate(&m.Fragments[start])
		if why == stays {
			start++
			continue
		}
		end := start + 1
		for end < len(m.Fragments) && c.candidate(&m.Fragments[end]) != stays && slices.Equal(knows(end), knows(start)) {
			end++
		}
		if end-start > 1 || why == byItself {
			tasks = append(tasks, c.cut(m.Fragments[start:end])...)
		}
		start = end
	}
	return c.bounded(tasks)
}

// indexedBy tells which indexes know the fragment at a place.
func indexedBy(m *manifest.Manifest) func(place int) []bool {
	return func(place int) []bool {
		known := make([]bool, len(m.Indexes))
		for i := range m.Indexes {
			x := &m.Indexes[i]
			known[i] = x.Fragments != nil && !x.System() && x.Fragments.Contains(uint32(m.Fragments[place].ID))
		}
		return known
	}
}

// cut makes tasks of at least the target rows each; what is left over belongs to
// the last one.
func (c *compaction) cut(fragments []manifest.Fragment) []CompactTask {
	left := uint64(0)
	for i := range fragments {
		left += fragments[i].LiveRows()
	}
	var tasks []CompactTask
	for len(fragments) > 0 {
		n, rows := 0, uint64(0)
		for n < len(fragments) && rows < c.targetRows {
			rows += fragments[n].LiveRows()
			n++
		}
		if left -= rows; left < c.targetRows {
			n = len(fragments)
		}
		tasks = append(tasks, taskOf(fragments[:n]))
		fragments = fragments[n:]
	}
	return tasks
}

func taskOf(fragments []manifest.Fragment) CompactTask {
	t := CompactTask{Fragments: fragments}
	for i := range fragments {
		t.Rows += fragments[i].LiveRows()
		t.Bytes += bytesOf(&fragments[i])
	}
	return t
}

// bounded are the first tasks that one run may take on.
func (c *compaction) bounded(tasks []CompactTask) []CompactTask {
	within := func(sum uint64, most *uint64) bool { return most == nil || sum <= *most }
	var fragments, rows, bytes uint64
	for i := range tasks {
		fragments += uint64(len(tasks[i].Fragments))
		rows += tasks[i].Rows
		bytes += tasks[i].Bytes
		if !within(fragments, c.mostFragments) || !within(rows, c.mostRows) || !within(bytes, c.mostBytes) {
			return tasks[:i]
		}
	}
	return tasks
}

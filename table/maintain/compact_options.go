package maintain

import (
	"strconv"
	"time"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// CompactOptions say what is compacted and how it is stored. What is not given
// is what the table's configuration says under lance.compaction.NAME, else the
// default, which is the reference's. The names of the reference stand in
// parentheses.
type CompactOptions struct {
	Branch string // "" = main

	// TargetRows is how many rows a fragment should have
	// (target_rows_per_fragment, 1048576); nil is not given.
	TargetRows *uint64
	// TargetBytes ends a data file early (max_bytes_per_file, 90 GiB); payload
	// outside of data files does not count.
	TargetBytes *uint64
	// Deletions says whether fragments are rewritten for their deleted rows alone
	// (materialize_deletions, true), DeletionsAbove from what share of deleted rows
	// on (materialize_deletions_threshold, 0.1: more than a tenth).
	Deletions      *bool
	DeletionsAbove *float64
	// MostFragments, MostRows and MostBytes bound what one run rewrites: tasks are
	// taken as long as they fit (max_source_fragments, max_source_rows,
	// max_source_bytes; without bound).
	MostFragments, MostRows, MostBytes *uint64
	// FileVersion is the format of new data files (data_storage_version: that of
	// the table). The table's own does not change.
	FileVersion string

	// Message is stored with the transactions.
	Message string
	// Progress is told after each batch of rows; nil for nobody. It is called by
	// the goroutine that compacts.
	Progress func(CompactProgress)
}

// CompactProgress is how far a compaction is.
type CompactProgress struct {
	Tasks, TasksDone int
	Rows, RowsDone   uint64
}

// The defaults of the reference.
const (
	defaultTargetRows = 1 << 20
	defaultDeletions  = 0.1
	configPrefix      = "lance.compaction."
)

// compaction is the options with everything given.
type compaction struct {
	targetRows     uint64
	targetBytes    uint64 // 0: the writer's own limit
	deletions      bool
	deletionsAbove float64
	mostFragments  *uint64
	mostRows       *uint64
	mostBytes      *uint64
	fileVersion    string // "" is that of the table
}

// on completes the options for a version.
func (o *CompactOptions) on(s *table.Snapshot) (c compaction, err error) {
	config := configured{s.Manifest().Config, s.Table().Name()}
	c = compaction{targetRows: defaultTargetRows, deletions: true, deletionsAbove: defaultDeletions}
	if c.targetRows, err = config.number("target_rows_per_fragment", o.TargetRows, c.targetRows); err != nil {
		return c, err
	}
	if c.targetBytes, err = config.number("max_bytes_per_file", o.TargetBytes, 0); err != nil {
		return c, err
	}
	if c.deletions, err = given(config, "materialize_deletions", o.Deletions, c.deletions, strconv.ParseBool); err != nil {
		return c, err
	}
	if c.deletionsAbove, err = given(config, "materialize_deletions_threshold", o.DeletionsAbove, c.deletionsAbove, parseShare); err != nil {
		return c, err
	}
	for name, bound := range map[string]struct {
		given *uint64
		to    **uint64
	}{
		"max_source_fragments": {o.MostFragments, &c.mostFragments},
		"max_source_rows":      {o.MostRows, &c.mostRows},
		"max_source_bytes":     {o.MostBytes, &c.mostBytes},
	} {
		const without = 1<<64 - 1
		n, err := config.number(name, bound.given, without)
		if err != nil {
			return c, err
		}
		if n != without {
			*bound.to = &n
		}
	}
	c.fileVersion = o.FileVersion
	if c.fileVersion == "" {
		c.fileVersion = config.values[configPrefix+"data_storage_version"]
	}
	return c, c.check()
}

func (c *compaction) check() error {
	switch {
	case c.targetRows == 0 || c.targetRows > 1<<32-1:
		return fault.New(fault.Invalid, "maintain: target_rows_per_fragment is %d; allowed are 1 to 4294967295", c.targetRows)
	case !(c.deletionsAbove >= 0 && c.deletionsAbove <= 1):
		return fault.New(fault.Invalid, "maintain: materialize_deletions_threshold is %v; allowed are 0 to 1, the share of deleted rows", c.deletionsAbove)
	}
	return nil
}

// configured are the keys of a table's configuration.
type configured struct {
	values map[string]string
	table  string // for messages
}

func (c configured) number(name string, option *uint64, otherwise uint64) (uint64, error) {
	return given(c, name, option, otherwise, func(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) })
}

func given[T any](c configured, name string, option *T, otherwise T, parse func(string) (T, error)) (T, error) {
	if option != nil {
		return *option, nil
	}
	text, ok := c.values[configPrefix+name]
	if !ok {
		return otherwise, nil
	}
	value, err := parse(text)
	if err != nil {
		return otherwise, fault.New(fault.Precondition, "maintain: the configuration of %s has %s%s = %s, which cannot be read; change it, or name %s in the call",
			c.table, configPrefix, name, fault.Quote(text), name)
	}
	return value, nil
}

func parseShare(text string) (float64, error) { return strconv.ParseFloat(text, 64) }

// commitEvery bounds what is rewritten between two commits, so that a failure
// loses no more than that and others see the gain early.
const (
	commitTasks = 64
	commitBytes = 64 << 30
	commitTime  = 15 * time.Minute
)

// bytesOf are the bytes of the data files of a fragment, as far as they are
// known. Payload beside data files does not count.
func bytesOf(f *manifest.Fragment) uint64 {
	sum := uint64(0)
	for i := range f.Files {
		sum += f.Files[i].Size
	}
	return sum
}

package maintain

import (
	"fmt"
	"strings"
)

// Class is a kind of file that a cleanup removes.
type Class uint8

// The classes.
const (
	Manifests Class = iota
	DataFiles
	Sidecars // of data files: packed and dedicated values
	Objects  // managed ones, in _blobs
	DeletionFiles
	IndexFiles
	TransactionFiles
	Temporary // what killed writers left under names of their own
	Leases    // tags of leases that have expired
	classes
)

var classNames = [classes]string{
	"manifests", "data files", "blob sidecars", "managed objects", "deletion files", "index files",
	"transaction files", "temporary files", "expired leases",
}

// String names the class.
func (c Class) String() string { return classNames[c] }

// Sum counts files.
type Sum struct {
	Files uint64
	Bytes uint64
}

func (s *Sum) add(bytes int64) {
	s.Files++
	s.Bytes += uint64(max(bytes, 0))
}

// Spared is a version that the policy matches and that stays all the same.
type Spared struct {
	Version uint64
	Why     string // `tag "x"`, `branch "b"`, …
}

// Report is what a cleanup removed, or would have.
type Report struct {
	Table  string
	Branch string // "" = main
	DryRun bool
	Newest uint64 // the newest version
	Stay   uint64 // versions that stay
	// Removed are the versions that went, oldest first.
	Removed []uint64
	// Spared are versions that something else than the policy keeps, oldest first.
	Spared []Spared
	// Files sums what was removed by class.
	Files [classes]Sum
	// Young are files that no version knows and that are not old enough to be
	// taken for left behind.
	Young Sum
}

// Total sums all classes.
func (r *Report) Total() Sum {
	var all Sum
	for _, s := range r.Files {
		all.Files += s.Files
		all.Bytes += s.Bytes
	}
	return all
}

// String is the report as a text of several lines.
func (r *Report) String() string {
	var b strings.Builder
	of, verb := r.Table, "removed"
	if r.Branch != "" {
		of = fmt.Sprintf("branch %q of %s", r.Branch, r.Table)
	}
	if r.DryRun {
		verb = "would remove"
	}
	fmt.Fprintf(&b, "%s: %s %s", of, verb, number(uint64(len(r.Removed)), "version"))
	if len(r.Removed) > 0 {
		fmt.Fprintf(&b, " (%s)", runs(r.Removed))
	}
	total := r.Total()
	fmt.Fprintf(&b, " and %s of %s; %s, the newest is %d\n", number(total.Files, "file"), number(total.Bytes, "byte"),
		remaining(r.Stay), r.Newest)
	for class, s := range r.Files {
		if s.Files > 0 {
			fmt.Fprintf(&b, "  %s: %d, %s\n", Class(class), s.Files, number(s.Bytes, "byte"))
		}
	}
	for _, s := range r.Spared {
		fmt.Fprintf(&b, "  version %d stays for %s\n", s.Version, s.Why)
	}
	if r.Young.Files > 0 {
		fmt.Fprintf(&b, "  %s of %s that no version knows: younger than %d days, perhaps part of a write; delete_unverified removes them\n",
			number(r.Young.Files, "file"), number(r.Young.Bytes, "byte"), int(unverifiedAge.Hours()/24))
	}
	return b.String()
}

func remaining(n uint64) string {
	if n == 1 {
		return "1 version stays"
	}
	return fmt.Sprintf("%d versions stay", n)
}

func number(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// runs prints ascending numbers as "1-4, 7", at most a handful of runs.
func runs(versions []uint64) string {
	const most = 10
	var parts []string
	for i := 0; i < len(versions); {
		j := i
		for j+1 < len(versions) && versions[j+1] == versions[j]+1 {
			j++
		}
		if len(parts) == most {
			return strings.Join(parts, ", ") + ", …"
		}
		if i == j {
			parts = append(parts, fmt.Sprint(versions[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", versions[i], versions[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

package maintain

import (
	"fmt"
	"strings"
	"time"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table/manifest"
)

// DefaultAge is how old versions must be to be removed when a policy says
// neither how old nor how many.
const DefaultAge = 14 * 24 * time.Hour

// unverifiedAge is how old a file must be that no version knows to be taken for
// left behind, and not for part of a write that is going on (GC-9).
const unverifiedAge = 7 * 24 * time.Hour

// Policy says which versions a cleanup may remove. A version goes when it meets
// every condition that is given; the newest one, tagged and leased ones, and those
// that branches need stay all the same.
type Policy struct {
	// Branch is the line whose versions may go, "" or "main" for the main one.
	Branch string
	// OlderThan lets versions go that were committed longer ago; 0 is older than
	// now. Nil is no condition, or DefaultAge when RetainVersions is not given.
	OlderThan *time.Duration
	// RetainVersions keeps the newest so many. 0 is no condition.
	RetainVersions uint64
	// DeleteUnverified removes files that no version knows whatever their age. It
	// damages what is being written to the table at the same time.
	DeleteUnverified bool
	// DryRun removes nothing and reports what would be.
	DryRun bool
	// Now is the time that ages are measured at; zero for that of the call.
	Now time.Time

	// newest is the version that counts as the newest; those after it stay, too.
	// 0 is the newest there is.
	newest uint64
}

// complete checks a policy and fills in what it leaves open.
func (p Policy) complete() (Policy, error) {
	if p.Branch == manifest.MainBranch {
		p.Branch = ""
	}
	if p.OlderThan != nil && *p.OlderThan < 0 {
		return p, fault.New(fault.Invalid, "maintain: older_than is %s; it is an age, 0 or more", *p.OlderThan)
	}
	if p.OlderThan == nil && p.RetainVersions == 0 {
		age := DefaultAge
		p.OlderThan = &age
	}
	if p.Now.IsZero() {
		p.Now = time.Now()
	}
	return p, nil
}

// String says in words which versions go.
func (p Policy) String() string {
	var parts []string
	if p.OlderThan != nil {
		parts = append(parts, fmt.Sprintf("are older than %s", *p.OlderThan))
	}
	if p.RetainVersions > 0 {
		parts = append(parts, fmt.Sprintf("are not among the newest %d", p.RetainVersions))
	}
	return strings.Join(parts, " and ")
}

// matches says that a version meets the conditions. from is the oldest of those
// that RetainVersions keeps.
func (p Policy) matches(version, from uint64, committed time.Time) bool {
	if p.OlderThan != nil && !committed.Before(p.Now.Add(-*p.OlderThan)) {
		return false
	}
	return p.RetainVersions == 0 || version < from
}

// stale says that a file which no version knows, or a temporary one, is old
// enough to be taken for left behind.
func (p Policy) stale(modified time.Time) bool {
	return p.DeleteUnverified || !modified.IsZero() && p.Now.Sub(modified) >= unverifiedAge
}

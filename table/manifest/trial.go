package manifest

import (
	"maps"
	"slices"

	"github.com/flightblob/flightblob/schema"
)

// Trial judges one transaction against all that were committed since it was
// computed, in their order. Beyond Judge it knows what they did together: a
// field id that one dropped and a later one gave to another column would make
// the files of ours mean what they do not hold.
type Trial struct {
	ours    *Transaction
	fields  map[schema.FieldID]bool // that new files of ours name
	dropped map[schema.FieldID]bool // of those, gone at some time
}

// NewTrial begins a trial.
func NewTrial(ours *Transaction) *Trial {
	t := &Trial{ours: ours, fields: map[schema.FieldID]bool{}, dropped: map[schema.FieldID]bool{}}
	var fragments []Fragment
	switch op := ours.Op.(type) {
	case *Append:
		fragments = op.Fragments
	case *Update:
		fragments = op.New
	}
	for i := range fragments {
		for j := range fragments[i].Files {
			for _, id := range fragments[i].Files[j].Fields {
				t.fields[id] = id >= 0
			}
		}
	}
	return t
}

// Hear judges the next transaction.
func (t *Trial) Hear(theirs *Transaction) Verdict {
	v := Judge(t.ours, theirs)
	var after *schema.Schema
	switch op := theirs.Op.(type) {
	case *Merge:
		after = op.Schema
	case *Project:
		after = op.Schema
	}
	if after == nil || v.Decision != Rebase {
		return v
	}
	for _, id := range slices.Sorted(maps.Keys(t.fields)) {
		switch {
		case !t.fields[id]:
		case after.ByID(id) == nil:
			t.dropped[id] = true
		case t.dropped[id]:
			return retry("the %s lost to a concurrent %s: field %d, which the new files hold, was dropped and now is another column", describe(t.ours.Op), describe(theirs.Op), id)
		}
	}
	return v
}

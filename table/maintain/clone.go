package maintain

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// Cloned is a clone that was made.
type Cloned struct {
	Source *table.Snapshot // what it is a clone of
	Clone  *table.Snapshot // its first version, of the same number
	// Tag is the tag of the source that keeps the version, with Tagged; else a
	// free name for one. A shallow clone breaks without it once a cleanup of the
	// source has removed the version (CLN-4).
	Tag    string
	Tagged bool
	Copied Copied // of a deep clone
}

// ShallowOptions tune a shallow clone. The zero value works.
type ShallowOptions struct {
	// TagSource sets a tag of the source for this clone alone before it is published:
	// others that the version has may be deleted with what they were made for.
	TagSource bool
}

// ShallowClone makes a table over the files of a version of another one, and
// copies nothing (CLN-1, sheet section 6.3). target must be a place without a
// table: fault.Exists otherwise, also when somebody else is faster.
//
// A lease keeps the version until the clone is there, and nothing does after
// that but a tag (CLN-4, GC-3).
func ShallowClone(ctx context.Context, source *table.Table, ref table.Ref, target *table.Table, o ShallowOptions) (*Cloned, error) {
	s, free, err := held(ctx, source, ref, target)
	if err != nil {
		return nil, err
	}
	defer free()
	done := &Cloned{Source: s}
	if done.Tag, done.Tagged, err = covering(ctx, source, s, target, o.TagSource); err != nil {
		return nil, err
	}
	untag := func() {}
	if o.TagSource && !done.Tagged {
		if _, err := source.CreateTag(ctx, done.Tag, s.Ref(), table.TagOptions{}); err != nil {
			return nil, fmt.Errorf("maintain: clone %s: %w", source.Name(), err)
		}
		done.Tagged = true
		untag = func() { _, _ = source.DeleteTag(context.WithoutCancel(ctx), done.Tag) } // one that stays keeps a version
	}
	op := cloneOf(s)
	op.Shallow = true
	if done.Clone, err = published(ctx, target, s, op, nil); err != nil {
		if done.Clone == nil && !errors.Is(err, objstore.ErrUncertain) {
			untag()
		}
		return nil, fmt.Errorf("maintain: clone %s: %w", source.Name(), err)
	}
	return done, nil
}

// held finds the version to clone and keeps it until free is called. Where nothing
// can be written to the source no lease can be had, and no cleanup should run.
func held(ctx context.Context, source *table.Table, ref table.Ref, target *table.Table) (s *table.Snapshot, free func(), err error) {
	from, to := source.Root().AbsoluteURI(), target.Root().AbsoluteURI()
	for _, pair := range [][2]string{{from, to}, {to, from}} {
		if _, _, inside, err := objstore.Below(pair[0]+"/_", pair[1]); err == nil && inside {
			return nil, nil, fault.New(fault.Invalid, "maintain: %s cannot be cloned to a folder inside its own, or around it", source.Name())
		}
	}
	if s, err = source.At(ctx, ref); err != nil {
		return nil, nil, err
	}
	if manifest.IsDetached(s.Version()) {
		return nil, nil, fault.New(fault.Invalid, "maintain: version %d of %s is detached and no part of its history; versions of a branch can be cloned", s.Version(), source.Name())
	}
	there, err := target.Exists(ctx)
	if err == nil && there {
		err = fault.New(fault.Exists, "maintain: %s exists already; a clone needs a place without a table", target.Name())
	}
	if err != nil {
		return nil, nil, err
	}
	free, err = source.Hold(ctx, s)
	switch fault.KindOf(err) {
	case fault.Denied, fault.Unsupported:
		return s, func() {}, nil
	}
	return s, free, err
}

// cloneOf says what a clone is of, as manifests name it: local folders without a
// scheme.
func cloneOf(s *table.Snapshot) *manifest.Clone {
	return &manifest.Clone{RefName: s.Ref().Branch, RefVersion: s.Version(), RefPath: strings.TrimRight(s.Root().String(), "/")}
}

func published(ctx context.Context, target *table.Table, s *table.Snapshot, op *manifest.Clone, copied *manifest.Copied) (*table.Snapshot, error) {
	tx := &manifest.Transaction{ReadVersion: s.Version(), UUID: uuid.NewString(), Op: op}
	return target.Commit(ctx, "", tx, table.CommitOptions{Source: s, Copied: copied})
}

// covering finds a tag that keeps a version for good, or a free name for one. Its
// own one has the name of the clone.
func covering(ctx context.Context, source *table.Table, s *table.Snapshot, target *table.Table, own bool) (name string, there bool, err error) {
	tags, err := source.Tags(ctx)
	if err != nil {
		return "", false, err
	}
	stem := tagName(s, target)
	taken := map[string]bool{}
	for _, t := range tags {
		_, lease := t.LeasedUntil()
		if !lease && t.Branch == s.Ref().Branch && t.Version == s.Version() && (!own || t.Name == stem) {
			return t.Name, true, nil
		}
		taken[t.Name] = true
	}
	name = stem
	for n := 2; taken[name]; n++ {
		name = stem + "-" + strconv.Itoa(n)
	}
	return name, false, nil
}

// tagName is what the tag for a clone is called.
func tagName(s *table.Snapshot, target *table.Table) string {
	stem := fmt.Sprintf("clone-%s-v%d", target.Name(), s.Version())
	if branch := s.Ref().Branch; branch != "" {
		stem = fmt.Sprintf("clone-%s-%s-v%d", target.Name(), branch, s.Version())
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, stem)
}

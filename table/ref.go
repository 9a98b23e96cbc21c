package table

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table/manifest"
)

// Ref chooses a version. The zero value is the newest version of main. At most
// one of Tag, Version and Timestamp may be set; Branch goes with Version and
// Timestamp, while a tag knows its branch.
type Ref struct {
	Branch    string // "" and "main" are the main line
	Tag       string
	Version   uint64    // 0 = newest; a number with bit 63 is a detached version
	Timestamp time.Time // the newest version that is not later
}

// String prints the reference for messages.
func (r Ref) String() string {
	s := ""
	switch {
	case r.Tag != "":
		return fmt.Sprintf("tag %q", r.Tag)
	case r.Version != 0:
		s = fmt.Sprintf("version %d", r.Version)
	case !r.Timestamp.IsZero():
		s = "the version at " + r.Timestamp.UTC().Format(time.RFC3339Nano)
	default:
		s = "the newest version"
	}
	if r.Branch != "" {
		s += fmt.Sprintf(" of branch %q", r.Branch)
	}
	return s
}

// check refuses references that say two things.
func (r Ref) check() error {
	n := 0
	for _, set := range []bool{r.Tag != "", r.Version != 0, !r.Timestamp.IsZero()} {
		if set {
			n++
		}
	}
	if n > 1 || r.Tag != "" && r.Branch != "" {
		return fault.New(fault.Invalid,
			"table: at most one of version, tag and timestamp may be given, and a tag names its branch itself")
	}
	return nil
}

// resolve finds the line and the manifest that a reference means. The answer
// is that of this moment: each call lists the versions anew.
func (t *Table) resolve(ctx context.Context, ref Ref) (root objstore.Location, branch string, p published, err error) {
	if err := ref.check(); err != nil {
		return root, "", p, err
	}
	if ref.Branch == manifest.MainBranch {
		ref.Branch = ""
	}
	if ref.Tag != "" {
		tag, err := t.tag(ctx, ref.Tag)
		if errors.Is(err, errRefGone) {
			return root, "", p, t.missingRef(ctx, "tag", ref.Tag, manifest.TagsDir)
		}
		if err != nil {
			return root, "", p, err
		}
		ref.Branch, ref.Version = tag.Branch, tag.Version
	}
	branch = ref.Branch
	if root, err = t.line(ctx, branch); err != nil {
		return root, "", p, err
	}
	switch {
	case ref.Version != 0:
		p, err = t.version(ctx, root, branch, ref.Version)
	case !ref.Timestamp.IsZero():
		p, err = t.versionAt(ctx, root, branch, ref.Timestamp)
	default:
		p, err = t.newest(ctx, root, branch)
	}
	if err != nil && ref.Tag != "" {
		err = fmt.Errorf("table: tag %q: %w", ref.Tag, err)
	}
	return root, branch, p, err
}

// line is the folder of a branch, the table's root for main.
func (t *Table) line(ctx context.Context, branch string) (objstore.Location, error) {
	if branch == "" {
		return t.root, nil
	}
	_, err := t.branch(ctx, branch)
	if errors.Is(err, errRefGone) {
		return objstore.Location{}, t.missingRef(ctx, "branch", branch, manifest.BranchesDir)
	}
	if err != nil {
		return objstore.Location{}, err
	}
	folder, err := manifest.BranchRoot(branch)
	if err != nil {
		return objstore.Location{}, err
	}
	return t.root.Join(folder), nil
}

func (t *Table) newest(ctx context.Context, root objstore.Location, branch string) (published, error) {
	all, err := listVersions(ctx, root, true)
	if err != nil {
		return published{}, err
	}
	if len(all) == 0 {
		return published{}, t.noVersions(branch)
	}
	return all[0], nil
}

// noVersions is the error for a folder that is not a table, or not any more.
func (t *Table) noVersions(branch string) error {
	if branch != "" {
		return fault.New(fault.NotFound, "table: branch %q of %s has no versions", branch, t.name)
	}
	return fault.New(fault.NotFound, "table: %s is not a Lance table: it has no versions", t.name)
}

// version finds one version by number, detached ones included.
func (t *Table) version(ctx context.Context, root objstore.Location, branch string, version uint64) (published, error) {
	if manifest.IsDetached(version) {
		name := manifest.Name(version, manifest.Detached)
		for e, err := range root.Join(manifest.VersionsDir).List(ctx) {
			if err != nil {
				return published{}, fmt.Errorf("table: list versions: %w", err)
			}
			if e.Name == name {
				return published{version, e}, nil
			}
		}
		return published{}, fault.New(fault.NotFound, "table: %s has no detached version %d", t.name, version)
	}
	all, err := listVersions(ctx, root, false)
	if err != nil {
		return published{}, err
	}
	for _, p := range all {
		if p.version == version {
			return p, nil
		}
	}
	if len(all) == 0 {
		return published{}, t.noVersions(branch)
	}
	of := t.name
	if branch != "" {
		of = fmt.Sprintf("branch %q of %s", branch, t.name)
	}
	return published{}, fault.New(fault.NotFound, "table: version %d of %s does not exist; the oldest is %d, the newest %d",
		version, of, all[len(all)-1].version, all[0].version)
}

// versionAt finds the newest version whose commit time is not after at. Clients
// see and send microseconds, and pylance gives times as floating seconds, which
// may lie one before: both mean the version whose time they were told. Commit
// times come from the writers' clocks and need not rise with the versions, so
// it looks at them newest first instead of halving.
func (t *Table) versionAt(ctx context.Context, root objstore.Location, branch string, at time.Time) (published, error) {
	all, err := listVersions(ctx, root, false)
	if err != nil {
		return published{}, err
	}
	if len(all) == 0 {
		return published{}, t.noVersions(branch)
	}
	for rest := all; len(rest) > 0; {
		window := rest[:min(len(rest), versionReaders)]
		rest = rest[len(window):]
		infos, err := t.describe(ctx, root, branch, window)
		if err != nil {
			return published{}, err
		}
		for i, info := range infos {
			if !info.Timestamp.Truncate(time.Microsecond).Add(-time.Microsecond).After(at) {
				return window[i], nil
			}
		}
		if len(rest) == 0 {
			oldest := infos[len(infos)-1]
			return published{}, fault.New(fault.NotFound, "table: %s has no version as early as %s; the oldest, %d, is of %s",
				t.name, at.UTC().Format(time.RFC3339Nano), oldest.Version, oldest.Timestamp.UTC().Format(time.RFC3339Nano))
		}
	}
	return published{}, t.noVersions(branch)
}

// versionReaders is how many manifests are read at once when many are wanted.
const versionReaders = 16

// VersionInfo is what a list of versions says about one.
type VersionInfo struct {
	Version       uint64
	Timestamp     time.Time // commit time by the writer's clock, UTC
	Operation     string    // "Append", …; "" when the version does not say
	Rows          uint64    // live rows
	DeletedRows   uint64
	Fragments     int
	DataFiles     int
	ManifestBytes int64
	WriterVersion string
}

// Versions lists the versions of a branch ("" = main), oldest first. Detached
// versions are no part of it.
func (t *Table) Versions(ctx context.Context, branch string) ([]VersionInfo, error) {
	if branch == manifest.MainBranch {
		branch = ""
	}
	root, err := t.line(ctx, branch)
	if err != nil {
		return nil, err
	}
	all, err := listVersions(ctx, root, false)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, t.noVersions(branch)
	}
	infos, err := t.describe(ctx, root, branch, all)
	if err != nil {
		return nil, err
	}
	for i, j := 0, len(infos)-1; i < j; i, j = i+1, j-1 {
		infos[i], infos[j] = infos[j], infos[i]
	}
	return infos, nil
}

// describe reads the facts of some versions, several at a time.
func (t *Table) describe(ctx context.Context, root objstore.Location, branch string, versions []published) ([]VersionInfo, error) {
	infos := make([]VersionInfo, len(versions))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(versionReaders)
	for i, p := range versions {
		group.Go(func() (err error) {
			defer fault.Recover("table", &err)
			infos[i], err = t.env.info(ctx, t, root, branch, p)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return infos, nil
}

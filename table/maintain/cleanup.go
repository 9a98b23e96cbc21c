package maintain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// Cleanup removes versions of a line and the files that no version needs then.
//
// Which versions stay: the newest, those that the policy does not match, tagged
// and leased ones, and those that branches need (GC-4). What their manifests name
// stays, and every managed object that a live row of them refers to (GC-5). Of the
// rest only files below the line's own root go, and only those that a version which
// goes knows, or that are seven days old (GC-9, GC-10).
//
// Order: first the manifests of versions that go, oldest first, then their files.
// After a failure or a crash between any two calls every version that is listed is
// whole. Files whose manifests went before are then files that no version knows:
// they go with a later cleanup once they are seven days old, or at once with
// DeleteUnverified.
//
// Others may write meanwhile. What they have not published yet is young and stays;
// versions, tags and branches that appear before the files go are found and what
// they need stays. A tag or lease of a version that is just going either finds it
// gone, or brings its manifest back. Whoever begins from an older version must
// hold it by a lease or tag first (GC-3).
//
// An error before anything was removed says so. Otherwise the report tells what
// was.
func Cleanup(ctx context.Context, t *table.Table, policy Policy) (Report, error) {
	report := Report{Table: t.Name(), DryRun: policy.DryRun}
	policy, err := policy.complete()
	if err != nil {
		return report, err
	}
	report.Branch = policy.Branch
	p := newProof(t, policy)
	v, err := p.prove(ctx)
	if err != nil {
		return report, fmt.Errorf("maintain: the cleanup of %s stopped before it removed anything: %w", t.Name(), err)
	}
	all := v.scene.line.Versions
	report.Newest = all[len(all)-1].Version
	report.Spared = v.spared
	c := &cleaner{proof: p, report: &report, scene: v.scene}
	if policy.DryRun {
		err = c.survey(ctx, v)
	} else {
		err = c.remove(ctx, v)
	}
	report.Stay = uint64(len(all) - len(report.Removed))
	if err != nil {
		sum := report.Total()
		return report, fmt.Errorf("maintain: the cleanup of %s was interrupted after removing %s and %s; no version that is listed misses anything, and the next cleanup goes on: %w",
			t.Name(), number(uint64(len(report.Removed)), "version"), number(sum.Files, "file"), err)
	}
	return report, nil
}

// cleaner does what a proof allows.
type cleaner struct {
	proof  *proof
	report *Report
	scene  scene // the newest look
}

// survey counts what would go.
func (c *cleaner) survey(ctx context.Context, v verdict) error {
	for _, l := range v.goes {
		c.report.Removed = append(c.report.Removed, l.Version)
		c.report.Files[Manifests].add(l.Size)
	}
	err := c.proof.walk(ctx, c.dirs(), func(f found) error {
		if c.mayGo(f) {
			c.report.Files[f.class].add(f.Entry.Size)
		}
		return nil
	})
	for range c.proof.leases(v.scene) {
		c.report.Files[Leases].add(0)
	}
	return err
}

// dirs are the folders to look through; tags and branches are in the main root.
func (c *cleaner) dirs() []string {
	if c.proof.policy.Branch != "" {
		return swept[:len(swept)-1]
	}
	return swept
}

// mayGo says that a file may go, and counts those that may not.
func (c *cleaner) mayGo(f found) bool {
	if c.proof.mayGo(f) {
		return true
	}
	c.report.Young.add(f.Entry.Size)
	return false
}

func (c *cleaner) remove(ctx context.Context, v verdict) error {
	if err := c.removeVersions(ctx, v.goes); err != nil {
		return err
	}
	c.proof.final = true
	if err := c.removeFiles(ctx); err != nil {
		return err
	}
	return c.removeLeases(ctx)
}

// Bounds of what is removed between two looks at what others did.
const (
	versionBatch      = 64
	versionBatchBytes = 16 << 20
	fileBatch         = 512
)

// removeVersions removes manifests, a few at a time.
func (c *cleaner) removeVersions(ctx context.Context, list []table.Listed) error {
	for len(list) > 0 {
		n, bytes := 0, int64(0)
		for n < len(list) && n < versionBatch && (n == 0 || bytes+list[n].Size <= versionBatchBytes) {
			bytes += list[n].Size
			n++
		}
		if err := c.removeBatch(ctx, list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// removeBatch removes manifests, and puts those back that somebody tagged or leased
// meanwhile. Who tags a version looks afterwards whether it is still there, and this
// looks afterwards for tags, so at least one of both sees the other.
func (c *cleaner) removeBatch(ctx context.Context, list []table.Listed) error {
	held, err := c.held(ctx)
	if err != nil {
		return err
	}
	type copied struct {
		table.Listed
		data []byte
	}
	var batch []copied
	for _, l := range list {
		if held[l.Version] {
			continue // it is judged anew before any file goes
		}
		data, err := objstore.ReadAll(ctx, c.scene.line.At(l), l.Size)
		if fault.KindOf(err) == fault.NotFound {
			continue // another cleanup was faster
		}
		if err != nil {
			return err
		}
		batch = append(batch, copied{l, data})
	}
	var removing error
	gone := batch[:0]
	for _, b := range batch {
		if removing = c.scene.line.At(b.Listed).Delete(ctx); removing != nil {
			gone = append(gone, b) // perhaps
			break
		}
		gone = append(gone, b)
	}
	after := context.WithoutCancel(ctx)
	held, err = c.held(after)
	if err != nil {
		return errors.Join(removing, err)
	}
	for i, b := range gone {
		if held[b.Version] {
			if err := c.scene.line.At(b.Listed).PutIfAbsent(after, b.data); err != nil && fault.KindOf(err) != fault.Exists {
				return errors.Join(removing, fmt.Errorf("bring back version %d, which was tagged meanwhile: %w", b.Version, err))
			}
			continue
		}
		if i == len(gone)-1 && removing != nil {
			break
		}
		c.report.Removed = append(c.report.Removed, b.Version)
		c.report.Files[Manifests].add(b.Size)
	}
	return removing
}

// held are the versions of the line that tags and leases keep now.
func (c *cleaner) held(ctx context.Context) (map[uint64]bool, error) {
	tags, err := c.proof.table.Tags(ctx)
	if err != nil {
		return nil, err
	}
	held := map[uint64]bool{}
	for version := range c.proof.references(scene{tags: tags}) {
		held[version] = true
	}
	return held, nil
}

// removeFiles removes what no version needs, after looking each time what others
// published meanwhile.
func (c *cleaner) removeFiles(ctx context.Context) error {
	var batch []found
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		if err := c.refresh(ctx); err != nil {
			return err
		}
		if slices.ContainsFunc(batch, found.holdsValues) {
			if err := c.proof.keepPlain(ctx); err != nil {
				return err
			}
		}
		var objects []objstore.Location
		for _, f := range batch {
			if !c.proof.needs(f) {
				objects = append(objects, f.Location)
			}
		}
		if err := objstore.DeleteAll(ctx, objects); err != nil {
			return err
		}
		emptied := map[string]bool{}
		for _, f := range batch {
			if c.proof.needs(f) {
				continue
			}
			c.report.Files[f.class].add(f.Entry.Size)
			if f.class == Sidecars || f.class == IndexFiles {
				dir, _, _ := strings.Cut(f.path, "/")
				emptied[dir+"/"+stem(f.path)] = true
			}
		}
		batch = batch[:0]
		return c.removeEmpty(ctx, emptied)
	}
	err := c.proof.walk(ctx, c.dirs(), func(f found) error {
		if !c.mayGo(f) {
			return nil
		}
		if batch = append(batch, f); len(batch) < fileBatch {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

// removeEmpty removes folders of sidecars and indexes that hold nothing any more,
// where there are folders. Nobody writes to them: they are named after what is gone.
func (c *cleaner) removeEmpty(ctx context.Context, folders map[string]bool) error {
	for name := range folders {
		folder := c.proof.root.Join(name)
		empty := true
		for _, err := range folder.List(ctx) {
			if err != nil {
				return err
			}
			empty = false
			break
		}
		if !empty {
			continue
		}
		if err := objstore.RemoveFolder(ctx, folder); err != nil && fault.KindOf(err) != fault.Unsupported {
			return err
		}
	}
	return nil
}

// refresh learns what was published since the last look.
func (c *cleaner) refresh(ctx context.Context) error {
	for range proofRounds {
		now, err := c.proof.look(ctx)
		if err != nil {
			return err
		}
		if _, err = c.proof.round(ctx, now); err == nil {
			c.scene = now
			return nil
		}
		if !errors.Is(err, errMoved) {
			return err
		}
	}
	return fault.New(fault.Conflict, "maintain: others remove versions of %s at the same time", c.proof.table.Name())
}

// removeLeases removes the tags of leases that have expired.
func (c *cleaner) removeLeases(ctx context.Context) error {
	if len(c.proof.leases(c.scene)) == 0 {
		return nil
	}
	tags, err := c.proof.table.Tags(ctx) // one may have been renewed
	if err != nil {
		return err
	}
	for _, t := range c.proof.leases(scene{tags: tags}) {
		path, err := manifest.TagPath(t.Name)
		if err != nil {
			return err
		}
		if err := c.proof.table.Root().Join(path).Delete(ctx); err != nil {
			return err
		}
		c.report.Files[Leases].add(0)
	}
	return nil
}

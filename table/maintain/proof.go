package maintain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// proof is what a cleanup knows about the files of one line. It only ever learns:
// what is kept once stays kept, whatever later looks show.
type proof struct {
	table  *table.Table
	policy Policy
	root   objstore.Location

	kept, expired names
	live, dead    *liveness

	committed map[manifestKey]time.Time // of manifests that were read
	stays     map[manifestKey]bool      // whose references are in kept
	goes      map[manifestKey]bool      // whose references are in expired
	used      map[string]bool           // branches that need files of this line
	// plain are versions that stay and do not have managed blobs by their flags.
	plain []pending
	// final lets every version stay that is listed: those that go are gone.
	final bool
}

// manifestKey tells a manifest from all others, also from one that took its name.
type manifestKey struct {
	branch   string
	name     string
	size     int64
	modified int64
}

func keyOf(branch string, l table.Listed) manifestKey {
	return manifestKey{branch, l.Name, l.Size, l.Modified.UnixNano()}
}

// pending is a version that is to be opened again.
type pending struct {
	history *table.History
	listed  table.Listed
}

// scene is what listings showed at one moment.
type scene struct {
	line  *table.History
	tags  []table.Tag
	forks []table.Fork
}

// verdict is what a round found out.
type verdict struct {
	scene  scene
	goes   []table.Listed // oldest first
	spared []Spared
}

func newProof(t *table.Table, policy Policy) *proof {
	live := newLiveness(nil)
	return &proof{
		table: t, policy: policy, kept: newNames(), expired: newNames(), live: live, dead: newLiveness(live),
		committed: map[manifestKey]time.Time{}, stays: map[manifestKey]bool{}, goes: map[manifestKey]bool{},
		used: map[string]bool{},
	}
}

// look lists versions, tags and branches.
func (p *proof) look(ctx context.Context) (s scene, err error) {
	// Tags and branches first: what is made of a version after they were listed
	// sees that the version is gone, or is seen before its files go.
	if s.tags, err = p.table.Tags(ctx); err != nil {
		return s, err
	}
	if s.forks, err = p.table.Forks(ctx, p.policy.Branch); err != nil {
		return s, err
	}
	if s.line, err = p.table.History(ctx, p.policy.Branch); err != nil {
		return s, err
	}
	p.root = s.line.Root()
	if len(s.line.Versions) == 0 {
		return s, fault.New(fault.NotFound, "maintain: %s has no versions", p.table.Name())
	}
	return s, nil
}

// same says that nothing changed between two looks that a proof depends on.
func (s scene) same(t scene) bool {
	return slices.Equal(s.line.Versions, t.line.Versions) && slices.Equal(s.line.Detached, t.line.Detached) &&
		slices.Equal(s.forks, t.forks) &&
		slices.EqualFunc(s.tags, t.tags, func(a, b table.Tag) bool {
			until, _ := a.LeasedUntil()
			later, _ := b.LeasedUntil()
			return a.Name == b.Name && a.Branch == b.Branch && a.Version == b.Version && until.Equal(later)
		})
}

// Rounds of a proof: others may publish meanwhile, and only what is new has to be
// read again.
const proofRounds = 20

// prove finds out which versions go, on listings that did not change while it
// did.
func (p *proof) prove(ctx context.Context) (verdict, error) {
	now, err := p.look(ctx)
	if err != nil {
		return verdict{}, err
	}
	for range proofRounds {
		v, err := p.round(ctx, now)
		if err != nil && !errors.Is(err, errMoved) {
			return verdict{}, err
		}
		before := now
		if now, err = p.look(ctx); err != nil {
			return verdict{}, err
		}
		if v.scene.line != nil && now.same(before) {
			return v, nil
		}
	}
	return verdict{}, fault.New(fault.Conflict, "maintain: versions, tags or branches of %s changed in each of %d looks; clean it up when fewer write to it",
		p.table.Name(), proofRounds)
}

// errMoved says that a version was removed between listing and reading.
var errMoved = errors.New("a version was removed meanwhile")

// round judges every version that a look showed and learns what it refers to.
func (p *proof) round(ctx context.Context, s scene) (verdict, error) {
	forced := p.references(s)
	if err := p.forks(ctx, s, forced); err != nil {
		return verdict{}, err
	}
	v := verdict{scene: s}
	err := p.each(ctx, s.line, s.line.Versions, func(l table.Listed, open *table.Snapshot) error {
		key := keyOf(p.policy.Branch, l)
		if !p.removable(s, l, p.committed[key]) {
			return p.keep(ctx, s.line, l, open)
		}
		if why := forced[l.Version]; why != "" {
			v.spared = append(v.spared, Spared{l.Version, why})
			return p.keep(ctx, s.line, l, open)
		}
		if p.stays[key] { // by an earlier look
			return nil
		}
		v.goes = append(v.goes, l)
		return p.expire(ctx, key, open)
	})
	if err != nil {
		return verdict{}, err
	}
	// Detached versions are no part of the history and are kept until somebody
	// removes their manifests.
	err = p.each(ctx, s.line, s.line.Detached, func(l table.Listed, open *table.Snapshot) error {
		return p.keep(ctx, s.line, l, open)
	})
	if err != nil {
		return verdict{}, err
	}
	if len(p.plain) == 0 || p.final {
		return v, nil
	}
	some, err := p.candidates(ctx)
	if err == nil && some {
		err = p.keepPlain(ctx)
	}
	return v, err
}

// references says why tags and leases keep versions of the line (GC-3, GC-4).
func (p *proof) references(s scene) map[uint64]string {
	why := map[uint64]string{}
	for _, t := range s.tags {
		if t.Branch != p.policy.Branch || t.Expired(p.policy.Now) || why[t.Version] != "" {
			continue
		}
		why[t.Version] = fmt.Sprintf("tag %q", t.Name)
		if until, ok := t.LeasedUntil(); ok {
			why[t.Version] = "a lease until " + until.UTC().Format(time.RFC3339)
		}
	}
	return why
}

// removable says that the policy matches a version, and that it is not the newest.
func (p *proof) removable(s scene, l table.Listed, committed time.Time) bool {
	all := s.line.Versions
	newest := all[len(all)-1].Version
	if p.policy.newest > 0 {
		newest = min(newest, p.policy.newest)
	}
	if p.final || l.Version >= newest {
		return false
	}
	from := uint64(0)
	if n := p.policy.RetainVersions; n > 0 && n < uint64(len(all)) {
		from = all[uint64(len(all))-n].Version
	}
	return p.policy.matches(l.Version, from, committed)
}

// forks reads the branches that descend from the line. What they need of it is
// kept, whether or not the version that they left it at is there (GC-12); that
// version stays if they need anything (sheet section 7.1). All of them are read,
// since rows of a branch may refer to managed objects that the line got later.
func (p *proof) forks(ctx context.Context, s scene, forced map[uint64]string) error {
	for _, f := range s.forks {
		h, err := p.table.History(ctx, f.Branch)
		if fault.KindOf(err) == fault.NotFound {
			return errMoved
		}
		if err != nil {
			return err
		}
		err = p.each(ctx, h, slices.Concat(h.Versions, h.Detached), func(l table.Listed, open *table.Snapshot) error {
			return p.keep(ctx, h, l, open)
		})
		if err != nil {
			return fmt.Errorf("branch %q: %w", f.Branch, err)
		}
		if p.used[f.Branch] && forced[f.Version] == "" {
			forced[f.Version] = fmt.Sprintf("branch %q", f.Branch)
		}
	}
	return nil
}

// Bounds of the manifests that are read ahead.
const (
	readAhead      = 8
	readAheadBytes = 16 << 20
)

// each shows versions in order, opening those whose references are not known yet,
// a few at a time; the others come without a snapshot. Every manifest must be
// understood, those of versions that go too (GC-11): what it says decides whether
// its version goes.
func (p *proof) each(ctx context.Context, h *table.History, list []table.Listed, visit func(table.Listed, *table.Snapshot) error) error {
	for len(list) > 0 {
		n, bytes := 0, int64(0)
		for n < len(list) && n < readAhead && (n == 0 || bytes+list[n].Size <= readAheadBytes) {
			bytes += list[n].Size
			n++
		}
		opened := make([]*table.Snapshot, n)
		group, reading := errgroup.WithContext(ctx)
		for i, l := range list[:n] {
			if p.knows(keyOf(h.Branch(), l)) {
				continue
			}
			group.Go(func() (err error) {
				defer fault.Recover("maintain", &err)
				opened[i], err = open(reading, h, l)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		for i, l := range list[:n] {
			if opened[i] != nil {
				p.committed[keyOf(h.Branch(), l)] = opened[i].Manifest().Timestamp
			}
			if err := visit(l, opened[i]); err != nil {
				return fmt.Errorf("version %d: %w", l.Version, err)
			}
		}
		list = list[n:]
	}
	return nil
}

func (p *proof) knows(key manifestKey) bool { return p.stays[key] || p.goes[key] }

// open reads a version and refuses one with features that are not known: they
// might name files that are not looked for here.
func open(ctx context.Context, h *table.History, l table.Listed) (*table.Snapshot, error) {
	s, err := h.Open(ctx, l)
	if fault.KindOf(err) == fault.NotFound {
		return nil, errMoved
	}
	if err == nil {
		err = s.Manifest().CheckWritable()
	}
	if err != nil {
		return nil, fmt.Errorf("version %d: %w", l.Version, err)
	}
	return s, nil
}

// keep learns what a version that stays refers to.
func (p *proof) keep(ctx context.Context, h *table.History, l table.Listed, s *table.Snapshot) error {
	key := keyOf(h.Branch(), l)
	if p.stays[key] {
		return nil
	}
	if s == nil { // it was to go by an earlier look
		var err error
		if s, err = open(ctx, h, l); err != nil {
			return err
		}
	}
	inside, err := p.kept.addKept(ctx, s, p.root)
	if err != nil {
		return err
	}
	p.used[h.Branch()] = p.used[h.Branch()] || inside
	if s.Manifest().ManagedBlobs() {
		if err := p.live.keep(ctx, s, &p.kept); err != nil {
			return err
		}
	} else if len(columnsOf(s)) > 0 {
		p.plain = append(p.plain, pending{h, l})
	}
	p.stays[key] = true
	return nil
}

// expire learns what a version that goes refers to.
func (p *proof) expire(ctx context.Context, key manifestKey, s *table.Snapshot) error {
	if p.goes[key] || s == nil {
		return nil
	}
	p.expired.addExpired(ctx, s, p.root)
	if s.Manifest().ManagedBlobs() {
		if err := p.dead.expire(ctx, s, &p.expired); err != nil {
			return err
		}
	}
	p.goes[key] = true
	return nil
}

// candidates says whether there are blob objects that may go, by what is known so
// far.
func (p *proof) candidates(ctx context.Context) (bool, error) {
	err := p.walk(ctx, []string{blobsDir, manifest.DataDir}, func(f found) error {
		if f.holdsValues() && p.mayGo(f) {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return true, nil
	}
	return false, err
}

// keepPlain learns what versions without the flag of managed blobs refer to. They
// should not hold managed values, but where they do these are read (DESC-8). It is
// needed only before blob objects go.
func (p *proof) keepPlain(ctx context.Context) error {
	for _, w := range p.plain {
		s, err := open(ctx, w.history, w.listed)
		if err == nil {
			err = p.live.keep(ctx, s, &p.kept)
		}
		if err != nil {
			return fmt.Errorf("version %d: %w", w.listed.Version, err)
		}
	}
	p.plain = nil
	return nil
}

// errEnough ends a walk.
var errEnough = errors.New("enough was seen")

// leases are the tags of leases that have expired.
func (p *proof) leases(s scene) []table.Tag {
	return slices.DeleteFunc(slices.Clone(s.tags), func(t table.Tag) bool { return !t.Expired(p.policy.Now) })
}

package table

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table/manifest"
)

// Commit publishes a change as the next version of a branch ("" = main) and
// answers that version. Everything that the change names must be durable.
//
// The change was computed on tx.ReadVersion. Versions that others published
// since are judged against it (table-format sheet section 4.4): where they
// commute it is built anew on the newest version, as often as it takes; where
// they do not, nothing is published and the error is fault.Conflict and says
// what the change lost to. Publication is create-if-absent: of several
// committers of one version, in whatever process, exactly one wins.
//
// After an error the table is as it was, with one exception that says so in its
// text: a store that neither confirms nor denies. An error that comes with a
// version is that of OnCreate: the table was created, and then that failed.
func (t *Table) Commit(ctx context.Context, branch string, tx *manifest.Transaction, o CommitOptions) (*Snapshot, error) {
	snapshot, err := t.commit(ctx, branch, tx, o)
	if err == nil && creates(tx) && t.created != nil {
		err = t.created(ctx)
	}
	if err == nil && t.env.committed != nil {
		t.env.committed(ctx, snapshot)
	}
	return snapshot, err
}

func (t *Table) commit(ctx context.Context, branch string, tx *manifest.Transaction, o CommitOptions) (*Snapshot, error) {
	if branch == manifest.MainBranch {
		branch = ""
	}
	root, err := t.line(ctx, branch)
	if err != nil {
		return nil, err
	}
	return t.commitTo(ctx, root, branch, tx, o)
}

// creates says that a change makes the first version of a table or branch; that
// of a clone names the version of its source as the one that it read.
func creates(tx *manifest.Transaction) bool {
	return tx.ReadVersion == 0 || tx.Op.Kind() == manifest.KindClone
}

// commitTo publishes in the folder of a branch, which may be about to be made.
func (t *Table) commitTo(ctx context.Context, root objstore.Location, branch string, tx *manifest.Transaction, o CommitOptions) (*Snapshot, error) {
	leave, err := t.env.queues.enter(ctx, root.String())
	if err != nil {
		return nil, err
	}
	defer leave()
	c := &committer{table: t, root: root, branch: branch, tx: tx, trial: manifest.NewTrial(tx), options: o, judged: tx.ReadVersion}
	for attempt := 0; ; attempt++ {
		snapshot, err := c.attempt(ctx)
		if err == nil || !errors.Is(err, errLost) {
			return snapshot, err
		}
		if err := pause(ctx, attempt); err != nil {
			return nil, fmt.Errorf("table: commit to %s, after losing %d races: %w", t.name, attempt+1, err)
		}
	}
}

// CommitOptions is what a commit needs to know beside its transaction. The zero
// value fits most.
type CommitOptions struct {
	// Format is the data format of a table that is created or overwritten; if
	// empty, that of its files or of the version before.
	Format string
	// StableRowIDs turns them on, at creation only.
	StableRowIDs bool
	// Only publishes the change right after tx.ReadVersion or not at all: any
	// version in between is fault.Conflict, whether or not the two commute.
	Only bool
	// Against is asked about each version since; an error says why that version is
	// fault.Conflict although the two would commute.
	Against func(theirs manifest.Operation) error
	// Source is the version that a Restore goes back to or a Clone is made of.
	Source *Snapshot
	// Copied is what a deep clone has in the place of its source's files.
	Copied *manifest.Copied
	// Rebase builds the change anew on a newer version to which it cannot be
	// applied as it is: it answers the transaction to publish in its place,
	// with the same UUID and ReadVersion set to the newest, or fault.Conflict.
	// A verdict that is Rebase has in Rows the fragments of which any version
	// since removed rows too. Without it such a change is a conflict.
	Rebase func(ctx context.Context, newest *Snapshot, verdict manifest.Verdict) (*manifest.Transaction, error)
}

// errLost says that another committer took the version.
var errLost = errors.New("another commit took the version")

// publishedError says that the change is a version already.
type publishedError struct{ version uint64 }

func (p publishedError) Error() string { return fmt.Sprintf("it is version %d", p.version) }

// committer is one change on its way.
type committer struct {
	table   *Table
	root    objstore.Location
	branch  string
	tx      *manifest.Transaction
	options CommitOptions
	trial   *manifest.Trial
	judged  uint64 // the newest version that the change was judged against
	stored  string // name of the transaction file that was written
}

// attempt builds the change on the newest version and tries to publish it.
func (c *committer) attempt(ctx context.Context) (*Snapshot, error) {
	newest, scheme, err := c.newest(ctx)
	if err != nil {
		return nil, err
	}
	var base *manifest.Manifest
	if newest != nil {
		base = newest.Manifest()
		if err := base.CheckWritable(); err != nil {
			return nil, fmt.Errorf("table: %s: %w", c.table.name, err)
		}
		var done publishedError
		if err := c.judge(ctx, newest); errors.As(err, &done) {
			return c.table.At(ctx, Ref{Branch: c.branch, Version: done.version})
		} else if err != nil {
			return nil, err
		}
	}
	next, err := manifest.Apply(base, c.tx, c.applying())
	if err != nil {
		return nil, fmt.Errorf("table: %s: %w", c.table.name, err)
	}
	if err := c.publish(ctx, next, scheme); err != nil {
		return nil, err
	}
	if newest != nil && c.dropped(ctx, newest, next, scheme) {
		_ = c.root.Join(manifest.Path(next.Version, scheme)).Delete(context.WithoutCancel(ctx))
		c.forget(ctx)
		return nil, fault.New(fault.NotFound, "table: %s was dropped while it was written", c.table.name)
	}
	if newest == nil {
		if err := c.alone(ctx, next.Version, scheme); err != nil {
			return nil, err
		}
	}
	l, err := newLoaded(next, c.branch, next.Version)
	if err != nil {
		return nil, err
	}
	l.access = c.table.env.accessOf(next)
	return newSnapshot(c.table, c.root, c.branch, l)
}

func (c *committer) applying() manifest.ApplyOptions {
	o := manifest.ApplyOptions{
		Now: c.table.env.now(), Writer: c.table.env.writer,
		Format: c.options.Format, StableRowIDs: c.options.StableRowIDs, Copied: c.options.Copied,
	}
	if c.options.Source != nil {
		o.Source = c.options.Source.Manifest()
	}
	return o
}

// newest is the newest version, nil before the first, and how manifests are
// named here.
func (c *committer) newest(ctx context.Context) (*Snapshot, manifest.Scheme, error) {
	for attempt := 0; ; attempt++ {
		all, err := listVersions(ctx, c.root, true)
		if err != nil {
			return nil, 0, err
		}
		if len(all) == 0 {
			if !creates(c.tx) {
				return nil, 0, c.table.noVersions(c.branch)
			}
			return nil, manifest.V2, nil
		}
		if creates(c.tx) {
			return nil, 0, fault.New(fault.Exists, "table: %s exists already", c.table.name)
		}
		_, scheme, _ := attached(all[0].entry.Name)
		l, err := c.table.env.load(ctx, c.table, c.root, c.branch, all[0])
		if err != nil {
			if vanished(err) && attempt < 3 {
				continue
			}
			return nil, 0, err
		}
		snapshot, err := newSnapshot(c.table, c.root, c.branch, l)
		return snapshot, scheme, err
	}
}

// judge compares the change with what was committed since it was computed.
func (c *committer) judge(ctx context.Context, newest *Snapshot) error {
	if c.tx.ReadVersion > newest.Version() {
		return fault.New(fault.Invalid, "table: a change of version %d of %s, whose newest version is %d", c.tx.ReadVersion, c.table.name, newest.Version())
	}
	var shared []uint64 // fragments of which others removed rows too
	for version := c.judged + 1; version <= newest.Version(); version++ {
		theirs, err := c.transaction(ctx, version)
		if err != nil {
			return err
		}
		if theirs.UUID == c.tx.UUID { // an attempt whose outcome was unknown came through after all
			return publishedError{version}
		}
		if c.options.Only {
			return fault.New(fault.Conflict, "table: the commit to %s was to follow version %d, but version %d is there", c.table.name, c.tx.ReadVersion, version)
		}
		if c.options.Against != nil {
			if err := c.options.Against(theirs.Op); err != nil {
				return fault.New(fault.Conflict, "table: the commit to %s lost to version %d of it: %w", c.table.name, version, err)
			}
		}
		v := c.trial.Hear(theirs)
		switch {
		case v.Decision == manifest.Rebase:
			shared = append(shared, v.Rows...)
		case v.Decision == manifest.Incompatible || c.options.Rebase == nil:
			return fault.New(fault.Conflict, "table: the commit to %s lost to version %d of it: %s", c.table.name, version, v.Reason)
		default:
			return c.rebase(ctx, newest, v)
		}
	}
	if len(shared) > 0 {
		if c.options.Rebase == nil {
			return fault.New(fault.Conflict, "table: the commit to %s lost to another one that removed rows of fragment %d too", c.table.name, shared[0])
		}
		return c.rebase(ctx, newest, manifest.Verdict{Decision: manifest.Rebase, Rows: shared})
	}
	c.judged = max(c.judged, newest.Version())
	return nil
}

// rebase puts a change in the place of ours that was built on the newest version.
func (c *committer) rebase(ctx context.Context, newest *Snapshot, v manifest.Verdict) error {
	tx, err := c.options.Rebase(ctx, newest, v)
	if err != nil {
		return err
	}
	c.forget(ctx)
	c.tx, c.trial, c.judged = tx, manifest.NewTrial(tx), newest.Version()
	return nil
}

// transaction reads what a version changed: from its manifest, else from the
// file that the manifest names (section 4.3).
func (c *committer) transaction(ctx context.Context, version uint64) (*manifest.Transaction, error) {
	p, err := c.table.version(ctx, c.root, c.branch, version)
	if err != nil {
		return nil, fault.New(fault.Conflict, "table: %s was committed to meanwhile, and version %d is not there to compare with; try again: %w",
			c.table.name, version, err)
	}
	data, err := objstore.ReadAll(ctx, c.root.Join(manifest.VersionsDir, p.entry.Name), maxManifestBytes)
	if err != nil {
		return nil, fmt.Errorf("table: read version %d of %s: %w", version, c.table.name, err)
	}
	tx, err := manifest.InlineTransaction(data)
	if err == nil && tx == nil {
		tx, err = c.transactionFile(ctx, data)
	}
	if err != nil {
		return nil, fault.New(fault.Conflict, "table: %s was committed to meanwhile, and what version %d changed cannot be read; try again: %w",
			c.table.name, version, err)
	}
	return tx, nil
}

func (c *committer) transactionFile(ctx context.Context, data []byte) (*manifest.Transaction, error) {
	m, err := manifest.Decode(data)
	if err != nil {
		return nil, err
	}
	if m.TransactionID == "" || strings.Contains(m.TransactionID, "/") {
		return nil, fault.New(fault.NotFound, "it names no transaction")
	}
	body, err := objstore.ReadAll(ctx, c.root.Join(manifest.TransactionsDir, m.TransactionID), maxManifestBytes)
	if err != nil {
		return nil, err
	}
	return manifest.DecodeTransaction(body)
}

// publish stores the transaction and then the manifest, errLost if another one
// has the version. The hint of the latest version is not written: where it
// could be of use readers must check and probe it, and it may be stale or absent
// (section 1.2).
func (c *committer) publish(ctx context.Context, next *manifest.Manifest, scheme manifest.Scheme) error {
	tx, err := c.tx.Encode()
	if err != nil {
		return fmt.Errorf("table: commit to %s: %w", c.table.name, err)
	}
	next.TransactionID = c.tx.FileName()
	if c.stored != next.TransactionID {
		if err := c.root.Join(manifest.TransactionsDir, next.TransactionID).Put(ctx, tx); err != nil {
			return fmt.Errorf("table: commit to %s: store the transaction: %w", c.table.name, err)
		}
		c.stored = next.TransactionID
	}
	data, err := next.Encode(tx)
	if err != nil {
		return fmt.Errorf("table: commit to %s: %w", c.table.name, err)
	}
	loc := c.root.Join(manifest.Path(next.Version, scheme))
	err = loc.PutIfAbsent(ctx, data)
	if err == nil {
		return nil
	}
	if fault.KindOf(err) != fault.Exists && !errors.Is(err, objstore.ErrUncertain) && ctx.Err() == nil {
		c.forget(ctx)
		return fmt.Errorf("table: commit to %s: publish version %d: %w", c.table.name, next.Version, err)
	}
	return c.settle(ctx, loc, err)
}

// dropped tells, after a version was published, whether the table was dropped
// while it was on its way, so that it is one without files: the version before is
// gone, none follows, and a file of its rows is gone too. A cleanup may take the
// version before, but no files of the newest. Versions that were published before
// the end of Drop are found there.
func (c *committer) dropped(ctx context.Context, before *Snapshot, next *manifest.Manifest, scheme manifest.Scheme) bool {
	gone := func(elements ...string) bool {
		_, err := c.root.Join(elements...).Size(context.WithoutCancel(ctx))
		return fault.KindOf(err) == fault.NotFound
	}
	if !gone(manifest.Path(before.Version(), scheme)) || !gone(manifest.Path(next.Version+1, scheme)) {
		return false
	}
	n := len(next.Fragments)
	if n == 0 {
		return false
	}
	for _, f := range []manifest.Fragment{next.Fragments[0], next.Fragments[n-1]} {
		for _, d := range f.Files {
			if d.BaseID == nil && gone(manifest.DataDir, d.Path) {
				return true
			}
		}
	}
	return false
}

// alone makes sure, after the first version of a table was published, that nobody
// else published a first version of another number meanwhile: clones begin at the
// version of their source, so that no name is taken twice. Whoever sees the other
// takes its own back, so that at most one of them stays. Where the versions cannot
// be listed nothing is done about it.
func (c *committer) alone(ctx context.Context, version uint64, scheme manifest.Scheme) error {
	ctx = context.WithoutCancel(ctx)
	all, err := listVersions(ctx, c.root, false)
	if err != nil {
		return nil //nolint:nilerr // ours is published, and another one is improbable
	}
	for _, p := range all {
		if p.version > version {
			theirs, err := c.transaction(ctx, p.version)
			if err != nil || !creates(theirs) {
				continue // a commit on top of ours
			}
		}
		if p.version != version {
			_ = c.root.Join(manifest.Path(version, scheme)).Delete(ctx)
			c.forget(ctx)
			return fault.New(fault.Exists, "table: %s was created by another commit at the same time, with version %d", c.table.name, p.version)
		}
	}
	return nil
}

// settleTimeout bounds how long the outcome of a publication is asked for after
// the caller has gone.
const settleTimeout = 30 * time.Second

// settle finds out who published a version: an answer may have been lost on its
// way, and a first try that was repeated below may have been ours.
func (c *committer) settle(ctx context.Context, loc objstore.Location, cause error) error {
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	data, err := objstore.ReadAll(asking, loc, maxManifestBytes)
	if err == nil {
		var theirs *manifest.Transaction
		if theirs, err = manifest.InlineTransaction(data); err == nil && theirs == nil {
			theirs, err = c.transactionFile(asking, data)
		}
		if err == nil && theirs.UUID == c.tx.UUID {
			return nil
		}
		if ctx.Err() != nil {
			return c.giveUp(asking, ctx.Err())
		}
		return errLost
	}
	if fault.KindOf(err) != fault.NotFound {
		if !errors.Is(cause, objstore.ErrUncertain) { // whoever stored what the version names must keep it
			cause = objstore.Uncertain(loc.String(), cause)
		}
		return fault.New(fault.Unavailable, "table: it is unknown whether the commit to %s happened; look whether its newest version has transaction %s: %w",
			c.table.name, c.tx.UUID, errors.Join(cause, err))
	}
	if ctx.Err() != nil {
		if errors.Is(cause, objstore.ErrUncertain) { // it may still arrive
			return fmt.Errorf("table: commit to %s: %w: %w", c.table.name, ctx.Err(), cause)
		}
		return c.giveUp(asking, ctx.Err())
	}
	return errLost // it is not there: once more
}

func (c *committer) giveUp(ctx context.Context, cause error) error {
	c.forget(ctx)
	return fmt.Errorf("table: commit to %s: %w", c.table.name, cause)
}

// forget removes the transaction file of an attempt that is over. One that
// stays does no harm; cleanup removes it.
func (c *committer) forget(ctx context.Context) {
	if c.stored == "" {
		return
	}
	_ = c.root.Join(manifest.TransactionsDir, c.stored).Delete(context.WithoutCancel(ctx))
	c.stored = ""
}

// Pauses between attempts, so that committers in several processes do not keep
// step.
const (
	firstPause = 5 * time.Millisecond
	mostPause  = 500 * time.Millisecond
)

func pause(ctx context.Context, attempt int) error {
	limit := min(firstPause<<min(attempt, 10), mostPause)
	timer := time.NewTimer(rand.N(limit)) //nolint:gosec // not a secret
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

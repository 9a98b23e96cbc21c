package blob

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/manifest"
)

// OutOfLine is the part of a data file writer that takes inline payloads
// (PCK-8).
type OutOfLine interface {
	// NextOutOfLine is the offset in the file at which the next payload would
	// start, a multiple of 64.
	NextOutOfLine() uint64
	// AppendOutOfLine writes a payload and gives its offset. The data is not
	// kept.
	AppendOutOfLine(ctx context.Context, data []byte) (uint64, error)
}

// Placer stores the payloads of one data file: inline ones in the file itself,
// others in sidecars or managed objects beside it, and says where by
// descriptors. Sidecar ids and packs start anew with each Placer (PCK-9). One
// pack is open at a time, shared by all columns (PCK-1).
//
// It is used by one goroutine, and ends by exactly one of Commit and Abort;
// after a Commit, Abort takes back what was stored. Objects are made durable in
// the background; none can be seen by readers before a manifest names it.
type Placer struct {
	ctx    context.Context // of everything that the Placer writes
	cancel context.CancelFunc
	policy Policy
	owner  *Owner
	file   OutOfLine
	bases  []manifest.Base // candidates for references, by id (EXT-2)
	ids    []uint32        // of all bases, ascending
	limits map[*schema.Field]schema.Thresholds

	objects objects
	pack    *pack
	lastID  uint32 // of sidecars
	failed  error
}

// NewPlacer makes a Placer for the data file owner, to which file appends. ctx
// governs what it writes, over all calls of Place until Commit.
func NewPlacer(ctx context.Context, policy Policy, owner *Owner, file OutOfLine) (*Placer, error) {
	if err := policy.check(); err != nil {
		return nil, err
	}
	if !equalIDs(policy.TargetBase, owner.BaseID) {
		return nil, fault.New(fault.Internal, "blob: a data file is placed into another base than its payloads")
	}
	p := &Placer{policy: policy, owner: owner, file: file, limits: map[*schema.Field]schema.Thresholds{}}
	for id, base := range policy.Bases {
		p.ids = append(p.ids, id)
		// A base whose path names no place holds no object either.
		if _, err := baseURI(base); err == nil && !base.IsDatasetRoot {
			p.bases = append(p.bases, base)
		}
	}
	slices.Sort(p.ids)
	slices.SortFunc(p.bases, func(a, b manifest.Base) int { return int(int64(a.ID) - int64(b.ID)) })
	p.ctx, p.cancel = context.WithCancel(ctx)
	p.objects.init(policy.Copies)
	return p, nil
}

// Place stores the values of a batch and gives the batch with descriptors in
// their place, ready for the data file. Values are stored in the order of rows
// within a column, columns in order of the schema (PCK-4). Before anything is
// stored, every URI and every stored value of the batch is judged (IN-13), and
// the lengths of objects that are copied whole are known: a batch that is
// refused until then leaves the Placer as it was. After a later error, only
// Abort is left. The caller releases the result.
//
// Errors about a value are *InputErrors.
func (p *Placer) Place(ctx context.Context, mem memory.Allocator, in *Inputs) (arrow.RecordBatch, error) {
	if p.failed != nil {
		return nil, p.failed
	}
	plans, err := p.plans(ctx, in)
	if err != nil {
		return nil, err
	}
	out, err := p.place(ctx, mem, in, plans)
	if err != nil {
		p.failed = err
	}
	return out, err
}

// plans judges the whole batch.
func (p *Placer) plans(ctx context.Context, in *Inputs) ([]leafPlan, error) {
	plans := make([]leafPlan, len(in.leaves))
	for i, l := range in.leaves {
		if _, err := p.thresholds(l.field); err != nil {
			return nil, err
		}
		var err error
		if plans[i], err = p.plan(ctx, in, l); err != nil {
			return nil, err
		}
	}
	return plans, p.sizes(ctx, in, plans)
}

// place stores the values of a batch that was judged.
func (p *Placer) place(ctx context.Context, mem memory.Allocator, in *Inputs, plans []leafPlan) (arrow.RecordBatch, error) {
	ahead := p.readAhead(ctx, plans)
	defer ahead.close()
	columns := make([]arrow.Array, 0, len(plans))
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, l := range in.leaves {
		descriptors, err := p.store(ctx, mem, l, plans[i], ahead)
		if err != nil {
			return nil, err
		}
		columns = append(columns, descriptors)
	}
	return in.withDescriptors(mem, columns)
}

// thresholds are those of a column with the limit of this write.
func (p *Placer) thresholds(f *schema.Field) (schema.Thresholds, error) {
	if t, ok := p.limits[f]; ok {
		return t, nil
	}
	t, err := f.Thresholds()
	if err != nil {
		return t, err
	}
	if p.policy.PackLimit > 0 {
		t.Pack = p.policy.PackLimit
	}
	p.limits[f] = t
	return t, nil
}

// Commit returns when all payloads outside of the data file are durable
// (WRT-9).
func (p *Placer) Commit(ctx context.Context) error {
	if p.failed == nil {
		p.failed = ctx.Err()
	}
	if p.failed != nil {
		return p.failed
	}
	p.closePack()
	err := p.objects.wait()
	p.cancel()
	p.failed = err
	if err == nil {
		p.failed = fault.New(fault.Internal, "blob: a placer is used after its commit")
	}
	return err
}

// Abort removes all objects that the Placer made. It does so even if ctx has
// ended, for a limited time; what it cannot remove is left to cleanup.
func (p *Placer) Abort(ctx context.Context) {
	if p.failed == nil {
		p.failed = fault.New(fault.Internal, "blob: a placer is used after it was aborted")
	}
	p.cancel()
	if p.pack != nil {
		p.pack.w.Abort()
		p.pack = nil
	}
	p.objects.remove(ctx)
}

// leafPlan is what happens to the elements of a leaf.
type leafPlan struct {
	steps   []step
	details []detail
}

// step is what happens to one element.
type step struct {
	do action
	at int32 // in details, for doKeep and doCopy
}

// detail is what a step that does not store bytes of the batch needs.
type detail struct {
	d      Descriptor // doKeep
	from   Extent     // doCopy
	inline bool       // doCopy: into the data file whatever the size
	ticket int        // doCopy: number in the order of reading, -1 when it is streamed
}

// action is what a step does.
type action uint8

const (
	doNull  action = iota
	doKeep         // record a descriptor
	doStore        // store bytes of the batch
	doCopy         // store bytes of another object
	doPipe         // store bytes of a reader
)

// plan judges the elements of a leaf; it stores and reads nothing.
func (p *Placer) plan(ctx context.Context, in *Inputs, l *inputLeaf) (leafPlan, error) {
	plan := leafPlan{steps: make([]step, l.n)}
	for i := range plan.steps {
		if l.isNull(i) {
			continue
		}
		if i%1024 == 0 && ctx.Err() != nil {
			return plan, ctx.Err()
		}
		v, err := l.at(i)
		if err != nil {
			return plan, l.fail(i, "NUL-4", err)
		}
		do, detail, rule, err := p.planValue(ctx, in, v)
		if err != nil {
			return plan, l.fail(i, rule, err)
		}
		plan.steps[i] = step{do: do, at: int32(len(plan.details))}
		if do == doKeep || do == doCopy {
			plan.details = append(plan.details, detail)
		}
	}
	return plan, nil
}

func (p *Placer) planValue(ctx context.Context, in *Inputs, v inputValue) (do action, d detail, rule string, err error) {
	switch v.form {
	case formStream:
		return doPipe, d, "", nil
	case formURI:
		return p.planURI(ctx, v)
	case formStored:
		o, err := in.origins(v.source)
		if err != nil {
			return doNull, d, "", err
		}
		r, rule, err := p.rewrite(ctx, v.stored, o)
		if r.keep {
			return doKeep, detail{d: r.d}, rule, err
		}
		return doCopy, detail{from: r.from, inline: r.inline}, rule, err
	}
	return doStore, d, "", nil
}

// planURI records or follows a URI.
func (p *Placer) planURI(ctx context.Context, v inputValue) (action, detail, string, error) {
	if p.policy.URIs.Mode == Reference {
		d, rule, err := p.refer(v.uri, v.position, v.size, false)
		return doKeep, detail{d: d}, rule, err
	}
	object, rule, err := p.source(ctx, v.uri)
	return doCopy, detail{from: Extent{Object: object, Offset: v.position, Length: v.size, Whole: !v.ranged}}, rule, err
}

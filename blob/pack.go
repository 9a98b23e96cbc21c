package blob

import (
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
)

// pack is an object that takes one value after the other, end to end, without
// padding.
type pack struct {
	w     objstore.Writer
	d     Descriptor // of a value at its start
	limit uint64     // as it was when the pack was begun
	used  uint64
}

// newObject begins an object for values of one kind, with the descriptor of a
// value at its start: a sidecar with the next id (PCK-5), or a managed object
// (PCK-6).
func (p *Placer) newObject(kind Kind) (objstore.Writer, Descriptor, error) {
	d := Descriptor{Kind: kind}
	var at objstore.Location
	if p.policy.Managed {
		d.Kind, d.URI = Managed, managedPath(p.policy.NewUUID())
		if p.policy.TargetBase != nil {
			d.Kind, d.ID = ManagedBase, *p.policy.TargetBase
		}
		at = p.owner.Base.Join(d.URI)
	} else {
		if p.lastID+1 == 0 {
			return nil, d, fault.New(fault.Exhausted, "blob: a data file has 2^32-1 sidecars; write smaller files")
		}
		p.lastID++
		d.ID = p.lastID
		at = p.owner.Sidecar(d.ID)
	}
	w, err := p.objects.create(p.ctx, at)
	return w, d, err
}

// reserve gives the pack for a value of n bytes: the open one, unless it would
// grow beyond its limit or was begun with another limit (PCK-2). A value larger
// than the limit has a pack of its own (PCK-3).
func (p *Placer) reserve(n uint64, t schema.Thresholds) (*pack, error) {
	if p.pack != nil && (p.pack.limit != t.Pack || n > p.pack.limit || p.pack.used > p.pack.limit-n) {
		p.closePack()
	}
	if p.pack == nil {
		w, d, err := p.newObject(Packed)
		if err != nil {
			return nil, err
		}
		p.pack = &pack{w: w, d: d, limit: t.Pack}
	}
	return p.pack, nil
}

// take gives the descriptor of the next n bytes of the pack.
func (k *pack) take(n uint64) Descriptor {
	d := k.d
	d.Position, d.Size = k.used, n
	k.used += n
	return d
}

// closePack has the open pack made durable.
func (p *Placer) closePack() {
	if p.pack == nil {
		return
	}
	w := p.pack.w
	p.pack = nil
	p.objects.finish(func() error { return w.Commit(p.ctx) })
}

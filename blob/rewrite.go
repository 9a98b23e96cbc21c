package blob

import (
	"context"
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// rewritten is what becomes of a stored value that is written again: a
// descriptor to record as it is, or bytes to store anew.
type rewritten struct {
	keep   bool
	d      Descriptor // with keep
	from   Extent     // without
	inline bool       // the bytes stay in the data file, however many they are
}

// rewrite is the table of RWR's "rewrites per kind", for compaction and for
// rows that a statement copies:
//
//	                    within the table, managed     otherwise
//	Inline              bytes, stay inline            bytes, placed by WRT-1
//	Packed, Dedicated   adopted as Managed            bytes, placed by WRT-1
//	External            kept literally                within the table kept literally; else the same
//	                                                  object and interval, by the bases of this table
//	Managed             kept; with the source's base  bytes, placed by WRT-1
//	                    when the files' bases differ
//	ManagedBase         kept                          bytes, placed by WRT-1
//
// A payload is read for bytes only. The error's rule is empty where none has a
// number.
func (p *Placer) rewrite(ctx context.Context, d Descriptor, o Origin) (rewritten, string, error) {
	if err := o.Resolver.Check(d); err != nil {
		return rewritten{}, "", err
	}
	if d.Kind == External {
		return p.rewriteExternal(d, o)
	}
	if d.Size == 0 { // empty, whatever the kind: no object is needed for it
		return rewritten{from: Extent{Owned: true}, inline: true}, "", nil
	}
	if o.Owner == nil && d.Kind != ManagedBase {
		return rewritten{}, "", fault.New(fault.Internal, "kind %d (%s) without an owning data file", uint8(d.Kind), d.Kind)
	}
	if d.Kind != Inline && p.policy.Managed && o.Same {
		d, rule, err := p.adopt(d, o)
		return rewritten{keep: true, d: d}, rule, err
	}
	from, err := o.Resolver.Resolve(ctx, d, o.Owner)
	return rewritten{from: from, inline: d.Kind == Inline && p.policy.Managed && o.Same}, "", err
}

func (p *Placer) rewriteExternal(d Descriptor, o Origin) (rewritten, string, error) {
	if o.Same {
		d.URI = strings.Clone(d.URI)
		return rewritten{keep: true, d: d}, "", nil
	}
	uri, err := o.Resolver.ExternalURI(d)
	if err != nil {
		return rewritten{}, "", err
	}
	d, rule, err := p.refer(uri, d.Position, d.Size, true)
	return rewritten{keep: true, d: d}, rule, err
}

// adopt refers to an object of the table from another data file (RWR-3).
func (p *Placer) adopt(d Descriptor, o Origin) (Descriptor, string, error) {
	if d.Kind == ManagedBase {
		d.URI = strings.Clone(d.URI)
		return d, "", nil
	}
	out := Descriptor{Kind: Managed, Position: d.Position, Size: d.Size, URI: strings.Clone(d.URI)}
	if d.Kind == Packed || d.Kind == Dedicated {
		object := o.Owner.Sidecar(d.ID)
		path, ok := relative(object, o.Owner.Base)
		if !ok {
			return out, "", fault.New(fault.Internal, "sidecar %s does not lie in the base of its data file, %s", object, o.Owner.Base)
		}
		out.URI = path
		if d.Kind == Dedicated { // the position is ignored when such values are read, DIFF-9
			out.Position = 0
		}
		if err := checkManagedPath(path); err != nil {
			return out, "", err
		}
	}
	if equalIDs(o.Owner.BaseID, p.policy.TargetBase) {
		return out, "", nil
	}
	out.Kind = ManagedBase
	if o.Owner.BaseID != nil {
		out.ID = *o.Owner.BaseID
		return out, "", nil
	}
	root := o.Owner.Base.AbsoluteURI()
	for _, id := range p.ids {
		if base := p.policy.Bases[id]; sameFolder(root, base.Path) {
			out.ID = base.ID
			return out, "", nil
		}
	}
	return out, "RWR-5", fault.New(fault.Precondition, "the value lies in the table's own folder and is referenced from a file in base %d; "+
		"register a base for the table's folder first", *p.policy.TargetBase)
}

// relative is the path of an object below a folder.
func relative(object, folder objstore.Location) (string, bool) {
	prefix := folder.Path
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	path, ok := strings.CutPrefix(object.Path, prefix)
	return path, ok && object.Store == folder.Store
}

func equalIDs(a, b *uint32) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

package blob

import (
	"context"
	"strings"

	"github.com/flightblob/flightblob/objstore"
)

// Cursor resolves the values of one column and owner one after another. Runs of
// values in one object, as packs and archives have them, find it only once. It
// is for one goroutine.
type Cursor struct {
	resolver *Resolver
	owner    *Owner
	last     Descriptor // kind, id and URI of object
	object   objstore.Location
	valid    bool
}

// Cursor starts resolving values of an owner, as Resolve takes it.
func (r *Resolver) Cursor(o *Owner) Cursor { return Cursor{resolver: r, owner: o} }

// Resolve is Resolver.Resolve for the cursor's owner.
func (c *Cursor) Resolve(ctx context.Context, d Descriptor) (Extent, error) {
	e, err := c.resolver.interval(d, c.owner)
	if err != nil || e.Length == 0 && !e.Whole {
		return e, err
	}
	if c.valid && d.Kind == c.last.Kind && d.ID == c.last.ID && d.URI == c.last.URI {
		e.Object = c.object
		return e, nil
	}
	if e.Object, err = c.resolver.object(ctx, d, c.owner); err != nil {
		return Extent{}, err
	}
	c.last = Descriptor{Kind: d.Kind, ID: d.ID, URI: strings.Clone(d.URI)}
	c.object, c.valid = e.Object, true
	return e, nil
}

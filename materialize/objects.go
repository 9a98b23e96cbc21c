package materialize

import (
	"reflect"

	"github.com/flightblob/flightblob/objstore"
)

// objects numbers the objects of a batch, so that extents can be compared by
// number. Two locations are one object when store and path are the same.
type objects struct {
	stores []objstore.Store
	list   []objstore.Location
	number map[objectKey]int
	last   int
}

type objectKey struct {
	store int
	path  string
}

func newObjects() *objects { return &objects{number: make(map[objectKey]int), last: -1} }

func (o *objects) len() int                   { return len(o.list) }
func (o *objects) at(i int) objstore.Location { return o.list[i] }

// intern gives the number of a location, a new one at first sight.
func (o *objects) intern(loc objstore.Location) int {
	if o.last >= 0 && o.list[o.last].Path == loc.Path && same(o.list[o.last].Store, loc.Store) {
		return o.last
	}
	key := objectKey{store: o.storeNumber(loc.Store), path: loc.Path}
	i, ok := o.number[key]
	if !ok {
		i = len(o.list)
		o.list = append(o.list, loc)
		o.number[key] = i
	}
	o.last = i
	return i
}

func (o *objects) storeNumber(s objstore.Store) int {
	for i, have := range o.stores {
		if same(have, s) {
			return i
		}
	}
	o.stores = append(o.stores, s)
	return len(o.stores) - 1
}

// same compares stores by identity. One whose type cannot be compared counts
// as different each time: then nothing is merged, but nothing breaks.
func same(a, b objstore.Store) bool {
	return a != nil && b != nil && reflect.TypeOf(a).Comparable() && a == b
}

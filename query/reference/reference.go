// Package reference is what stands for a blob value inside the SQL engine: its
// descriptor, a number for the place it came from, and a keyed tag over both.
//
// The engine moves references like any struct, and a statement can make structs
// of the same shape itself. The tag tells the two apart: whoever reads a value
// checks it first, so that no text of a client decides what the server opens.
package reference

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// TypeName is the alias of references in the engine, as DESCRIBE shows it.
const TypeName = "LANCE_BLOB"

// Children of the reference struct behind those of the descriptor.
const (
	SourceChild = 5
	TagChild    = 6
)

// Type is the Arrow type of references inside the engine.
var Type = arrow.StructOf(append(descriptorFields(),
	arrow.Field{Name: "source", Type: arrow.PrimitiveTypes.Uint32, Nullable: true},
	arrow.Field{Name: "tag", Type: arrow.PrimitiveTypes.Uint64, Nullable: true},
)...)

func descriptorFields() []arrow.Field {
	fields := schema.DescriptorType.Fields()
	for i := range fields {
		fields[i].Nullable = true
	}
	return fields
}

// Nulls is the set of descriptor children that are null, bit by child.
type Nulls uint8

// Value is one reference.
type Value struct {
	blob.Descriptor
	Nulls  Nulls
	Source uint32
	Tag    uint64
}

// Origin is where references of one source number come from.
type Origin struct {
	// Context is that of the statement.
	Context context.Context
	// Resolver and Owner find the bytes, as blob.Resolver.Resolve takes them.
	Resolver *blob.Resolver
	Owner    *blob.Owner
	// Fail records why a function over references failed, so that the
	// statement can report it with its kind. May be nil.
	Fail func(error)
	// Where says in which table, column and row a value is, "" when it is not
	// found. It reads the table, so it is for errors. May be nil.
	Where func(Value) string
	// Given is set for values that no table holds but the statement gives to a
	// write; then there is no Resolver, and functions over blobs refuse them.
	Given func(Value) Given
	// From is the version that the values were read from, as package query knows
	// it; nil for given ones.
	From any
}

// Given is a value that a statement gives to a write, with the parts that are
// set. Which parts go together is for the column to judge.
type Given struct {
	Null           bool   // there is no value
	Data           []byte // the bytes when not nil; not copied
	URI            string // an object, with Named
	Named          bool
	HasPosition    bool
	HasSize        bool
	Position, Size uint64 // a range of the object
}

// Registry knows the origins of all references of a process. Its methods may
// be called from any goroutine.
type Registry struct {
	key key

	mu      sync.RWMutex
	origins map[uint32]*Origin
	next    uint32
}

// NewRegistry makes a registry with a random key.
func NewRegistry() *Registry {
	var raw [16]byte
	if _, err := rand.Read(raw[:]); err != nil { // never fails by contract
		panic(err)
	}
	return &Registry{
		key:     key{binary.LittleEndian.Uint64(raw[:8]), binary.LittleEndian.Uint64(raw[8:])},
		origins: map[uint32]*Origin{},
	}
}

// Add registers an origin and gives its source number, which is free to be used
// again after Remove.
func (r *Registry) Add(o *Origin) uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		r.next++
		if _, taken := r.origins[r.next]; !taken {
			r.origins[r.next] = o
			return r.next
		}
	}
}

// Remove forgets origins; references to them are refused from now on.
func (r *Registry) Remove(sources ...uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range sources {
		delete(r.origins, s)
	}
}

// Len is the number of origins.
func (r *Registry) Len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.origins)
}

// Origin gives the origin of a source number, nil when there is none.
func (r *Registry) Origin(source uint32) *Origin {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.origins[source]
}

// Tag is the keyed hash of everything else in a reference. scratch is reused
// from call to call; nil is fine.
func (r *Registry) Tag(v *Value, scratch *[]byte) uint64 {
	var local []byte
	if scratch == nil {
		scratch = &local
	}
	b := (*scratch)[:0]
	b = append(b, byte(v.Kind), byte(v.Nulls))
	b = binary.LittleEndian.AppendUint32(b, v.ID)
	b = binary.LittleEndian.AppendUint32(b, v.Source)
	b = binary.LittleEndian.AppendUint64(b, v.Position)
	b = binary.LittleEndian.AppendUint64(b, v.Size)
	b = append(b, v.URI...)
	*scratch = b
	return sipHash(r.key, b)
}

// Checker checks the references of one step; it is for one goroutine and must
// not outlive the step, since it remembers the origin that it saw last.
type Checker struct {
	registry *Registry
	scratch  []byte
	source   uint32
	origin   *Origin
}

// Checker makes a Checker.
func (r *Registry) Checker() *Checker { return &Checker{registry: r} }

// Check gives the origin of a reference whose tag is right. Any other is
// fault.Denied: the statement made it up.
func (c *Checker) Check(v *Value) (*Origin, error) {
	if c.registry.Tag(v, &c.scratch) == v.Tag {
		if c.origin == nil || c.source != v.Source {
			c.origin, c.source = c.registry.Origin(v.Source), v.Source
		}
		if c.origin != nil {
			return c.origin, nil
		}
	}
	return nil, fault.New(fault.Denied, "query: a blob value was not read from a table but made by the statement; "+
		"select blob columns as they are, and make values of your own with BLOB")
}

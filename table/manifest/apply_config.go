package manifest

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// apply changes a map of texts; m is not shared.
func (u *UpdateMap) apply(m map[string]string) map[string]string {
	if u.Replace || m == nil {
		m = map[string]string{}
	}
	for _, e := range u.Entries {
		if e.Value == nil {
			delete(m, e.Key)
		} else {
			m[e.Key] = *e.Value
		}
	}
	return m
}

func (c *change) updateConfig(op *UpdateConfig) error {
	next := c.next
	if op.Config != nil {
		next.Config = op.Config.apply(next.Config)
	}
	if op.TableMetadata != nil {
		next.TableMetadata = op.TableMetadata.apply(next.TableMetadata)
	}
	if op.SchemaMetadata != nil {
		next.Schema = next.Schema.WithMetadata(op.SchemaMetadata.apply(cloneMap(next.Schema.Metadata)))
	}
	if len(op.FieldMetadata) == 0 {
		return nil
	}
	return c.updateFieldMetadata(op)
}

// updateFieldMetadata changes the metadata of fields. Table keys may be set
// there once and never changed (section 8).
func (c *change) updateFieldMetadata(op *UpdateConfig) error {
	records := c.next.Schema.Records()
	found := 0
	for i := range records {
		r := &records[i]
		u, ok := op.FieldMetadata[r.ID]
		if !ok {
			continue
		}
		found++
		r.Metadata = u.apply(r.Metadata)
		r.Extension = r.Metadata[schema.KeyExtensionName]
		r.Carried.PrimaryKey, r.Carried.PrimaryKeyPosition = false, 0
		r.Carried.ClusteringKey, r.Carried.ClusteringKeyPosition = false, 0
	}
	if found < len(op.FieldMetadata) {
		for id := range op.FieldMetadata {
			if c.next.Schema.ByID(id) == nil {
				return fault.New(fault.NotFound, "manifest: there is no field with id %d", id)
			}
		}
	}
	tree, err := schema.FromRecords(records, c.next.Schema.Metadata)
	if err != nil {
		return fault.New(fault.Invalid, "manifest: the metadata of a field: %w", err)
	}
	before, after := tableKeys(c.next.Schema), tableKeys(tree)
	for name, keys := range before {
		if len(keys) > 0 && !slices.Equal(keys, after[name]) {
			return fault.New(fault.Precondition, "manifest: the %s key of the table is set and cannot be changed", name)
		}
	}
	for _, u := range op.FieldMetadata {
		for _, e := range u.Entries {
			name, reserved := reservedKeys[e.Key]
			switch {
			case !reserved:
			case len(before[name]) > 0:
				return fault.New(fault.Precondition, "manifest: the %s key of the table is set and cannot be changed; %s is reserved", name, e.Key)
			case len(after[name]) == 0:
				return fault.New(fault.Invalid, "manifest: %s does not name a %s key; positions are numbers from 1 up", e.Key, name)
			}
		}
	}
	c.next.Schema = tree
	return nil
}

var reservedKeys = map[string]string{
	schema.KeyPrimary:            "primary",
	schema.KeyPrimaryPosition:    "primary",
	schema.KeyClusteringPosition: "clustering",
}

// keyPart is a field's part in a table key.
type keyPart struct {
	ID       schema.FieldID
	Position uint32
}

func tableKeys(s *schema.Schema) map[string][]keyPart {
	keys := map[string][]keyPart{"primary": nil, "clustering": nil}
	for _, r := range s.Records() {
		if r.Carried.PrimaryKey {
			keys["primary"] = append(keys["primary"], keyPart{r.ID, r.Carried.PrimaryKeyPosition})
		}
		if r.Carried.ClusteringKeyPosition > 0 {
			keys["clustering"] = append(keys["clustering"], keyPart{r.ID, r.Carried.ClusteringKeyPosition})
		}
	}
	return keys
}

// addBases registers bases. An id is given to one path for good (CAP-8), and a
// name or path that is registered is refused (section 6.2).
func (c *change) addBases(bases []Base) error {
	if len(bases) == 0 {
		return fault.New(fault.Invalid, "manifest: no bases to add")
	}
	for _, b := range bases {
		if b.ID == 0 {
			id, err := c.next.freeBase(1)
			if err != nil {
				return err
			}
			b.ID = id
		}
		if err := c.addBase(b); err != nil {
			return err
		}
	}
	return nil
}

// addInitialBases registers the bases of a new table: ids that are not given are
// 1, 2, … in order.
func (c *change) addInitialBases(bases []Base) error {
	for _, b := range bases {
		if b.ID != 0 {
			if err := c.addBase(b); err != nil {
				return err
			}
		}
	}
	for _, b := range bases {
		if b.ID == 0 {
			if err := c.addBases([]Base{b}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *change) addBase(b Base) error {
	if b.Path == "" {
		return fault.New(fault.Invalid, "manifest: base %q has no path", b.Name)
	}
	if have, taken := c.next.Bases[b.ID]; taken {
		return fault.New(fault.Exists, "manifest: base id %d stands for %s and is never given to another path", b.ID, have.Path)
	}
	for _, have := range c.next.Bases {
		if b.Name != "" && have.Name == b.Name {
			return fault.New(fault.Exists, "manifest: a base named %q is registered, at %s", b.Name, have.Path)
		}
		if strings.TrimRight(have.Path, "/") == strings.TrimRight(b.Path, "/") {
			return fault.New(fault.Exists, "manifest: %s is registered, as base %d", b.Path, have.ID)
		}
	}
	c.next.Bases[b.ID] = b
	return nil
}

// freeBase is the smallest base id from the given one up that is not taken.
func (m *Manifest) freeBase(from uint32) (uint32, error) {
	for id := from; ; id++ {
		if _, taken := m.Bases[id]; !taken {
			return id, nil
		}
		if id == math.MaxUint32 {
			return 0, fault.New(fault.Exhausted, "manifest: all base ids are taken")
		}
	}
}

func (c *change) reserve(op *ReserveFragments) error {
	if op.Count == 0 {
		return fault.New(fault.Invalid, "manifest: a reservation of no fragment ids")
	}
	// Counted from 0 where there is no mark yet (section 4.5).
	last := uint64(op.Count)
	if c.free > 0 {
		last += c.free - 1
	}
	if last > math.MaxUint32 {
		return fault.New(fault.Exhausted, "manifest: %d fragment ids are not left", op.Count)
	}
	c.free = last + 1
	return nil
}

// restore makes the content of an older version the newest one. Ids go on, and
// no base id is freed for another path.
func (c *change) restore(op *Restore) error {
	old := c.o.Source
	if old == nil || old.Version != op.Version {
		return fault.New(fault.Internal, "manifest: a restore needs the manifest of version %d", op.Version)
	}
	if err := old.CheckWritable(); err != nil {
		return err
	}
	if c.base.StableRowIDs() != old.StableRowIDs() {
		return fault.New(fault.Precondition, "manifest: version %d is from before stable row ids were turned on and cannot be restored", op.Version)
	}
	if c.base.MaxAllocatedFieldID != nil && old.MaxAllocatedFieldID == nil {
		return fault.New(fault.Precondition, "manifest: version %d is from before field ids were kept for good and cannot be restored", op.Version)
	}
	next := old.inherit()
	next.Version, next.Branch = c.next.Version, c.next.Branch
	for id, b := range c.base.Bases {
		if _, ok := next.Bases[id]; !ok {
			next.Bases[id] = b
		}
	}
	next.NextRowID = max(next.NextRowID, c.base.NextRowID)
	next.MaxFragmentID = c.base.MaxFragmentID
	c.free = max(c.free, old.freeFragment())
	if c.base.MaxAllocatedFieldID != nil {
		most := max(*c.base.MaxAllocatedFieldID, *next.MaxAllocatedFieldID)
		next.MaxAllocatedFieldID = &most
	}
	c.next = next
	return nil
}

// clone makes the first manifest of a clone or branch (section 6.3): it has the
// version of its source. A shallow one finds all files through a base that
// stands for the source; a deep one has copies of them under the same names.
func (c *change) clone(op *Clone) error {
	next := c.next
	if c.o.Source.Version != op.RefVersion {
		return fault.New(fault.Internal, "manifest: a clone of version %d needs its manifest, not that of version %d", op.RefVersion, c.o.Source.Version)
	}
	next.Branch = op.BranchName
	if c.o.Copied != nil {
		if op.Shallow {
			return fault.New(fault.Internal, "manifest: a shallow clone with copied files")
		}
		next.Fragments, next.Bases = slices.Clone(c.o.Copied.Fragments), maps.Clone(c.o.Copied.Bases)
		if next.Bases == nil {
			next.Bases = map[uint32]Base{}
		}
	}
	c.free = next.freeFragment()
	var base *uint32
	if op.Shallow {
		id, err := next.freeBase(0)
		if err != nil {
			return err
		}
		if op.RefPath == "" {
			return fault.New(fault.Invalid, "manifest: a shallow clone needs the root of its source")
		}
		next.Bases[id] = Base{ID: id, IsDatasetRoot: true, Path: op.RefPath}
		base = &id
	}
	rebase := func(have *uint32) *uint32 {
		if op.Shallow && have != nil {
			return have
		}
		return base
	}
	for i := range next.Fragments {
		f := &next.Fragments[i]
		f.Files = slices.Clone(f.Files)
		for j := range f.Files {
			f.Files[j].BaseID = rebase(f.Files[j].BaseID)
		}
		if f.Deletion != nil {
			d := *f.Deletion
			d.BaseID = rebase(d.BaseID)
			f.Deletion = &d
		}
	}
	return c.rebaseIndexes(rebase)
}

package table

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// Columns that a scan adds to those of the table. A table column of the same
// name is reached only by a scan of all columns.
const (
	RowID     = "_rowid"                       // stable row id, else the row address
	RowAddr   = "_rowaddr"                     // fragment id << 32 | physical row
	CreatedAt = "_row_created_at_version"      // stable row ids only
	UpdatedAt = "_row_last_updated_at_version" // stable row ids only
)

// column is one column of a scan.
type column struct {
	schema.Column        // Field is nil for an added column
	added         string // RowID, RowAddr, CreatedAt or UpdatedAt
}

// projection is what a scan reads and how it shows it.
type projection struct {
	columns []column
	schema  *arrow.Schema // descriptor faces
	leaves  []*schema.Field
	slot    map[schema.FieldID]int // leaf id → index in leaves
	blobs   []*schema.Field        // blob leaves, depth-first over the columns
	added   map[string]bool
}

// project plans the columns of a scan; nil means all of the table's.
func (s *Snapshot) project(names []string) (*projection, error) {
	p := &projection{slot: map[schema.FieldID]int{}, added: map[string]bool{}}
	if names == nil {
		for _, c := range s.Schema().Columns() {
			p.columns = append(p.columns, column{Column: c})
		}
	} else if err := p.named(s, names); err != nil {
		return nil, err
	}
	for _, c := range p.columns {
		if c.Field == nil {
			continue
		}
		for leaf := range c.Field.Stored().Leaves() {
			if _, ok := p.slot[leaf.ID]; !ok {
				p.slot[leaf.ID] = len(p.leaves)
				p.leaves = append(p.leaves, leaf)
			}
		}
		for b := range c.Field.Blobs() {
			p.blobs = append(p.blobs, b)
		}
	}
	var err error
	p.schema, err = p.arrow(s.Schema(), schema.Descriptor)
	return p, err
}

func (p *projection) named(s *Snapshot, names []string) error {
	stored := make([]string, 0, len(names))
	for _, name := range names {
		switch name {
		case RowID, RowAddr:
		case CreatedAt, UpdatedAt:
			if !s.Manifest().StableRowIDs() {
				return fault.New(fault.Invalid, "table: %s has no column %q: only tables with stable row ids record it", s.table.name, name)
			}
		default:
			stored = append(stored, name)
			continue
		}
		if p.added[name] {
			return fault.New(fault.Invalid, "table: column %q is asked for twice", name)
		}
		p.added[name] = true
	}
	found, err := s.Schema().Project(stored)
	if err != nil {
		return err
	}
	for _, name := range names {
		if p.added[name] {
			p.columns = append(p.columns, column{Column: schema.Column{Name: name}, added: name})
			continue
		}
		p.columns = append(p.columns, column{Column: found[0]})
		found = found[1:]
	}
	return nil
}

// arrow gives the schema of the columns in a view, with the table's metadata.
func (p *projection) arrow(tree *schema.Schema, view schema.View) (*arrow.Schema, error) {
	fields := make([]arrow.Field, len(p.columns))
	for i, c := range p.columns {
		if c.Field == nil {
			// The reference declares its added columns nullable.
			fields[i] = arrow.Field{Name: c.Name, Type: arrow.PrimitiveTypes.Uint64, Nullable: true}
			continue
		}
		var err error
		if fields[i], err = c.Arrow(view); err != nil {
			return nil, err
		}
	}
	whole, err := tree.ArrowOf(nil, view)
	if err != nil {
		return nil, err
	}
	m := whole.Metadata()
	return arrow.NewSchema(fields, &m), nil
}

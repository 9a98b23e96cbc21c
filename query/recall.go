package query

import (
	"container/list"
	"maps"
	"slices"
	"sync"

	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/query/statement"
	"github.com/flightblob/flightblob/schema"
)

// What is found out about a statement before it runs depends on its text and on
// the columns of the tables it reads, and finding it out costs more than many
// statements themselves. So it is remembered by text, and used again when the
// engine binds the text to tables with the same columns. Versions are not part
// of it: each statement pins its own.

// known is what is remembered of a text.
type known struct {
	tree     *tree
	findings *findings // nil when the plan was not looked at
}

// findings are what the plan of a SELECT says.
type findings struct {
	types   []string                  // of the result, in the engine
	columns []resultColumn            // read at once, all of them
	from    []tableColumn             // where each is from; without a call when from nowhere
	late    map[tableColumn]bool      // those that may be read late
	few     bool                      // few rows are likely to come out
	payload bool                      // functions read blob values
	counted string                    // the call whose rows are counted, nothing else
	first   first                     // the rows that are enough
	tables  map[string]*schema.Schema // columns of each call's table
	sight   sight                     // what scans may leave out
}

// place is where a text stands, which decides what its names mean.
type place struct{ catalog, schema, branch, shape string }

// recall remembers the statements that were used last. Its methods may be called
// from any goroutine.
type recall struct {
	mu     sync.Mutex
	texts  map[place]*list.Element // of *remembered
	byUse  list.List               // last used first
	weight int
}

type remembered struct {
	place  place
	known  *known
	weight int
}

// Bounds of what is remembered.
const (
	recallText   = 16 << 10 // bytes of a text, longer ones are not remembered
	recallColumn = 1 << 10  // about what a column of a result takes
	recallSight  = 1 << 6   // what a byte of a text makes of what scans may leave out, at most
	recallAll    = 8 << 20  // bytes in all
)

func newRecall() *recall { return &recall{texts: map[place]*list.Element{}} }

func (r *run) placeOf(sql string) place {
	return place{r.catalog(), r.schema(), r.session.Branch, statement.Shape(sql)}
}

// get finds what is known of a text, nil when nothing is.
func (c *recall) get(p place) *known {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.texts[p]
	if e == nil {
		return nil
	}
	c.byUse.MoveToFront(e)
	return e.Value.(*remembered).known
}

// put remembers a text and forgets those that were not used for longest.
func (c *recall) put(p place, k *known) {
	if len(p.shape) > recallText {
		return
	}
	m := &remembered{p, k, 2*len(p.shape) + recallColumn}
	if k.findings != nil {
		m.weight += recallColumn * len(k.findings.columns)
		if len(k.findings.sight.looked) > 0 {
			m.weight += recallSight * len(k.findings.sight.text)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.texts[p]; old != nil {
		c.drop(old)
	}
	c.texts[p] = c.byUse.PushFront(m)
	c.weight += m.weight
	for c.weight > recallAll && c.byUse.Len() > 1 {
		c.drop(c.byUse.Back())
	}
}

func (c *recall) drop(e *list.Element) {
	m := c.byUse.Remove(e).(*remembered)
	delete(c.texts, m.place)
	c.weight -= m.weight
}

// read keeps what the plan of a statement said, as it is before columns are
// read late.
func (r *run) read(types []engine.Field, columns []resultColumn, found outputs, a *analysis) *findings {
	k := &findings{
		columns: slices.Clone(columns), late: a.candidates(found), few: a.survey.few(), payload: a.payload,
		counted: a.counted, first: a.first, tables: r.tables(), from: make([]tableColumn, len(columns)),
	}
	for i, t := range types {
		k.types = append(k.types, t.Type.String())
		if p := found.at(i); p != nil && len(found.columns) == len(types) {
			k.from[i] = p.from
		}
	}
	return k
}

// tables are the columns of the tables that the engine has bound.
func (r *run) tables() map[string]*schema.Schema {
	r.mu.Lock()
	defer r.mu.Unlock()
	tables := map[string]*schema.Schema{}
	for call, rel := range r.relations {
		tables[call] = rel.snapshot.Schema()
	}
	return tables
}

// fits says whether what is known holds for the statement as the engine has
// bound it now.
func (k *findings) fits(r *run, types []engine.Field) bool {
	if len(types) != len(k.types) || !maps.EqualFunc(k.tables, r.tables(), sameColumns) {
		return false
	}
	for i, t := range types {
		want := k.types[i]
		if r.lateColumn(k.from[i]) != nil {
			want = lateType.String()
		}
		if t.Type.String() != want {
			return false
		}
	}
	return true
}

// sameColumns says that two versions have the same columns, by what statements
// see of them.
func sameColumns(a, b *schema.Schema) bool {
	return a == b || slices.EqualFunc(a.Fields, b.Fields, sameField)
}

func sameField(a, b *schema.Field) bool {
	return a.Name == b.Name && a.Logical == b.Logical && a.Nullable == b.Nullable && a.Shape == b.Shape && a.Blob == b.Blob &&
		a.Packed == b.Packed && a.Dimension == b.Dimension && maps.Equal(a.Metadata, b.Metadata) &&
		slices.EqualFunc(a.Children, b.Children, sameField)
}

// columnsFor are the result's columns for the tables of a run.
func (k *findings) columnsFor(r *run, types []engine.Field) []resultColumn {
	columns := slices.Clone(k.columns)
	for i, t := range types {
		columns[i].reference.Name = t.Name
		columns[i].late = r.lateColumn(k.from[i])
	}
	return columns
}

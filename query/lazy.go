package query

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/query/reference"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// Wide columns that a statement only passes on are read late: the scan gives the
// engine the rows' positions in their place, and the values are fetched for the
// rows of the result. What is compared, sorted or computed with is read as ever.
//
// That pays where few rows come out. So it is done for any statement with a LIMIT
// that is not large, for one table where a column must equal a value, and for one
// table of wide rows with another condition, whose rows come in the order of the
// table: then it costs little if many meet it.

// tableColumn is a column of a call of a table function.
type tableColumn struct {
	call   string
	column int
}

// Limits of late reading.
const (
	lateLimit   = 64 << 10 // the largest LIMIT that makes late reading worthwhile
	lateRows    = 4096     // smaller tables are read at once
	lateFirst   = 64       // rows that are fetched before their width is known
	lateWidth   = 256      // bytes of a row from which a condition alone makes it worthwhile
	narrowBytes = 16       // values up to this are no wider than a position and a half
)

// survey collects what late reading depends on while a plan is followed.
type survey struct {
	used    map[tableColumn]bool
	gets    int
	filters int
	keys    bool // a condition wants few values of a column
	orders  int
	limit   bool // a small constant LIMIT
	off     bool // the plan holds what cannot be followed
}

// note looks at one operator whose inputs are below.
func (s *survey) note(n object, below []outputs) {
	for _, b := range below {
		if !b.known {
			s.off = true
			return
		}
	}
	first := outputs{known: true}
	if len(below) > 0 {
		first = below[0]
	}
	switch text(n["type"]) {
	case "LOGICAL_GET":
		s.gets++
	case "LOGICAL_PROJECTION":
		for _, e := range objects(n["expressions"]) {
			if text(e["expression_class"]) != "BOUND_REF" {
				s.mark(e, first)
			}
		}
	case "LOGICAL_FILTER":
		s.filters++
		s.keys = s.keys || slices.ContainsFunc(objects(n["expressions"]), isKey)
		s.mark(n["expressions"], first)
	case "LOGICAL_ORDER_BY", "LOGICAL_TOP_N":
		s.orders++
		s.mark(n["orders"], first)
	case "LOGICAL_LIMIT":
		if l, _ := n["limit_val"].(object); text(l["type"]) == "CONSTANT_VALUE" && integer(l["constant_integer"]) <= lateLimit {
			s.limit = true
		}
	case "LOGICAL_CROSS_PRODUCT":
	case "LOGICAL_COMPARISON_JOIN":
		if text(n["join_type"]) != "INNER" || n["predicate"] != nil || len(below) != 2 {
			s.all(below)
			return
		}
		for _, c := range objects(n["conditions"]) {
			s.mark(c["left"], below[0])
			s.mark(c["right"], below[1])
		}
	default:
		s.all(below)
	}
}

// isKey says that a condition is a column's equality with a value or with one of
// several, or that one of such holds.
func isKey(e object) bool {
	class := func(v any) string {
		o, _ := v.(object)
		for text(o["expression_class"]) == "BOUND_CAST" {
			o, _ = o["child"].(object)
		}
		return text(o["expression_class"])
	}
	isValue := func(v any) bool { c := class(v); return c == "BOUND_CONSTANT" || c == "BOUND_PARAMETER" }
	switch text(e["type"]) {
	case "COMPARE_EQUAL":
		l, r := class(e["left"]), class(e["right"])
		return l == "BOUND_REF" && isValue(e["right"]) || r == "BOUND_REF" && isValue(e["left"])
	case "CONJUNCTION_OR":
		return all(e["children"], isKey)
	case "COMPARE_IN":
		values := listOf(e["children"])
		return len(values) > 1 && class(values[0]) == "BOUND_REF" && !slices.ContainsFunc(values[1:], func(v any) bool { return !isValue(v) })
	}
	return false
}

// mark notes the columns that an expression uses.
func (s *survey) mark(v any, in outputs) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			s.mark(e, in)
		}
	case object:
		if text(v["expression_class"]) == "BOUND_REF" {
			if p := in.at(integer(v["index"])); p != nil {
				s.used[p.from] = true
			}
			return
		}
		for _, e := range v {
			s.mark(e, in)
		}
	}
}

func (s *survey) all(below []outputs) {
	for _, b := range below {
		for _, p := range b.columns {
			if p != nil {
				s.used[p.from] = true
			}
		}
	}
}

// few says that few rows are likely to come out.
func (s *survey) few() bool { return s.limit || s.keys && s.gets == 1 }

// worthwhile says whether reading late can pay at all.
func (s *survey) worthwhile() bool {
	return !s.off && (s.few() || s.gets == 1 && s.filters > 0 && s.orders == 0)
}

// candidates are the columns of a result that may be read late, whatever the
// number of rows.
func (a *analysis) candidates(root outputs) map[tableColumn]bool {
	if !root.known || !a.survey.worthwhile() {
		return nil
	}
	picked, narrow := map[tableColumn]bool{}, []tableColumn{}
	for _, p := range root.columns {
		if p == nil || p.nullable || p.from.call == "" || a.survey.used[p.from] {
			continue
		}
		a.run.mu.Lock()
		rel := a.run.relations[p.from.call]
		a.run.mu.Unlock()
		if rel == nil || rel.columns[p.from.column].field != p.field {
			continue
		}
		switch fetchable, wide := widthOf(p.field); {
		case wide:
			picked[p.from] = true
		case fetchable:
			narrow = append(narrow, p.from)
		}
	}
	// Positions take as much as a number does, but where there are some already
	// they cost little.
	for _, from := range narrow {
		if a.survey.keys && len(picked) > 0 {
			picked[from] = true
		}
	}
	return picked
}

// readsLate says whether the rows of a relation are many and wide enough for
// reading columns late.
func (rel *relation) readsLate(few bool) bool {
	return rel.Rows() >= lateRows && (few || rel.rowBytes() >= lateWidth)
}

// rowBytes is what a row takes in the data files on average.
func (rel *relation) rowBytes() uint64 {
	bytes := uint64(0)
	for _, f := range rel.snapshot.Fragments() {
		for _, d := range f.Files {
			bytes += d.Bytes
		}
	}
	return bytes / max(rel.snapshot.Rows(), 1)
}

// widthOf says whether values of a field come out of a scan as results show
// them, so that they can be fetched, and whether they may be large.
func widthOf(f *schema.Field) (fetchable, wide bool) {
	if f.Blob != schema.NotBlob {
		return true, true // the descriptors are fetched
	}
	for range f.Blobs() {
		return false, false
	}
	shown, err := f.Arrow(schema.Descriptor)
	if err != nil || holdsDictionary(shown.Type) {
		return false, false
	}
	if fixed, ok := shown.Type.(arrow.FixedWidthDataType); ok {
		return true, fixed.BitWidth() > 8*narrowBytes
	}
	return true, shown.Type.ID() != arrow.NULL
}

func holdsDictionary(dt arrow.DataType) bool {
	if dt.ID() == arrow.DICTIONARY {
		return true
	}
	if nested, ok := dt.(arrow.NestedType); ok {
		for _, f := range nested.Fields() {
			if holdsDictionary(f.Type) {
				return true
			}
		}
	}
	return false
}

// lateType is the type that the engine sees in the place of a late column.
var lateType = &engine.Type{ID: engine.TypeUBigInt}

// postpone makes the engine see positions in place of columns.
func (rel *relation) postpone(call string, late map[tableColumn]bool) {
	fields := rel.schema.Fields()
	for i := range rel.columns {
		if !late[tableColumn{call, i}] {
			continue
		}
		c := &rel.columns[i]
		c.position = true
		fields[i] = positionField(c.name)
	}
	rel.schema = arrow.NewSchema(fields, nil)
}

// positionField is the field of a column of positions.
func positionField(name string) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Uint64, Nullable: true, Metadata: engine.PositionMetadata}
}

// lateColumn is a column of a result that is fetched for the rows that come out.
type lateColumn struct {
	snapshot *table.Snapshot
	stored   string
}

// lateColumn tells how a column of a table is fetched later, nil when the
// engine has it.
func (r *run) lateColumn(from tableColumn) *lateColumn {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rel := r.relations[from.call]; rel != nil && rel.columns[from.column].position {
		return &lateColumn{rel.snapshot, rel.columns[from.column].stored}
	}
	return nil
}

// readLate chooses what the engine does not get when it binds the statement
// again.
func (r *run) readLate(late map[tableColumn]bool, few bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late, r.few = late, few
	r.relations, r.failed = map[string]*relation{}, nil
}

// postpone prepares the statement again with some columns read late. Without a
// gain it leaves everything as it is.
func (r *run) postpone(ctx context.Context, p *plan, sql string, k *findings) error {
	some := false
	for from := range k.late {
		r.mu.Lock()
		rel := r.relations[from.call]
		r.mu.Unlock()
		some = some || rel != nil && rel.readsLate(k.few)
	}
	if !some {
		return nil
	}
	r.readLate(k.late, k.few)
	again, err := r.conn.Prepare(ctx, sql)
	if err == nil {
		if types := again.Columns(); k.fits(r, types) {
			p.prepared.Close()
			p.prepared, p.columns = again, k.columnsFor(r, types)
			return nil
		}
		again.Close()
	}
	// The statement binds as it did before.
	r.readLate(nil, false)
	k.late = nil
	return context.Cause(ctx)
}

// fetched is the columns of one table for the rows of a batch.
type fetched struct {
	run       *run
	snapshot  *table.Snapshot
	positions *array.Uint64
	names     []string
	columns   map[string]arrow.Array
}

// fetchLate reads the late columns of a batch. The caller releases the arrays.
func (res *result) fetchLate(in arrow.RecordBatch) ([]*fetched, error) {
	var groups []*fetched
	for i, c := range res.columns {
		if c.late == nil {
			continue
		}
		positions, ok := in.Column(i).(*array.Uint64)
		if !ok || positions.NullN() > 0 {
			return nil, fault.New(fault.Internal, "query: column %q has no positions", c.reference.Name)
		}
		var group *fetched
		for _, g := range groups {
			if g.snapshot == c.late.snapshot && array.Equal(g.positions, positions) {
				group = g
			}
		}
		if group == nil {
			group = &fetched{run: res.run, snapshot: c.late.snapshot, positions: positions, columns: map[string]arrow.Array{}}
			groups = append(groups, group)
		}
		if group.columns[c.late.stored] == nil {
			group.columns[c.late.stored] = positions // until it is read
			group.names = append(group.names, c.late.stored)
		}
	}
	bytes := int64(0)
	for i, g := range groups {
		n, err := g.read(res.ctx)
		if err != nil {
			for _, done := range groups[:i] {
				done.release()
			}
			return nil, err
		}
		bytes += n
	}
	if rows := in.NumRows(); rows > 0 {
		res.rowBytes = max(bytes/rows, 1)
	}
	return groups, nil
}

func (g *fetched) read(ctx context.Context) (int64, error) {
	scan, err := g.snapshot.Scan(ctx, table.ScanRequest{Columns: g.names, Rows: g.positions.Uint64Values()})
	if err != nil {
		return 0, err
	}
	defer scan.Release()
	parts := make([][]arrow.Array, len(g.names))
	defer func() {
		for _, column := range parts {
			for _, a := range column {
				a.Release()
			}
		}
	}()
	bytes, resolver := int64(0), g.snapshot.Resolver()
	for scan.Next() {
		owners := scan.Owners()
		for i, a := range scan.RecordBatch().Columns() {
			bytes += int64(a.Data().SizeInBytes())
			if !isBlob(scan.Schema().Field(i)) {
				a.Retain()
				parts[i] = append(parts[i], a)
				continue
			}
			leaf, err := g.references(a, &numberer{run: g.run, snapshot: g.snapshot, resolver: resolver, owner: owners[0]})
			if err != nil {
				return 0, err
			}
			owners, parts[i] = owners[1:], append(parts[i], leaf)
		}
	}
	if err := scan.Err(); err != nil {
		return 0, err
	}
	for i, name := range g.names {
		whole, err := array.Concatenate(parts[i], memory.DefaultAllocator)
		if err != nil || whole.Len() != g.positions.Len() {
			for _, done := range g.names[:i] {
				g.columns[done].Release()
			}
			return 0, fault.New(fault.Internal, "query: %d rows of column %q for %d: %w", len(parts[i]), name, g.positions.Len(), err)
		}
		g.columns[name] = whole
	}
	return bytes, nil
}

// references turns descriptors into what results have of blob columns.
func (g *fetched) references(a arrow.Array, number *numberer) (arrow.Array, error) {
	t := &tagger{registry: g.run.engine.registry, numbers: []numberer{*number}}
	tagged, err := t.references(a.Data())
	if err != nil {
		return nil, err
	}
	defer tagged.Release()
	data := array.NewData(materialize.ReferenceType, tagged.Len(), tagged.Buffers(), tagged.Children()[:reference.TagChild], tagged.NullN(), tagged.Offset())
	defer data.Release()
	return array.MakeFromData(data), nil
}

func (g *fetched) release() {
	for _, name := range g.names {
		g.columns[name].Release()
	}
}

// lateArray finds the values of a late column.
func lateArray(groups []*fetched, in arrow.Array, c *lateColumn) arrow.Array {
	for _, g := range groups {
		if g.snapshot == c.snapshot && (g.positions == in || array.Equal(g.positions, in)) {
			return g.columns[c.stored]
		}
	}
	return nil
}

package query

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/table"
)

// viewFunction is what views read; no statement may call it.
const viewFunction = "flightblob_table"

// tableFunctions are the table functions of this program.
var tableFunctions = []engine.TableFunction{
	{Name: viewFunction, Args: 3},
	{Name: filterFunction},
	{Name: boundFunction},
	{Name: excerptFunction, Args: 1, Named: map[string]engine.TypeID{"row_ids": engine.TypeBoolean}},
	{Name: "lance_scan", Args: 1, Named: map[string]engine.TypeID{
		"version": engine.TypeUBigInt, "tag": engine.TypeVarchar, "branch": engine.TypeVarchar,
		"timestamp": engine.TypeVarchar, "row_ids": engine.TypeBoolean,
	}},
	{Name: "lance_versions", Args: 1, Named: map[string]engine.TypeID{"branch": engine.TypeVarchar}},
	{Name: "lance_tags", Args: 1},
	{Name: "lance_branches", Args: 1},
	{Name: "lance_fragments", Args: 1},
	{Name: "lance_files", Args: 1},
	{Name: "lance_blobs", Args: 2},
}

// callKey identifies a call in a plan.
func callKey(function string, args []string, named map[string]string) string {
	parts := append([]string{function}, args...)
	for _, k := range slices.Sorted(maps.Keys(named)) {
		parts = append(parts, k+"="+named[k])
	}
	return strings.Join(parts, "\x00")
}

// Bind implements engine.Provider.
func (e *Engine) Bind(call engine.Call) (engine.Relation, error) {
	e.mu.Lock()
	r := e.runs[call.Conn]
	e.mu.Unlock()
	if r == nil {
		return e.unbound(call)
	}
	rel, err := r.bind(call)
	if err != nil {
		r.fail(err)
	}
	return rel, err
}

// stub stands for a table while its view is made: no table is opened.
var stub = arrow.NewSchema([]arrow.Field{
	{Name: virtualColumn, Type: arrow.FixedWidthTypes.Boolean, Nullable: true, Metadata: engine.VirtualMetadata},
	{Name: "stub", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
}, nil)

func (e *Engine) unbound(call engine.Call) (engine.Relation, error) {
	if call.Function != viewFunction {
		return nil, fault.New(fault.Internal, "query: %s outside of a statement", call.Function)
	}
	return &rows{schema: stub}, nil
}

func (r *run) bind(call engine.Call) (engine.Relation, error) {
	if call.Function == viewFunction {
		name := catalog.Name{Catalog: call.Args[0], Schema: call.Args[1], Table: call.Args[2]}
		s, err := r.snapshot(name, table.Ref{})
		if err != nil {
			return nil, err
		}
		return r.known(call, s, true, false)
	}
	if call.Function == filterFunction {
		return r.filtered()
	}
	if call.Function == boundFunction {
		if r.session.gifts == nil || r.session.gifts.bound == nil {
			return nil, fault.New(fault.Internal, "query: %s outside of a write", boundFunction)
		}
		return r.session.gifts.bound.relation(r), nil
	}
	if call.Function == excerptFunction {
		return r.excerpted(call)
	}
	name, err := r.find(call.Args[0])
	if err != nil {
		return nil, fault.New(fault.KindOf(err), "%s: %w", call.Function, err)
	}
	if call.Function == "lance_scan" {
		ref, err := refOf(call.Named)
		if err != nil {
			return nil, err
		}
		s, err := r.snapshot(name, ref)
		if err != nil {
			return nil, err
		}
		return r.known(call, s, false, call.Named["row_ids"] == "true")
	}
	return r.describe(call, name)
}

// known makes the relation of a call once and keeps it for the plan.
func (r *run) known(call engine.Call, s *table.Snapshot, virtual, rowIDs bool) (engine.Relation, error) {
	rel, err := r.newRelation(s, virtual, rowIDs)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := callKey(call.Function, call.Args, call.Named)
	rel.call = key
	if len(r.late) > 0 && rel.readsLate(r.few) {
		rel.postpone(key, r.late)
	}
	r.relations[key] = rel
	return rel, nil
}

// refOf reads the arguments of lance_scan that choose a version.
func refOf(named map[string]string) (ref table.Ref, err error) {
	ref.Tag, ref.Branch = named["tag"], named["branch"]
	for _, key := range []string{"tag", "branch", "version", "timestamp"} {
		if v, given := named[key]; given && v == "" {
			return ref, fault.New(fault.Invalid, "lance_scan: %s is empty", key)
		}
	}
	if v := named["version"]; v != "" {
		if ref.Version, err = strconv.ParseUint(v, 10, 64); err != nil || ref.Version == 0 {
			return ref, fault.New(fault.Invalid, "lance_scan: version is %s; versions are whole numbers from 1 on", v)
		}
	}
	if v := named["timestamp"]; v != "" {
		if ref.Timestamp, err = parseTime(v); err != nil {
			return ref, fault.New(fault.Invalid, "lance_scan: timestamp is %q, not a time such as 2026-01-31 12:00:00 or 2026-01-31T12:00:00Z", v)
		}
	}
	return ref, nil
}

// timeLayouts are the spellings of times that are taken; without a zone, UTC.
var timeLayouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999Z07",
	"2006-01-02 15:04:05.999999999", "2006-01-02T15:04Z07:00", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02",
}

func parseTime(s string) (time.Time, error) {
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, strconv.ErrSyntax
}

// rows is a small relation in memory.
type rows struct {
	schema *arrow.Schema
	batch  arrow.RecordBatch // nil = none
}

// Schema implements engine.Relation.
func (r *rows) Schema() *arrow.Schema { return r.schema }

// Rows implements engine.Relation.
func (r *rows) Rows() int64 {
	if r.batch == nil {
		return 0
	}
	return r.batch.NumRows()
}

// Scan implements engine.Relation.
func (r *rows) Scan(columns []int) (engine.Batches, error) {
	return &reading{rows: r, columns: columns}, nil
}

type reading struct {
	rows    *rows
	columns []int
	done    bool
}

// Next implements engine.Batches.
func (r *reading) Next() (engine.Batch, error) {
	if r.done || r.rows.batch == nil {
		return nil, io.EOF
	}
	r.done = true
	var fields []arrow.Field
	var columns []arrow.Array
	for _, c := range r.columns {
		fields, columns = append(fields, r.rows.schema.Field(c)), append(columns, r.rows.batch.Column(c))
	}
	return engine.Made{Rows: array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, r.rows.batch.NumRows())}, nil
}

// Close implements engine.Batches.
func (r *reading) Close() {}

// sheet builds rows column by column.
type sheet struct {
	fields []arrow.Field
	build  *array.RecordBuilder
}

func newSheet(columns ...any) *sheet {
	s := &sheet{}
	for i := 0; i < len(columns); i += 2 {
		s.fields = append(s.fields, arrow.Field{Name: columns[i].(string), Type: columns[i+1].(arrow.DataType), Nullable: true})
	}
	s.build = array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(s.fields, nil))
	return s
}

// add appends a row of uint64, string, time.Time and nil.
func (s *sheet) add(values ...any) {
	for i, v := range values {
		switch b := s.build.Field(i).(type) {
		case *array.Uint64Builder:
			if n, ok := v.(uint64); ok {
				b.Append(n)
				continue
			}
		case *array.StringBuilder:
			if t, ok := v.(string); ok {
				b.Append(strings.ToValidUTF8(t, "\uFFFD"))
				continue
			}
		case *array.TimestampBuilder:
			if t, ok := v.(time.Time); ok && !t.IsZero() {
				b.Append(arrow.Timestamp(t.UnixMicro()))
				continue
			}
		}
		s.build.Field(i).AppendNull()
	}
}

func (s *sheet) rows() *rows {
	defer s.build.Release()
	return &rows{schema: arrow.NewSchema(s.fields, nil), batch: s.build.NewRecordBatch()}
}

var (
	count = arrow.PrimitiveTypes.Uint64
	words = arrow.BinaryTypes.String
	times = &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
)

// describe answers the functions about a table.
func (r *run) describe(call engine.Call, name catalog.Name) (engine.Relation, error) {
	t, err := r.engine.cat.Table(r.ctx, name)
	if err != nil {
		return nil, err
	}
	switch call.Function {
	case "lance_versions":
		return r.versions(t, r.session.on(table.Ref{Branch: call.Named["branch"]}).Branch)
	case "lance_tags":
		tags, err := t.Tags(r.ctx)
		if err != nil {
			return nil, err
		}
		s := newSheet("name", words, "version", count, "branch", words, "created_at", times, "updated_at", times)
		for _, tag := range tags {
			s.add(tag.Name, tag.Version, orMain(tag.Branch), tag.CreatedAt, tag.UpdatedAt)
		}
		return s.rows(), nil
	case "lance_branches":
		branches, err := t.Branches(r.ctx)
		if err != nil {
			return nil, err
		}
		s := newSheet("name", words, "parent_branch", words, "parent_version", count, "created_at", times)
		for _, b := range branches {
			s.add(b.Name, orMain(b.ParentBranch), b.ParentVersion, b.CreatedAt)
		}
		return s.rows(), nil
	}
	snap, err := r.snapshot(name, table.Ref{})
	if err != nil {
		return nil, err
	}
	switch call.Function {
	case "lance_fragments":
		s := newSheet("fragment_id", count, "rows", count, "deleted_rows", count, "data_files", count)
		for _, f := range snap.Fragments() {
			s.add(f.ID, f.Rows, f.DeletedRows, uint64(len(f.Files)))
		}
		return s.rows(), nil
	case "lance_files":
		s := newSheet("fragment_id", count, "path", words, "base_id", count, "bytes", count, "file_version", words, "columns", count)
		for _, f := range snap.Fragments() {
			for _, d := range f.Files {
				var base, bytes any
				if d.BaseID != nil {
					base = uint64(*d.BaseID)
				}
				if d.Bytes > 0 {
					bytes = d.Bytes
				}
				s.add(f.ID, d.Path, base, bytes, d.Version, uint64(d.Columns))
			}
		}
		return s.rows(), nil
	case "lance_blobs":
		return r.blobs(snap, call.Args[1])
	}
	return nil, fault.New(fault.Internal, "query: no function %s", call.Function)
}

func (r *run) versions(t *table.Table, branch string) (engine.Relation, error) {
	versions, err := t.Versions(r.ctx, branch)
	if err != nil {
		return nil, err
	}
	s := newSheet("version", count, "timestamp", times, "operation", words, "rows", count, "deleted_rows", count,
		"fragments", count, "data_files", count, "manifest_bytes", count, "writer_version", words)
	for _, v := range versions {
		var operation, writer any
		if v.Operation != "" {
			operation = v.Operation
		}
		if v.WriterVersion != "" {
			writer = v.WriterVersion
		}
		s.add(v.Version, v.Timestamp, operation, v.Rows, v.DeletedRows, uint64(v.Fragments), uint64(v.DataFiles), uint64(v.ManifestBytes), writer)
	}
	return s.rows(), nil
}

// blobs sums the values of a blob column by kind and object. The descriptors
// are scanned when the statement is planned.
func (r *run) blobs(snap *table.Snapshot, column string) (engine.Relation, error) {
	if column == "" {
		return nil, fault.New(fault.Invalid, "lance_blobs: the column is missing")
	}
	columns, err := snap.Schema().Project([]string{column})
	if err != nil {
		return nil, fmt.Errorf("lance_blobs: %w", err)
	}
	holds := false
	for range columns[0].Field.Blobs() {
		holds = true
	}
	if !holds {
		return nil, fault.New(fault.Invalid, "lance_blobs: column %q holds no blobs", column)
	}
	usage, err := snap.BlobUsage(r.ctx, []string{column}, true)
	if err != nil {
		return nil, fmt.Errorf("lance_blobs: %w", err)
	}
	s := newSheet("column", words, "kind", words, "object", words, "count", count, "bytes", count)
	for _, u := range usage {
		var object any
		if u.Object != "" {
			object = u.Object
		}
		s.add(u.Column, u.Kind.String(), object, u.Count, u.Bytes)
	}
	return s.rows(), nil
}

func orMain(branch string) string {
	if branch == "" {
		return "main"
	}
	return branch
}

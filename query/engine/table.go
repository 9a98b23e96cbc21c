package engine

// #include "bridge.h"
import "C"

import (
	"errors"
	"io"
	"runtime/cgo"
	"slices"
	"sync"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/cdata"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/flightblob/flightblob/internal/fault"
)

// Provider answers table functions. Its methods may be called from any of the
// engine's threads.
type Provider interface {
	// Bind finds the rows that a call means. An error fails the statement; who
	// wants it back with its kind keeps it.
	Bind(call Call) (Relation, error)
}

// Call is one use of a table function.
type Call struct {
	Conn     uint64 // Conn.ID
	Function string
	Args     []string          // positional arguments as text, NULL as ""
	Named    map[string]string // named ones that are given
}

// Relation is rows that can be read, perhaps several times.
type Relation interface {
	// Schema is that of all columns. Types are those of Enters; references are
	// marked by KeyReference; no two names are equal but for case.
	Schema() *arrow.Schema
	// Rows is the exact number of rows, -1 = unknown.
	Rows() int64
	// Scan starts to read columns by their numbers, in that order; none at all
	// means that rows are only counted. Positions are not among them.
	Scan(columns []int) (Batches, error)
}

// Batches are the rows of one scan.
type Batches interface {
	// Next gives the next batch, io.EOF at the end. Calls come one at a time.
	Next() (Batch, error)
	// Close ends the scan.
	Close()
}

// Batch is a batch that is made when the engine takes it. Several may be made
// at once, on different threads.
type Batch interface {
	// Make gives the rows. It is called once. The engine releases them when it
	// needs them no more.
	Make() (Made, error)
}

// Made is a batch that the engine takes. A column of text or bytes may come as a
// dictionary array of what the relation's schema says, with indices of type
// uint32 that are not null; null is an item of the dictionary then.
type Made struct {
	Rows arrow.RecordBatch
	// Window is how many rows the engine may take at a time, 0 = as many as it
	// likes.
	Window int
	// First is the position of the first row, see KeyPosition. The others follow
	// it, unless Positions lists all of them.
	First     uint64
	Positions []uint64
}

// Make implements Batch for one that needs no making.
func (m Made) Make() (Made, error) { return m, nil }

// TableFunction is a table function to register. All arguments are text.
type TableFunction struct {
	Name  string
	Args  int
	Named map[string]TypeID
}

// extra is what the engine gives back to callbacks of a function: a number in C
// memory, which stands for a Go value.
func extra(v any) unsafe.Pointer {
	p := (*C.uintptr_t)(C.malloc(C.sizeof_uintptr_t))
	*p = C.uintptr_t(cgo.NewHandle(v))
	return unsafe.Pointer(p)
}

func valueOf[T any](p unsafe.Pointer) T {
	return cgo.Handle(*(*C.uintptr_t)(p)).Value().(T)
}

//export fbDropHandle
func fbDropHandle(p unsafe.Pointer) {
	cgo.Handle(*(*C.uintptr_t)(p)).Delete()
	C.free(p)
}

type tableFunction struct {
	TableFunction
	db *DB
}

func (c *Conn) registerTable(spec TableFunction) error {
	f := C.duckdb_create_table_function()
	defer C.duckdb_destroy_table_function(&f)
	name := C.CString(spec.Name)
	defer C.free(unsafe.Pointer(name))
	C.duckdb_table_function_set_name(f, name)
	text := C.duckdb_create_logical_type(C.int(TypeVarchar))
	defer C.duckdb_destroy_logical_type(&text)
	for range spec.Args {
		C.duckdb_table_function_add_parameter(f, text)
	}
	for named, id := range spec.Named {
		cName := C.CString(named)
		lt := C.duckdb_create_logical_type(C.int(id))
		C.duckdb_table_function_add_named_parameter(f, cName, lt)
		C.duckdb_destroy_logical_type(&lt)
		C.free(unsafe.Pointer(cName))
	}
	C.duckdb_table_function_set_extra_info(f, extra(&tableFunction{spec, c.db}), C.duckdb_delete_callback_t(C.fbDropHandle))
	C.duckdb_table_function_set_bind(f, C.duckdb_table_function_bind_t(C.fbBind))
	C.duckdb_table_function_set_init(f, C.duckdb_table_function_init_t(C.fbInit))
	C.duckdb_table_function_set_local_init(f, C.duckdb_table_function_init_t(C.fb_scan_local_init))
	C.duckdb_table_function_set_function(f, C.duckdb_table_function_t(C.fb_scan_function))
	C.duckdb_table_function_supports_projection_pushdown(f, true)
	if C.duckdb_register_table_function(c.conn, f) != C.DuckDBSuccess {
		return fault.New(fault.Internal, "engine: function %s cannot be registered", spec.Name)
	}
	return nil
}

// bound is a relation as the engine keeps it with a plan.
type bound struct {
	db       *DB
	relation Relation
}

//export fbBind
func fbBind(info C.duckdb_bind_info) {
	f := valueOf[*tableFunction](C.duckdb_bind_get_extra_info(info))
	if err := protect(func() error { return f.bind(info) }); err != nil {
		text := C.CString(mark + err.Error())
		C.duckdb_bind_set_error(info, text)
		C.free(unsafe.Pointer(text))
	}
}

func (f *tableFunction) bind(info C.duckdb_bind_info) error {
	call := Call{Function: f.Name, Named: map[string]string{}}
	var context C.duckdb_client_context
	C.duckdb_table_function_get_client_context(info, &context)
	call.Conn = uint64(C.duckdb_client_context_get_connection_id(context))
	C.duckdb_destroy_client_context(&context)
	for i := range C.duckdb_bind_get_parameter_count(info) {
		text, _ := textOf(C.duckdb_bind_get_parameter(info, i))
		call.Args = append(call.Args, text)
	}
	for named := range f.Named {
		cName := C.CString(named)
		text, given := textOf(C.duckdb_bind_get_named_parameter(info, cName))
		C.free(unsafe.Pointer(cName))
		if given {
			call.Named[named] = text
		}
	}
	relation, err := f.db.provider.Bind(call)
	if err != nil {
		return err
	}
	for _, field := range relation.Schema().Fields() {
		lt, err := logicalType(field)
		if err != nil {
			return err
		}
		name := C.CString(field.Name)
		C.duckdb_bind_add_result_column(info, name, lt)
		C.free(unsafe.Pointer(name))
		C.duckdb_destroy_logical_type(&lt)
	}
	if rows := relation.Rows(); rows >= 0 {
		C.duckdb_bind_set_cardinality(info, C.idx_t(rows), true)
	}
	C.duckdb_bind_set_bind_data(info, extra(&bound{f.db, relation}), C.duckdb_delete_callback_t(C.fbDropHandle))
	return nil
}

// textOf reads a value as text and destroys it.
func textOf(v C.duckdb_value) (string, bool) {
	if v == nil {
		return "", false
	}
	defer C.duckdb_destroy_value(&v)
	if C.duckdb_is_null_value(v) {
		return "", false
	}
	text := C.duckdb_get_varchar(v)
	defer C.duckdb_free(unsafe.Pointer(text))
	return C.GoString(text), true
}

//export fbInit
func fbInit(info C.duckdb_init_info) {
	b := valueOf[*bound](C.duckdb_init_get_bind_data(info))
	if err := protect(func() error { return b.init(info) }); err != nil {
		text := C.CString(mark + err.Error())
		C.duckdb_init_set_error(info, text)
		C.free(unsafe.Pointer(text))
	}
}

// scan is the Go side of one run of a table function.
type scan struct {
	mu      sync.Mutex
	batches Batches
	end     error
}

func (b *bound) init(info C.duckdb_init_info) error {
	fields := b.relation.Schema().Fields()
	n := int(C.duckdb_init_get_column_count(info))
	source := make([]C.int64_t, n)
	var columns []int
	for i := range n {
		at := uint64(C.duckdb_init_get_column_index(info, C.idx_t(i)))
		switch {
		case at >= uint64(len(fields)) || fields[at].Metadata.FindKey(KeyVirtual) >= 0:
			source[i] = C.FB_COUNTED
			continue
		case fields[at].Metadata.FindKey(KeyPosition) >= 0:
			source[i] = C.FB_POSITION
			continue
		}
		source[i] = C.int64_t(len(columns))
		columns = append(columns, int(at))
	}
	schemas := make([]C.duckdb_arrow_converted_schema, len(columns))
	free := func() {
		for i := range schemas {
			if schemas[i] != nil {
				C.duckdb_destroy_arrow_converted_schema(&schemas[i])
			}
		}
	}
	for i, at := range columns {
		if err := b.db.convert(fields[at], &schemas[i]); err != nil {
			free()
			return err
		}
	}
	batches, err := b.relation.Scan(columns)
	if err != nil {
		free()
		return err
	}
	s := (*C.fb_scan)(C.calloc(1, C.sizeof_fb_scan))
	s.handle = C.uintptr_t(cgo.NewHandle(&scan{batches: batches}))
	s.aux = b.db.aux.conn
	s.columns, s.source = C.idx_t(n), cArray(source)
	s.children, s.schemas = C.idx_t(len(schemas)), cArray(schemas)
	var shapes []C.int32_t
	starts, nodes := make([]C.int64_t, len(columns)), make([]C.int64_t, len(columns))
	for i, at := range columns {
		starts[i] = -1
		if shape := shapeOf(nil, fields[at].Type); structInStruct(fields[at].Type) {
			starts[i], nodes[i] = C.int64_t(len(shapes)), C.int64_t(len(shape))
			shapes = append(shapes, shape...)
		}
	}
	s.shapes, s.shape, s.nodes = cArray(shapes), cArray(starts), cArray(nodes)
	C.duckdb_init_set_init_data(info, unsafe.Pointer(s), C.duckdb_delete_callback_t(C.fb_scan_free))
	C.duckdb_init_set_max_threads(info, C.idx_t(b.db.threads))
	return nil
}

// shapeOf is the shape of a column as fb_scan has it.
func shapeOf(shape []C.int32_t, dt arrow.DataType) []C.int32_t {
	st, ok := dt.(*arrow.StructType)
	if !ok {
		return append(shape, 0)
	}
	shape = append(shape, C.int32_t(st.NumFields()))
	for _, f := range st.Fields() {
		shape = shapeOf(shape, f.Type)
	}
	return shape
}

// structInStruct says that a column is a struct with a struct right below it.
func structInStruct(dt arrow.DataType) bool {
	st, ok := dt.(*arrow.StructType)
	return ok && slices.ContainsFunc(st.Fields(), func(f arrow.Field) bool { return f.Type.ID() == arrow.STRUCT })
}

// convert tells the engine the Arrow type of a column, without its metadata:
// names of extension types would change how it is read.
func (db *DB) convert(f arrow.Field, out *C.duckdb_arrow_converted_schema) error {
	db.converting.Lock()
	defer db.converting.Unlock()
	schema := (*C.struct_ArrowSchema)(C.calloc(1, C.sizeof_struct_ArrowSchema))
	defer C.free(unsafe.Pointer(schema))
	exported := (*cdata.CArrowSchema)(unsafe.Pointer(schema))
	cdata.ExportArrowSchema(arrow.NewSchema([]arrow.Field{{Name: "c", Type: bare(f.Type), Nullable: true}}, nil), exported)
	defer cdata.ReleaseCArrowSchema(exported)
	var converted C.duckdb_arrow_converted_schema
	err := db.check(C.duckdb_schema_from_arrow(db.aux.conn, schema, &converted))
	*out = converted
	return err
}

// bare is a type without metadata at any depth.
func bare(dt arrow.DataType) arrow.DataType {
	field := func(f arrow.Field) arrow.Field {
		return arrow.Field{Name: f.Name, Type: bare(f.Type), Nullable: true}
	}
	switch dt := dt.(type) {
	case *arrow.StructType:
		fields := make([]arrow.Field, dt.NumFields())
		for i := range fields {
			fields[i] = field(dt.Field(i))
		}
		return arrow.StructOf(fields...)
	case *arrow.ListType:
		return arrow.ListOfField(field(dt.ElemField()))
	case *arrow.LargeListType:
		return arrow.LargeListOfField(field(dt.ElemField()))
	case *arrow.FixedSizeListType:
		return arrow.FixedSizeListOfField(dt.Len(), field(dt.ElemField()))
	case *arrow.MapType:
		key := field(dt.KeyField())
		key.Nullable = false
		return arrow.MapOfFields(key, field(dt.ItemField()))
	}
	return dt
}

//export fbNextBatch
func fbNextBatch(handle C.uintptr_t, out *C.fb_batch, text **C.char) C.int {
	s := cgo.Handle(handle).Value().(*scan)
	err := protect(func() error { return s.next(out) })
	switch {
	case err == nil:
		return 1
	case errors.Is(err, io.EOF):
		return 0
	}
	s.fail(err)
	*text = C.CString(mark + err.Error())
	return -1
}

// take gives the next batch to one of the engine's threads.
func (s *scan) take() (b Batch, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end == nil {
		s.end = protect(func() (err error) {
			b, err = s.batches.Next()
			return err
		})
	}
	return b, s.end
}

// fail ends the scan for all threads.
func (s *scan) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = err
}

func (s *scan) next(out *C.fb_batch) error {
	for {
		taken, err := s.take()
		if err != nil {
			return err
		}
		made, err := taken.Make()
		if err != nil {
			return err
		}
		batch := made.Rows
		if batch.NumRows() == 0 {
			batch.Release()
			continue
		}
		out.window, out.first = C.int64_t(made.Window), C.uint64_t(made.First)
		if made.Positions != nil {
			batch, out.listed = withPositions(batch, made.Positions), true
		}
		if batch.NumCols() == 0 {
			out.root.length = C.int64_t(batch.NumRows())
			batch.Release()
			return nil
		}
		whole := rebased(batch)
		batch.Release()
		cdata.ExportArrowRecordBatch(whole, (*cdata.CArrowArray)(unsafe.Pointer(&out.root)), nil)
		whole.Release()
		return nil
	}
}

// withPositions adds a column of positions to a batch, which it releases.
func withPositions(batch arrow.RecordBatch, positions []uint64) arrow.RecordBatch {
	defer batch.Release()
	values := memory.NewBufferBytes(arrow.Uint64Traits.CastToBytes(positions))
	data := array.NewData(arrow.PrimitiveTypes.Uint64, len(positions), []*memory.Buffer{nil, values}, nil, 0, 0)
	defer data.Release()
	column := array.MakeFromData(data)
	defer column.Release()
	fields := append(batch.Schema().Fields(), arrow.Field{Name: "positions", Type: arrow.PrimitiveTypes.Uint64})
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), append(batch.Columns()[:batch.NumCols():batch.NumCols()], column), batch.NumRows())
}

//export fbCloseScan
func fbCloseScan(handle C.uintptr_t) {
	h := cgo.Handle(handle)
	_ = protect(func() error {
		h.Value().(*scan).batches.Close()
		return nil
	})
	h.Delete()
}

// protect turns a panic into an error: it must not unwind through C.
func protect(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.New(fault.Internal, "engine: unexpected failure: %v", p)
		}
	}()
	if err := f(); err != nil {
		return err
	}
	return nil
}

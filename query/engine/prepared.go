package engine

// #include "bridge.h"
import "C"

import (
	"context"
	"fmt"
	"strings"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/cdata"

	"github.com/flightblob/flightblob/internal/fault"
)

// Prepared is one statement, bound to what its names meant when it was made.
type Prepared struct {
	conn *Conn
	p    C.duckdb_prepared_statement
}

// Prepare parses and binds one statement.
func (c *Conn) Prepare(ctx context.Context, sql string) (*Prepared, error) {
	if strings.IndexByte(sql, 0) >= 0 {
		return nil, fault.New(fault.Invalid, "query: the statement holds a NUL character")
	}
	defer c.watch(ctx)()
	text := C.CString(sql)
	defer C.free(unsafe.Pointer(text))
	p := &Prepared{conn: c}
	if C.duckdb_prepare(c.conn, text, &p.p) != C.DuckDBSuccess {
		err := c.failure(ctx, C.GoString(C.duckdb_prepare_error(p.p)))
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close forgets the statement; its results must be closed.
func (p *Prepared) Close() {
	if p.p != nil {
		C.duckdb_destroy_prepare(&p.p)
	}
}

// Kind is the engine's number of the kind of statement.
func (p *Prepared) Kind() int { return int(C.duckdb_prepared_statement_type(p.p)) }

// Columns are those of the result.
func (p *Prepared) Columns() []Field {
	fields := make([]Field, int(C.duckdb_prepared_statement_column_count(p.p)))
	for i := range fields {
		name := C.duckdb_prepared_statement_column_name(p.p, C.idx_t(i))
		fields[i] = Field{C.GoString(name), typeOf(C.duckdb_prepared_statement_column_logical_type(p.p, C.idx_t(i)))}
		C.duckdb_free(unsafe.Pointer(name))
	}
	return fields
}

// Params are the parameters in order of their numbers; the name of a positional
// one is its number.
func (p *Prepared) Params() []Field {
	fields := make([]Field, int(C.duckdb_nparams(p.p)))
	for i := range fields {
		name := C.duckdb_parameter_name(p.p, C.idx_t(i+1))
		fields[i] = Field{C.GoString(name), typeOf(C.duckdb_param_logical_type(p.p, C.idx_t(i+1)))}
		C.duckdb_free(unsafe.Pointer(name))
	}
	return fields
}

// Bind sets parameter i, counted from 0, to a value as of valueFrom. The engine
// casts it to the parameter's type.
func (p *Prepared) Bind(i int, v any) error {
	value, err := p.valueFor(i, v)
	if err != nil {
		return err
	}
	defer C.duckdb_destroy_value(&value)
	if C.duckdb_bind_value(p.p, C.idx_t(i+1), value) != C.DuckDBSuccess {
		return p.conn.db.classify(C.GoString(C.duckdb_prepare_error(p.p)))
	}
	return nil
}

// valueFor makes a value of exactly the type that a parameter has, if a number
// has one there: the engine plans a statement again for values of other types.
func (p *Prepared) valueFor(i int, v any) (C.duckdb_value, error) {
	lt := C.duckdb_param_logical_type(p.p, C.idx_t(i+1))
	id := TypeInvalid
	if lt != nil {
		id = TypeID(C.duckdb_get_type_id(lt))
		C.duckdb_destroy_logical_type(&lt)
	}
	switch n := v.(type) {
	case int64:
		if Fits(id, n < 0, uint64(n)) {
			return whole(id, n, n < 0), nil
		}
	case uint64:
		if Fits(id, false, n) {
			return whole(id, int64(n), false), nil
		}
	case float64:
		if id == TypeFloat && float64(float32(n)) == n {
			return C.duckdb_create_float(C.float(n)), nil
		}
	}
	return valueFrom(v)
}

// wholes are the bits of the types of whole numbers, negative for those with a
// sign.
var wholes = map[TypeID]int{
	TypeTinyInt: -8, TypeSmallInt: -16, TypeInteger: -32, TypeBigInt: -64, TypeHugeInt: -128,
	TypeUTinyInt: 8, TypeUSmallInt: 16, TypeUInteger: 32, TypeUBigInt: 64,
}

// Fits says whether a type has a whole number, given as it is or, if negative, in
// two's complement.
func Fits(t TypeID, negative bool, n uint64) bool {
	bits := wholes[t]
	switch {
	case bits == 0:
		return false
	case bits < -64:
		return true
	case negative:
		return bits < 0 && int64(n) >= -1<<(-bits-1)
	case bits < 0:
		return n>>(-bits-1) == 0
	}
	return bits == 64 || n>>bits == 0
}

func whole(t TypeID, n int64, negative bool) C.duckdb_value {
	switch t {
	case TypeTinyInt:
		return C.duckdb_create_int8(C.int8_t(n))
	case TypeSmallInt:
		return C.duckdb_create_int16(C.int16_t(n))
	case TypeInteger:
		return C.duckdb_create_int32(C.int32_t(n))
	case TypeUTinyInt:
		return C.duckdb_create_uint8(C.uint8_t(n))
	case TypeUSmallInt:
		return C.duckdb_create_uint16(C.uint16_t(n))
	case TypeUInteger:
		return C.duckdb_create_uint32(C.uint32_t(n))
	case TypeUBigInt:
		return C.duckdb_create_uint64(C.uint64_t(n))
	case TypeHugeInt:
		huge := C.duckdb_hugeint{lower: C.uint64_t(n)}
		if negative {
			huge.upper = -1
		}
		return C.duckdb_create_hugeint(huge)
	}
	return C.duckdb_create_int64(C.int64_t(n))
}

// valueFrom makes a value of nil, bool, int64, uint64, float64, string, []byte,
// or []any of texts, nils and such lists. The caller destroys it.
func valueFrom(v any) (C.duckdb_value, error) {
	switch v := v.(type) {
	case nil:
		return C.duckdb_create_null_value(), nil
	case bool:
		return C.duckdb_create_bool(C.bool(v)), nil
	case int64:
		return C.duckdb_create_int64(C.int64_t(v)), nil
	case uint64:
		return C.duckdb_create_uint64(C.uint64_t(v)), nil
	case float64:
		return C.duckdb_create_double(C.double(v)), nil
	case string:
		text := C.CString(v)
		defer C.free(unsafe.Pointer(text))
		return C.duckdb_create_varchar_length(text, C.idx_t(len(v))), nil
	case []byte:
		data := C.CBytes(v)
		defer C.free(data)
		return C.duckdb_create_blob((*C.uint8_t)(data), C.idx_t(len(v))), nil
	case []any:
		return listFrom(v)
	}
	return nil, fault.New(fault.Internal, "engine: a parameter of %T", v)
}

// listFrom makes a list of texts, or of lists of the same depth.
func listFrom(items []any) (C.duckdb_value, error) {
	values := make([]C.duckdb_value, len(items))
	defer func() {
		for i := range values {
			if values[i] != nil {
				C.duckdb_destroy_value(&values[i])
			}
		}
	}()
	for i, item := range items {
		var err error
		if values[i], err = valueFrom(item); err != nil {
			return nil, err
		}
	}
	lt := C.duckdb_create_logical_type(C.int(TypeVarchar))
	defer func() { C.duckdb_destroy_logical_type(&lt) }()
	for range depthOf(items) - 1 {
		list := C.duckdb_create_list_type(lt)
		C.duckdb_destroy_logical_type(&lt)
		lt = list
	}
	array := cArray(values)
	defer C.free(unsafe.Pointer(array))
	value := C.duckdb_create_list_value(lt, array, C.idx_t(len(values)))
	if value == nil {
		return nil, fault.New(fault.Invalid, "query: a list of lists of different depths cannot be bound")
	}
	return value, nil
}

// depthOf counts the levels of lists.
func depthOf(items []any) int {
	deepest := 0
	for _, item := range items {
		if list, ok := item.([]any); ok {
			deepest = max(deepest, depthOf(list))
		}
	}
	return deepest + 1
}

// Execute starts the statement. Its result is computed while it is read.
func (p *Prepared) Execute(ctx context.Context) (*Result, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	defer p.conn.watch(ctx)()
	var pending C.duckdb_pending_result
	defer C.duckdb_destroy_pending(&pending)
	if C.duckdb_pending_prepared_streaming(p.p, &pending) != C.DuckDBSuccess {
		return nil, p.conn.failure(ctx, C.GoString(C.duckdb_pending_error(pending)))
	}
	r := &Result{conn: p.conn, r: newResult()}
	if C.fb_execute(pending, r.r) != C.DuckDBSuccess {
		text := C.GoString(C.duckdb_pending_error(pending))
		if text == "" {
			text = C.GoString(C.duckdb_result_error(r.r))
		}
		r.Close()
		return nil, p.conn.failure(ctx, text)
	}
	if err := r.describe(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Result is a result that is being computed.
type Result struct {
	conn    *Conn
	r       *C.duckdb_result
	options C.duckdb_arrow_options
	columns []Field
	schema  *arrow.Schema
	ended   bool // asking the engine again would be an error
}

// Columns are the result's names and types.
func (r *Result) Columns() []Field { return r.columns }

// Schema is the Arrow schema of the batches: DuckDB's own choice of types,
// offsets of 64 bits, references as plain structs.
func (r *Result) Schema() *arrow.Schema { return r.schema }

// Close ends the result, also before its end.
func (r *Result) Close() {
	if r.options != nil {
		C.duckdb_destroy_arrow_options(&r.options)
	}
	if r.r != nil {
		freeResult(r.r)
		r.r = nil
	}
}

func (r *Result) describe() error {
	n := int(C.duckdb_column_count(r.r))
	types, names := make([]C.duckdb_logical_type, n), make([]string, n)
	r.columns = make([]Field, n)
	for i := range n {
		names[i] = C.GoString(C.duckdb_column_name(r.r, C.idx_t(i)))
		types[i] = C.duckdb_column_logical_type(r.r, C.idx_t(i))
		r.columns[i] = Field{names[i], typeOf(C.duckdb_column_logical_type(r.r, C.idx_t(i)))}
	}
	C.duckdb_connection_get_arrow_options(r.conn.conn, &r.options)
	var err error
	r.schema, err = r.conn.arrowSchema(r.options, names, types)
	return err
}

// Schema is the Arrow schema that the result will have, as Result.Schema. All
// types must be known.
func (p *Prepared) Schema() (*arrow.Schema, error) {
	n := int(C.duckdb_prepared_statement_column_count(p.p))
	types, names := make([]C.duckdb_logical_type, n), make([]string, n)
	for i := range n {
		name := C.duckdb_prepared_statement_column_name(p.p, C.idx_t(i))
		names[i] = C.GoString(name)
		C.duckdb_free(unsafe.Pointer(name))
		types[i] = C.duckdb_prepared_statement_column_logical_type(p.p, C.idx_t(i))
	}
	var options C.duckdb_arrow_options
	C.duckdb_connection_get_arrow_options(p.conn.conn, &options)
	defer C.duckdb_destroy_arrow_options(&options)
	return p.conn.arrowSchema(options, names, types)
}

// arrowSchema asks the engine for its Arrow schema of types, and destroys them.
func (c *Conn) arrowSchema(options C.duckdb_arrow_options, names []string, types []C.duckdb_logical_type) (*arrow.Schema, error) {
	texts := make([]*C.char, len(names))
	defer func() {
		for i := range types {
			C.duckdb_destroy_logical_type(&types[i])
			C.free(unsafe.Pointer(texts[i]))
		}
	}()
	for i, n := range names {
		texts[i] = C.CString(n)
	}
	cTypes, cNames := cArray(types), cArray(texts)
	defer C.free(unsafe.Pointer(cTypes))
	defer C.free(unsafe.Pointer(cNames))
	schema := (*C.struct_ArrowSchema)(C.calloc(1, C.sizeof_struct_ArrowSchema))
	defer C.free(unsafe.Pointer(schema))
	if err := c.db.check(C.duckdb_to_arrow_schema(options, cTypes, cNames, C.idx_t(len(types)), schema)); err != nil {
		return nil, err
	}
	s, err := cdata.ImportCArrowSchema((*cdata.CArrowSchema)(unsafe.Pointer(schema)))
	if err != nil {
		return nil, fault.New(fault.Unsupported, "query: the result's types: %w", err)
	}
	return s, nil
}

// check turns the engine's error value into an error and frees it.
func (db *DB) check(e C.duckdb_error_data) error {
	if e == nil {
		return nil
	}
	defer C.duckdb_destroy_error_data(&e)
	if !C.duckdb_error_data_has_error(e) {
		return nil
	}
	return db.classify(C.GoString(C.duckdb_error_data_message(e)))
}

// Next computes the next batch, at most 2048 rows, nil at the end. The caller
// releases it.
func (r *Result) Next(ctx context.Context) (arrow.RecordBatch, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	chunk, err := r.fetch(ctx)
	if chunk == nil || err != nil {
		return nil, err
	}
	defer C.duckdb_destroy_data_chunk(&chunk)
	out := (*C.struct_ArrowArray)(C.calloc(1, C.sizeof_struct_ArrowArray))
	defer C.free(unsafe.Pointer(out))
	if err := r.conn.db.check(C.duckdb_data_chunk_to_arrow(r.options, chunk, out)); err != nil {
		return nil, err
	}
	array := (*cdata.CArrowArray)(unsafe.Pointer(out))
	batch, err := cdata.ImportCRecordBatchWithSchema(array, r.schema)
	if err != nil {
		cdata.ReleaseCArrowArray(array)
		return nil, fault.New(fault.Internal, "engine: a chunk of the result: %w", err)
	}
	return batch, nil
}

func (r *Result) fetch(ctx context.Context) (C.duckdb_data_chunk, error) {
	if r.ended {
		return nil, nil
	}
	defer r.conn.watch(ctx)()
	for {
		chunk := C.duckdb_fetch_chunk(*r.r)
		if chunk == nil {
			r.ended = true
			if text := C.duckdb_result_error(r.r); text != nil && *text != 0 {
				return nil, r.conn.failure(ctx, C.GoString(text))
			}
			return nil, context.Cause(ctx)
		}
		if C.duckdb_data_chunk_get_size(chunk) > 0 {
			return chunk, nil
		}
		C.duckdb_destroy_data_chunk(&chunk)
	}
}

// text gives the first value of the first row, "" for NULL.
func (r *Result) text(ctx context.Context) (string, error) {
	chunk, err := r.fetch(ctx)
	if chunk == nil || err != nil {
		return "", err
	}
	defer C.duckdb_destroy_data_chunk(&chunk)
	if len(r.columns) == 0 || r.columns[0].Type.ID != TypeVarchar {
		return "", fmt.Errorf("engine: the statement's first column is no text")
	}
	v := vectorOf(C.duckdb_data_chunk_get_vector(chunk, 0), 1)
	if v.isNull(0) {
		return "", nil
	}
	return v.text(0), nil
}

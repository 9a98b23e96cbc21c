package engine

// #include "bridge.h"
import "C"

import (
	"math"
	"runtime/cgo"
	"unsafe"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/reference"
)

// Giver is a Provider whose statements may give values to a write, by the
// function blob_ref(uri [, position, size]).
type Giver interface {
	// GivenBy is the source number of values that statements on a connection
	// give, an error for those that may give none. It may be called from any of
	// the engine's threads.
	GivenBy(conn uint64) (uint32, error)
}

// refFunction makes a reference of a URI.
const refFunction = "blob_ref"

// registerGiven registers both forms of blob_ref.
func (c *Conn) registerGiven(giver Giver) error {
	name := C.CString(refFunction)
	defer C.free(unsafe.Pointer(name))
	set := C.duckdb_create_scalar_function_set(name)
	defer C.duckdb_destroy_scalar_function_set(&set)
	for _, args := range [][]TypeID{{TypeVarchar}, {TypeVarchar, TypeHugeInt, TypeHugeInt}} {
		f := C.duckdb_create_scalar_function()
		C.duckdb_scalar_function_set_name(f, name)
		C.duckdb_scalar_function_set_special_handling(f) // nulls are handled here
		for _, id := range args {
			lt := C.duckdb_create_logical_type(C.int(id))
			C.duckdb_scalar_function_add_parameter(f, lt)
			C.duckdb_destroy_logical_type(&lt)
		}
		lt, err := referenceType()
		if err != nil {
			C.duckdb_destroy_scalar_function(&f)
			return err
		}
		C.duckdb_scalar_function_set_return_type(f, lt)
		C.duckdb_destroy_logical_type(&lt)
		C.duckdb_scalar_function_set_extra_info(f, extra(&given{db: c.db, giver: giver}), C.duckdb_delete_callback_t(C.fbDropHandle))
		C.duckdb_scalar_function_set_bind(f, C.duckdb_scalar_function_bind_t(C.fbGivenBind))
		C.duckdb_scalar_function_set_function(f, C.duckdb_scalar_function_t(C.fbGiven))
		state := C.duckdb_add_scalar_function_to_set(set, f)
		C.duckdb_destroy_scalar_function(&f)
		if state != C.DuckDBSuccess {
			return fault.New(fault.Internal, "engine: an overload of function %s cannot be registered", refFunction)
		}
	}
	if C.duckdb_register_scalar_function_set(c.conn, set) != C.DuckDBSuccess {
		return fault.New(fault.Internal, "engine: function %s cannot be registered", refFunction)
	}
	return nil
}

// given is blob_ref.
type given struct {
	db    *DB
	giver Giver
}

// givenBy is one use of it: the number of the statement that uses it.
type givenBy struct {
	db     *DB
	source uint32
}

//export fbGivenBind
func fbGivenBind(info C.duckdb_bind_info) {
	g := valueOf[*given](C.duckdb_scalar_function_bind_get_extra_info(info))
	err := protect(func() error {
		var context C.duckdb_client_context
		C.duckdb_scalar_function_get_client_context(info, &context)
		conn := uint64(C.duckdb_client_context_get_connection_id(context))
		C.duckdb_destroy_client_context(&context)
		source, err := g.giver.GivenBy(conn)
		if err != nil {
			return err
		}
		C.duckdb_scalar_function_set_bind_data(info, extra(&givenBy{g.db, source}), C.duckdb_delete_callback_t(C.fbDropHandle))
		C.duckdb_scalar_function_set_bind_data_copy(info, C.duckdb_copy_callback_t(C.fb_copy_handle))
		return nil
	})
	if err != nil {
		text := C.CString(mark + err.Error())
		C.duckdb_scalar_function_bind_set_error(info, text)
		C.free(unsafe.Pointer(text))
	}
}

// fbSameHandle gives another number for the same Go value.
//
//export fbSameHandle
func fbSameHandle(h C.uintptr_t) C.uintptr_t {
	return C.uintptr_t(cgo.NewHandle(cgo.Handle(h).Value()))
}

//export fbGiven
func fbGiven(info C.duckdb_function_info, input C.duckdb_data_chunk, output C.duckdb_vector) {
	err := protect(func() error {
		by := valueOf[*givenBy](C.duckdb_scalar_function_get_bind_data(info))
		return by.run(input, output)
	})
	if err != nil {
		text := C.CString(mark + err.Error())
		C.duckdb_scalar_function_set_error(info, text)
		C.free(unsafe.Pointer(text))
	}
}

// run makes references of URIs. A null URI is a null value. What is wrong with
// a value that can be told is left to the column that takes it, whose errors
// know its place.
func (g *givenBy) run(input C.duckdb_data_chunk, output C.duckdb_vector) error {
	n := int(C.duckdb_data_chunk_get_size(input))
	uris := vectorOf(C.duckdb_data_chunk_get_vector(input, 0), n)
	var numbers [2]vector
	ranged := C.duckdb_data_chunk_get_column_count(input) > 1
	if ranged {
		for i := range numbers {
			numbers[i] = vectorOf(C.duckdb_data_chunk_get_vector(input, C.idx_t(i+1)), n)
		}
	}
	out := vectorOf(output, n)
	var children [reference.TagChild + 1]vector
	for i := range children {
		children[i] = out.child(i)
	}
	kind, id := values[uint8](children[0]), values[uint32](children[3])
	ends := [2][]uint64{values[uint64](children[1]), values[uint64](children[2])}
	source, tag := values[uint32](children[reference.SourceChild]), values[uint64](children[reference.TagChild])
	var scratch []byte
	for i := range n {
		if uris.isNull(i) {
			out.setNull(i)
			for c := range children { // nulls of a struct hold in its children too
				children[c].setNull(i)
			}
			continue
		}
		v := reference.Value{Source: g.source}
		v.Kind, v.URI = blob.External, uris.view(i)
		for c, name := range [2]string{"position", "size"} {
			if !ranged || numbers[c].isNull(i) {
				children[c+1].setNull(i)
				v.Nulls |= 1 << (c + 1)
				continue
			}
			h := values[huge](numbers[c])[i]
			if h.upper != 0 {
				return fault.New(fault.Invalid, "%s: the %s of %s is %s; it is a whole number from 0 to %d", refFunction, name, fault.Quote(v.URI), h, uint64(math.MaxUint64))
			}
			ends[c][i] = h.lower
		}
		if v.Nulls&2 == 0 {
			v.Position = ends[0][i]
		}
		if v.Nulls&4 == 0 {
			v.Size = ends[1][i]
		}
		kind[i], id[i], source[i] = uint8(v.Kind), 0, v.Source
		children[4].setBytes(i, []byte(v.URI))
		tag[i] = g.db.refs.Tag(&v, &scratch)
	}
	return nil
}

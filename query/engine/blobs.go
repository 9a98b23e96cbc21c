package engine

// #include "bridge.h"
import "C"

import (
	"errors"
	"unsafe"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/reference"
)

// references views a vector of references.
type references struct {
	vector
	kind     []uint8
	position []uint64
	size     []uint64
	id       []uint32
	uri      vector
	source   []uint32
	tag      []uint64
	children [reference.TagChild + 1]vector
}

func referencesOf(v C.duckdb_vector, n int) references {
	r := references{vector: vectorOf(v, n)}
	for i := range r.children {
		r.children[i] = r.child(i)
	}
	r.kind, r.position = values[uint8](r.children[0]), values[uint64](r.children[1])
	r.size, r.id = values[uint64](r.children[2]), values[uint32](r.children[3])
	r.uri = r.children[4]
	r.source, r.tag = values[uint32](r.children[reference.SourceChild]), values[uint64](r.children[reference.TagChild])
	return r
}

// at gives reference i; ok is false for a null value (NUL-2).
func (r *references) at(i int) (v reference.Value, ok bool) {
	if r.isNull(i) || r.children[0].isNull(i) {
		return v, false
	}
	for c := range reference.SourceChild {
		if r.children[c].isNull(i) {
			v.Nulls |= 1 << c
		}
	}
	has := func(c int) bool { return v.Nulls>>c&1 == 0 }
	v.Kind = blob.Kind(r.kind[i])
	if has(1) {
		v.Position = r.position[i]
	}
	if has(2) {
		v.Size = r.size[i]
	}
	if has(3) {
		v.ID = r.id[i]
	}
	if has(4) {
		v.URI = r.uri.view(i)
	}
	if !r.children[reference.SourceChild].isNull(i) {
		v.Source = r.source[i]
	}
	if !r.children[reference.TagChild].isNull(i) {
		v.Tag = r.tag[i]
	}
	return v, true
}

// checked is a reference whose tag was right, nil origin for a null value. Its
// URI lies in the engine's vector and is valid during the call.
type checked struct {
	reference.Value
	origin *reference.Origin
}

// check verifies all references of a vector before anything is opened.
func (db *DB) checkAll(v C.duckdb_vector, n int) ([]checked, error) {
	refs := referencesOf(v, n)
	all := make([]checked, n)
	checker := db.refs.Checker()
	for i := range all {
		value, ok := refs.at(i)
		if !ok {
			continue
		}
		origin, err := checker.Check(&value)
		if err != nil {
			return nil, err
		}
		if origin.Given != nil {
			return nil, errGiven
		}
		all[i] = checked{value, origin}
	}
	return all, nil
}

// errGiven is for functions and casts of values that the statement gives itself.
var errGiven = fault.New(fault.Invalid, "a value that the statement gives to a write, as blob_ref(…) does, is no stored value and no bytes yet: "+
	"put it into a blob column as it is; where rows differ, give bytes and blob_ref(…) in rows of VALUES or statements of their own")

// valueError is an error about one of the values of a step.
type valueError struct {
	index int
	err   error
}

func (e *valueError) Error() string { return e.err.Error() }

func (e *valueError) Unwrap() error { return e.err }

// report lets the statement know the error of a function with its kind, and with
// the row that it is about.
func report(function string, all []checked, err error) error {
	if err == nil {
		return nil
	}
	where := ""
	var v *valueError
	if errors.As(err, &v) && v.index < len(all) && all[v.index].origin != nil && all[v.index].origin.Where != nil {
		if where = all[v.index].origin.Where(all[v.index].Value); where != "" {
			where += ": "
		}
	}
	err = fault.New(fault.KindOf(err), "%s: %s%w", function, where, err)
	for i := range all {
		if o := all[i].origin; o != nil && o.Fail != nil {
			o.Fail(err)
			break
		}
	}
	return err
}

// scalar is a function over a chunk: its first argument is a reference unless
// plain is set.
type scalar struct {
	db      *DB
	name    string
	args    []TypeID // after the first
	plain   bool     // the first argument is a BLOB
	returns TypeID   // TypeStruct = a descriptor
	run     func(db *DB, all []checked, args []vector, out vector) error
}

var scalars = []scalar{
	{name: "blob_descriptor", returns: TypeStruct, run: descriptors},
	{name: "blob_size", returns: TypeUBigInt, run: sizes},
	{name: "blob_size", plain: true, returns: TypeUBigInt, run: nil},
	{name: "octet_length", returns: TypeUBigInt, run: sizes},
	{name: "blob_kind", returns: TypeVarchar, run: kindNames},
	{name: "blob_uri", returns: TypeVarchar, run: uris},
	{name: "blob_range", args: []TypeID{TypeHugeInt, TypeHugeInt}, returns: TypeBlob, run: ranges},
	{name: "blob_bytes", returns: TypeBlob, run: payloads},
}

// BlobFunctions are the names of the functions over references.
func BlobFunctions() []string {
	var names []string
	for _, s := range scalars {
		names = append(names, s.name)
	}
	return names
}

func (c *Conn) registerBlobs() error {
	sets := map[string]C.duckdb_scalar_function_set{}
	defer func() {
		for _, set := range sets {
			C.duckdb_destroy_scalar_function_set(&set)
		}
	}()
	for _, s := range scalars {
		s.db = c.db
		if sets[s.name] == nil {
			name := C.CString(s.name)
			sets[s.name] = C.duckdb_create_scalar_function_set(name)
			C.free(unsafe.Pointer(name))
		}
		if err := s.add(sets[s.name]); err != nil {
			return err
		}
	}
	for name, set := range sets {
		if C.duckdb_register_scalar_function_set(c.conn, set) != C.DuckDBSuccess {
			return fault.New(fault.Internal, "engine: function %s cannot be registered", name)
		}
	}
	if err := c.registerType(); err != nil {
		return err
	}
	return c.registerCasts()
}

// registerType gives references a name in SQL, so that casts can go to types
// that hold some. Values that a statement makes of it bear no tag, and are
// refused like all that are made up.
func (c *Conn) registerType() error {
	lt, err := referenceType()
	if err != nil {
		return err
	}
	defer C.duckdb_destroy_logical_type(&lt)
	if C.duckdb_register_logical_type(c.conn, lt, nil) != C.DuckDBSuccess {
		return fault.New(fault.Internal, "engine: the type %s cannot be registered", reference.TypeName)
	}
	return nil
}

func (s scalar) add(set C.duckdb_scalar_function_set) error {
	f := C.duckdb_create_scalar_function()
	defer C.duckdb_destroy_scalar_function(&f)
	name := C.CString(s.name)
	defer C.free(unsafe.Pointer(name))
	C.duckdb_scalar_function_set_name(f, name)
	C.duckdb_scalar_function_set_special_handling(f) // nulls are handled here
	add := func(lt C.duckdb_logical_type) {
		C.duckdb_scalar_function_add_parameter(f, lt)
		C.duckdb_destroy_logical_type(&lt)
	}
	if s.plain {
		add(C.duckdb_create_logical_type(C.int(TypeBlob)))
	} else {
		lt, err := referenceType()
		if err != nil {
			return err
		}
		add(lt)
	}
	for _, id := range s.args {
		add(C.duckdb_create_logical_type(C.int(id)))
	}
	result := C.duckdb_create_logical_type(C.int(s.returns))
	if s.returns == TypeStruct {
		C.duckdb_destroy_logical_type(&result)
		var err error
		if result, err = logicalType(descriptorField); err != nil {
			return err
		}
	}
	C.duckdb_scalar_function_set_return_type(f, result)
	C.duckdb_destroy_logical_type(&result)
	C.duckdb_scalar_function_set_extra_info(f, extra(&s), C.duckdb_delete_callback_t(C.fbDropHandle))
	C.duckdb_scalar_function_set_function(f, C.duckdb_scalar_function_t(C.fbScalar))
	if C.duckdb_add_scalar_function_to_set(set, f) != C.DuckDBSuccess {
		return fault.New(fault.Internal, "engine: an overload of function %s cannot be registered", s.name)
	}
	return nil
}

//export fbScalar
func fbScalar(info C.duckdb_function_info, input C.duckdb_data_chunk, output C.duckdb_vector) {
	s := valueOf[*scalar](C.duckdb_scalar_function_get_extra_info(info))
	if err := protect(func() error { return s.call(input, output) }); err != nil {
		text := C.CString(mark + err.Error())
		C.duckdb_scalar_function_set_error(info, text)
		C.free(unsafe.Pointer(text))
	}
}

func (s *scalar) call(input C.duckdb_data_chunk, output C.duckdb_vector) error {
	n := int(C.duckdb_data_chunk_get_size(input))
	out := vectorOf(output, n)
	first := C.duckdb_data_chunk_get_vector(input, 0)
	if s.plain {
		plainSizes(vectorOf(first, n), out)
		return nil
	}
	all, err := s.db.checkAll(first, n)
	if err != nil {
		return err
	}
	var args []vector
	for i := range s.args {
		args = append(args, vectorOf(C.duckdb_data_chunk_get_vector(input, C.idx_t(i+1)), n))
	}
	if err := s.run(s.db, all, args, out); err != nil {
		return report(s.name, all, err)
	}
	return nil
}

// Costs of the implicit casts: a BLOB is a better match than anything else, but
// never better than an overload for references.
const implicitCost = 100

func (c *Conn) registerCasts() error {
	for target, implicit := range map[TypeID]bool{TypeBlob: true, TypeVarchar: false} {
		from, err := referenceType()
		if err != nil {
			return err
		}
		cost := -1
		if implicit {
			cost = implicitCost
		}
		if err := c.registerCast(from, C.duckdb_create_logical_type(C.int(target)), cost, &cast{db: c.db, target: target}); err != nil {
			return err
		}
	}
	// NULL alone is an INTEGER to the engine, and may fill a blob column.
	to, err := referenceType()
	if err != nil {
		return err
	}
	return c.registerCast(C.duckdb_create_logical_type(C.int(TypeInteger)), to, -1, &cast{db: c.db, nulls: true})
}

// registerCast registers one and destroys the types. A negative cost is for a
// cast that is never implicit.
func (c *Conn) registerCast(from, to C.duckdb_logical_type, cost int, run *cast) error {
	f := C.duckdb_create_cast_function()
	defer C.duckdb_destroy_cast_function(&f)
	C.duckdb_cast_function_set_source_type(f, from)
	C.duckdb_cast_function_set_target_type(f, to)
	C.duckdb_destroy_logical_type(&from)
	C.duckdb_destroy_logical_type(&to)
	if cost >= 0 {
		C.duckdb_cast_function_set_implicit_cast_cost(f, C.int64_t(cost))
	}
	C.duckdb_cast_function_set_extra_info(f, extra(run), C.duckdb_delete_callback_t(C.fbDropHandle))
	C.duckdb_cast_function_set_function(f, C.duckdb_cast_function_t(C.fbCast))
	if C.duckdb_register_cast_function(c.conn, f) != C.DuckDBSuccess {
		return fault.New(fault.Internal, "engine: a cast of %s cannot be registered", reference.TypeName)
	}
	return nil
}

type cast struct {
	db     *DB
	target TypeID
	nulls  bool // from INTEGER to references, of nulls alone
}

//export fbCast
func fbCast(info C.duckdb_function_info, count C.idx_t, input, output C.duckdb_vector) C.bool {
	c := valueOf[*cast](C.duckdb_cast_function_get_extra_info(info))
	err := protect(func() error { return c.run(int(count), input, output) })
	if err != nil {
		text := C.CString(mark + err.Error())
		C.duckdb_cast_function_set_error(info, text)
		C.free(unsafe.Pointer(text))
	}
	return err == nil
}

func (c *cast) run(n int, input, output C.duckdb_vector) error {
	if c.nulls {
		return onlyNulls(vectorOf(input, n), vectorOf(output, n))
	}
	if c.target != TypeBlob {
		return fault.New(fault.Invalid, "a blob value has no text form; "+Advice)
	}
	all, err := c.db.checkAll(input, n)
	if err != nil {
		return err
	}
	return report("cast to BLOB", all, payloads(c.db, all, nil, vectorOf(output, n)))
}

// onlyNulls makes null references of nulls.
func onlyNulls(in, out vector) error {
	for i := range in.n {
		if !in.isNull(i) {
			return fault.New(fault.Invalid, "a blob column takes BLOB values, blob columns and blob_ref(…), not the number %d", values[int32](in)[i])
		}
		out.setNull(i)
		for c := range reference.Type.NumFields() { // nulls of a struct hold in its children too
			child := out.child(c)
			child.setNull(i)
		}
	}
	return nil
}

// Advice tells what to write instead of a reference where only bytes, sizes or
// descriptors make sense.
const Advice = "write blob_bytes(b) for its bytes, blob_descriptor(b) for its place, blob_size(b) for its size"

func referenceType() (C.duckdb_logical_type, error) { return logicalType(referenceField) }

package engine

// #include "bridge.h"
import "C"

import (
	"strings"
	"unsafe"
)

// vector views a flat vector of the engine; valid during a callback.
type vector struct {
	v     C.duckdb_vector
	data  unsafe.Pointer
	valid []uint64 // nil = all
	n     int
}

func vectorOf(v C.duckdb_vector, n int) vector {
	x := vector{v: v, data: C.duckdb_vector_get_data(v), n: n}
	if p := C.duckdb_vector_get_validity(v); p != nil {
		x.valid = unsafe.Slice((*uint64)(unsafe.Pointer(p)), (n+63)/64)
	}
	return x
}

func (x vector) isNull(i int) bool { return x.valid != nil && x.valid[i/64]>>(i%64)&1 == 0 }

// child views a struct's child.
func (x vector) child(i int) vector {
	return vectorOf(C.duckdb_struct_vector_get_child(x.v, C.idx_t(i)), x.n)
}

// values gives the fixed-width values.
func values[T any](x vector) []T { return unsafe.Slice((*T)(x.data), x.n) }

// Layout of duckdb_string_t: the length, then up to 12 bytes of text, or 4 of
// them and a pointer.
const (
	stringBytes  = 16
	inlinedBytes = 12
)

// length is that of string or blob i.
func (x vector) length(i int) uint32 { return *(*uint32)(unsafe.Add(x.data, i*stringBytes)) }

// view lends a string or blob; valid as long as the vector is.
func (x vector) view(i int) string {
	n := x.length(i)
	at := unsafe.Add(x.data, i*stringBytes+4)
	if n > inlinedBytes {
		at = *(*unsafe.Pointer)(unsafe.Add(x.data, i*stringBytes+8))
	}
	return unsafe.String((*byte)(at), int(n))
}

// text copies a string or blob out.
func (x vector) text(i int) string { return strings.Clone(x.view(i)) }

// setNull marks value i of an output as null.
func (x *vector) setNull(i int) {
	if x.valid == nil {
		C.duckdb_vector_ensure_validity_writable(x.v)
		x.valid = unsafe.Slice((*uint64)(unsafe.Pointer(C.duckdb_vector_get_validity(x.v))), (x.n+63)/64)
	}
	x.valid[i/64] &^= 1 << (i % 64)
}

// setBytes copies a string or blob in.
func (x vector) setBytes(i int, b []byte) {
	var p *C.char
	if len(b) > 0 {
		p = (*C.char)(unsafe.Pointer(&b[0]))
	} else {
		var none [1]byte
		p = (*C.char)(unsafe.Pointer(&none[0]))
	}
	C.duckdb_vector_assign_string_element_len(x.v, C.idx_t(i), p, C.idx_t(len(b)))
}

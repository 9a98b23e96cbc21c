package blob

import (
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// InputError is a value of a batch that a blob column cannot take. It wraps a
// fault of kind Invalid, or of the kind of what went wrong with its source.
type InputError struct {
	Field    string // dotted name, list items included
	Row      int    // of the batch
	Elements []int  // place in each list on the way, outermost first
	Rule     string // ID in the specification's sheet; "" for failures of a source
	Err      error  // what was seen and what is allowed
}

// Error names the place before the reason.
func (e *InputError) Error() string {
	return fmt.Sprintf("blob: column %s, row %d%s", e.Field, e.Row, e.Reason())
}

// Reason is what stands behind the row: the place in lists, and what is wrong.
func (e *InputError) Reason() string {
	var b strings.Builder
	for i, n := range e.Elements {
		if i == 0 {
			b.WriteString(", element ")
		} else {
			b.WriteByte('.')
		}
		fmt.Fprint(&b, n)
	}
	b.WriteString(": ")
	b.WriteString(strings.TrimPrefix(e.Err.Error(), "blob: "))
	if e.Rule != "" {
		fmt.Fprintf(&b, " (%s)", e.Rule)
	}
	return b.String()
}

// Unwrap gives the reason.
func (e *InputError) Unwrap() error { return e.Err }

// Origin is where references of one source number come from, see
// schema.ReferenceType.
type Origin struct {
	Resolver *Resolver // of the snapshot that the values were read from
	Owner    *Owner    // nil for kinds that need none
	// Same is true when that snapshot belongs to the table that is written to
	// and stays protected until the commit is done (GC-3): then its objects
	// may be referenced again. Otherwise their bytes are copied.
	Same bool
}

// Origins finds the origin of a source number.
type Origins func(source uint32) (Origin, error)

// Inputs are the values of all blob columns of one batch, checked as a whole
// (IN-13). They hold on to the batch until they are released.
type Inputs struct {
	batch   arrow.RecordBatch
	first   int // row of the whole batch that is the first one here
	table   *schema.Schema
	leaves  []*inputLeaf
	origins Origins
	keep    []arrow.Array
}

// AsInputs reads the blob columns of a batch whose columns are those of s, as
// schema.Mapping gives them, and checks every value of every one of them (IN-1
// to IN-12). Nothing is stored and no source is touched. Blob columns may be
// structs of either logical shape or plain binary; with origins also references
// to stored values, and rows of either kind.
//
// Nullness is that of the outer struct, or of something above it, and what lies
// below a null does not matter (IN-11). The first bad value in the order of
// storing (PCK-4) is reported as an *InputError.
func AsInputs(s *schema.Schema, batch arrow.RecordBatch, origins Origins) (*Inputs, error) {
	if int(batch.NumCols()) != len(s.Fields) {
		return nil, fault.New(fault.Internal, "blob: a batch of %d columns for a table of %d", batch.NumCols(), len(s.Fields))
	}
	in := &Inputs{batch: batch, table: s, origins: origins}
	batch.Retain()
	for i, f := range s.Fields {
		if err := in.walk(f, batch.Column(i), nil); err != nil {
			in.Release()
			return nil, err
		}
	}
	for _, l := range in.leaves {
		if err := l.check(); err != nil {
			in.Release()
			return nil, err
		}
	}
	return in, nil
}

// Slice gives the values of some rows, [from, to), for batches that are spread
// over several data files. Errors name the rows of the whole batch. Both are
// released.
func (in *Inputs) Slice(from, to int64) (*Inputs, error) {
	out := &Inputs{batch: in.batch.NewSlice(from, to), first: in.first + int(from), table: in.table, origins: in.origins}
	for i, f := range out.table.Fields {
		if err := out.walk(f, out.batch.Column(i), nil); err != nil {
			out.Release()
			return nil, err
		}
	}
	for i, l := range in.leaves {
		for row, s := range l.streams {
			if int64(row) >= from && int64(row) < to {
				out.leaves[i].stream(row-int(from), s)
			}
		}
	}
	return out, nil
}

// Release gives the batch back.
func (in *Inputs) Release() {
	for _, l := range in.leaves {
		l.release()
	}
	for _, a := range in.keep {
		a.Release()
	}
	in.batch.Release()
}

// Stream gives the bytes of one value, size of them, from a reader instead of
// the batch, so that they need not fit into memory. column is the dotted name
// of a blob field that lies in structs only. The value in the batch must not be
// null, and what it holds is not used. The reader is read by Place.
func (in *Inputs) Stream(column string, row int, r io.Reader, size uint64) error {
	for _, l := range in.leaves {
		if l.field.FullName() != column {
			continue
		}
		if l.place.inList() {
			return fault.New(fault.Invalid, "blob: column %s lies in a list; one value of it cannot be streamed", column)
		}
		if row < 0 || row >= l.n || l.isNull(row) {
			return fault.New(fault.Invalid, "blob: column %s, row %d: there is no value to stream", column, row)
		}
		l.stream(row, stream{r, size})
		return nil
	}
	return fault.New(fault.Invalid, "blob: there is no blob column %s", column)
}

// stream is a value that is read once.
type stream struct {
	r    io.Reader
	size uint64
}

// walk finds the blob leaves at and below a field, depth-first, with the values
// that they have in an array of it.
func (in *Inputs) walk(f *schema.Field, a arrow.Array, at *place) error {
	if f.Blob == schema.LegacyBlob {
		return fault.New(fault.Internal, "blob: column %s is a blob column of files before 2.2, which are not written", f.FullName())
	}
	if f.Blob != schema.NotBlob {
		l := &inputLeaf{field: f, array: a, n: a.Len(), place: at, first: in.first}
		in.leaves = append(in.leaves, l)
		return l.open(in.origins != nil)
	}
	if !holdsBlobs(f) {
		return nil
	}
	switch a := a.(type) {
	case *array.Struct:
		if a.NumField() != len(f.Children) {
			break
		}
		below := at.inStruct(a)
		for i, c := range f.Children {
			if err := in.walk(c, a.Field(i), below); err != nil {
				return err
			}
		}
		return nil
	case array.ListLike:
		if f.Shape != schema.List && f.Shape != schema.LargeList {
			break
		}
		items, below := at.inLists(a)
		in.keep = append(in.keep, items)
		return in.walk(f.Children[0], items, below)
	}
	return fault.New(fault.Internal, "blob: field %s came as %s", f.FullName(), a.DataType())
}

func holdsBlobs(f *schema.Field) bool {
	for range f.Blobs() {
		return true
	}
	return false
}

package schema

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/nest"
)

// required refuses nulls in fields that must not be null, where somebody can
// see them: what lies below something null does not matter. Blob fields are
// left to package blob (IN-12); containers above them are not. The error names
// field, row and element (ERR-19).
func required(f *Field, a arrow.Array) error { return requiredBelow(f, a, nil, nil) }

// RowError is a value of a batch that a column cannot take. It wraps a fault.
type RowError struct {
	Field   string // dotted name
	Row     int    // of the batch
	Element int    // place in the innermost list, -1 for none
	Err     error  // what was seen and what is allowed
}

// Error names the place before the reason.
func (e *RowError) Error() string {
	return fmt.Sprintf("schema: column %s, row %d%s", e.Field, e.Row, e.Reason())
}

// Reason is what stands behind the row: the place in a list, and what is wrong.
func (e *RowError) Reason() string {
	if e.Element >= 0 {
		return fmt.Sprintf(", element %d: %s", e.Element, e.Err)
	}
	return ": " + e.Err.Error()
}

// Unwrap gives the reason.
func (e *RowError) Unwrap() error { return e.Err }

var errNull = fault.New(fault.Invalid, "null, but the column must not be null")

// element tells the place in the innermost list that a value lies in.
type element func(i int) int

func requiredBelow(f *Field, a arrow.Array, s seen, e element) error {
	if f.Blob != NotBlob || !holdsRequired(f) {
		return nil
	}
	if !f.Nullable && a.NullN() > 0 {
		for i := range a.Len() {
			if row, ok := s.at(i); ok && a.IsNull(i) {
				out := &RowError{Field: f.dotted(), Row: row, Element: -1, Err: errNull}
				if e != nil {
					out.Element = e(i)
				}
				return out
			}
		}
	}
	switch a := a.(type) {
	case *array.Struct:
		below := func(i int) (int, bool) {
			row, ok := s.at(i)
			return row, ok && a.IsValid(i)
		}
		for i, c := range f.Children {
			if err := requiredBelow(c, a.Field(i), below, e); err != nil {
				return err
			}
		}
	case *array.FixedSizeList:
		if f.Shape != FixedSizeList { // its items are always nullable
			return nil
		}
		n := f.Dimension
		items := nest.Elements(a)
		defer items.Release()
		below := func(i int) (int, bool) {
			row, ok := s.at(i / n)
			return row, ok && a.IsValid(i/n)
		}
		return requiredBelow(f.Children[0], items, below, func(i int) int { return i % n })
	case array.ListLike:
		return requiredItems(f, a, s)
	}
	return nil
}

func requiredItems(f *Field, a array.ListLike, s seen) error {
	items, first := nest.Items(a)
	defer items.Release()
	below := func(i int) (int, bool) {
		list := nest.Holder(a, first+int64(i))
		row, ok := s.at(list)
		return row, ok && a.IsValid(list)
	}
	e := func(i int) int {
		start, _ := a.ValueOffsets(nest.Holder(a, first+int64(i)))
		return int(first + int64(i) - start)
	}
	return requiredBelow(f.Children[0], items, below, e)
}

// holdsRequired tells whether a field or one below it, blobs aside, must not be
// null.
func holdsRequired(f *Field) bool {
	if f.Blob != NotBlob {
		return false
	}
	if !f.Nullable {
		return true
	}
	for _, c := range f.Children {
		if holdsRequired(c) {
			return true
		}
	}
	return false
}

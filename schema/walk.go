package schema

import "iter"

// All lists every field depth-first, parents before children, children of
// blobs and of packed structs included.
func (s *Schema) All() iter.Seq[*Field] {
	return func(yield func(*Field) bool) { walk(s.Fields, yield, func(*Field) bool { return true }) }
}

// Blobs lists the blob fields of both kinds depth-first.
func (s *Schema) Blobs() iter.Seq[*Field] {
	return filtered(s.Fields, func(f *Field) bool { return f.Blob != NotBlob })
}

// Leaves lists the fields that own a physical column in files of format 2.1
// and later, depth-first: the order of the columns in a new file.
func (s *Schema) Leaves() iter.Seq[*Field] {
	return filtered(s.Fields, func(f *Field) bool { return f.Shape == Leaf })
}

// Leaves lists the leaves at and below f depth-first.
func (f *Field) Leaves() iter.Seq[*Field] {
	return filtered([]*Field{f}, func(f *Field) bool { return f.Shape == Leaf })
}

// Blobs lists the blob fields at and below f depth-first.
func (f *Field) Blobs() iter.Seq[*Field] {
	return filtered([]*Field{f}, func(f *Field) bool { return f.Blob != NotBlob })
}

func filtered(fields []*Field, want func(*Field) bool) iter.Seq[*Field] {
	return func(yield func(*Field) bool) {
		walk(fields, func(f *Field) bool { return !want(f) || yield(f) }, func(f *Field) bool { return f.Shape != Leaf })
	}
}

func walk(fields []*Field, yield, into func(*Field) bool) bool {
	for _, f := range fields {
		if !yield(f) || into(f) && !walk(f.Children, yield, into) {
			return false
		}
	}
	return true
}

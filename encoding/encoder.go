package encoding

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// EncodedPage is one page that waits to be stored.
type EncodedPage struct {
	First   uint64   // number of the first top-level row (Page.priority)
	Rows    uint64   // Page.length: rows, times the dimensions of fixed-size lists of structs
	Buffers [][]byte // page buffers, in order
	Layout  []byte   // the value of the Any that describes the page
}

// LayoutURL is the type URL of page descriptions of a format version.
func (v Version) LayoutURL() string {
	if v == V2_3 {
		return "/lance.encodings23.PlanarLayout"
	}
	return "/lance.encodings21.PageLayout"
}

// EncoderOptions tune an Encoder. The zero value works.
type EncoderOptions struct {
	// PageBytes is how many bytes of values and levels a page collects before
	// it is cut; 0 means 8 MiB. A single row may be larger.
	PageBytes int
}

const defaultPageBytes = 8 << 20

// Encoder turns a stream of arrays into the pages of one physical column of
// format 2.2 or 2.3. It copies what it is given: no input is kept after Append
// returns, and what is held between calls is at most about one page. One
// goroutine at a time.
//
// Values under nulls, between list slots and outside an array's slice never
// reach a page.
type Encoder struct {
	version Version
	path    []*schema.Field
	leaf    *schema.Field
	steps   []step
	scale   int
	tuning  tuning
	limit   int

	codes levelCodes
	next  uint64 // number of the first row that waits
	rows  int    // rows that wait
	rep   []uint16
	def   []uint16 // nil while every entry is a value
	vals  *values
	work  shredding
}

// NewEncoder makes the encoder of a leaf; path leads from its top-level field
// down to it. Settings in the leaf's metadata (lance-encoding:compression and
// the like) are followed. Types that no page can hold are fault.Unsupported.
func NewEncoder(v Version, path []*schema.Field, o EncoderOptions) (*Encoder, error) {
	if v != V2_2 && v != V2_3 {
		return nil, fault.New(fault.Unsupported, "encoding: files of format %d.%d are not written; write 2.2 or 2.3", v.Major, v.Minor)
	}
	if len(path) == 0 || path[len(path)-1].Storage == nil {
		return nil, fault.New(fault.Internal, "encoding: a path that does not end in a leaf")
	}
	e := &Encoder{version: v, path: path, leaf: path[len(path)-1], steps: stepsOf(path), limit: o.PageBytes}
	if e.limit <= 0 {
		e.limit = defaultPageBytes
	}
	scale, err := scaleOf(e.steps)
	if err != nil {
		return nil, err
	}
	e.scale = int(scale)
	e.codes = newLevelCodes(e.steps)
	if e.scale > 1 && e.codes.lists > 0 {
		return nil, fault.New(fault.Unsupported, "encoding: field %s lies in a fixed-size list of structs and in a list; the format has no dense page for both: use a list of the one or the other", e.leaf.FullName())
	}
	if e.tuning, err = newTuning(v, e.leaf); err != nil {
		return nil, err
	}
	if e.vals, err = newValues(e.leaf); err != nil {
		return nil, err
	}
	return e, nil
}

// Append takes the next rows, an array of the whole top-level field, and gives
// the pages that became full. Arrays that do not fit the field are
// fault.Invalid, nulls where the schema forbids them too; after an error the
// encoder is of no further use.
func (e *Encoder) Append(arr arrow.Array) ([]EncodedPage, error) {
	src, err := e.bind(arr.Data())
	if err != nil {
		return nil, err
	}
	var pages []EncodedPage
	if e.vals.overflows(src.leaf) {
		if pages, err = e.Flush(); err != nil {
			return nil, err
		}
	}
	for from := 0; from < src.rows; {
		to, err := e.fit(src, from)
		if err != nil {
			return nil, err
		}
		if to > from {
			if err := e.shred(src, from, to); err != nil {
				return nil, err
			}
			e.rows += to - from
			from = to
		}
		if from < src.rows || e.Buffered() >= int64(e.limit) {
			cut, err := e.Flush()
			if err != nil {
				return nil, err
			}
			pages = append(pages, cut...)
		}
	}
	return pages, nil
}

// Buffered is about the number of bytes that wait for a page.
func (e *Encoder) Buffered() int64 {
	return int64(e.vals.bytes() + 2*len(e.rep) + 2*len(e.def))
}

// Flush makes pages of the rows that wait, none if there are none.
func (e *Encoder) Flush() ([]EncodedPage, error) {
	if e.rows == 0 {
		return nil, nil
	}
	var pages []EncodedPage
	for _, s := range e.sections() {
		p, err := e.page(s)
		if err != nil {
			return nil, err
		}
		p.First = e.next + uint64(s.row)
		p.Rows = uint64(s.rows * e.scale)
		pages = append(pages, p)
	}
	e.next += uint64(e.rows)
	e.rows, e.rep, e.def = 0, e.rep[:0], nil
	e.vals.reset()
	return pages, nil
}

// fit gives the end of the rows from from on that may join those that wait: as
// many as fill the page; one if the page is empty, whatever its size; none if
// the page has to be cut first.
func (e *Encoder) fit(src *source, from int) (int, error) {
	left := e.limit - int(min(e.Buffered(), int64(e.limit)))
	size, err := src.size(from, src.rows)
	if err != nil {
		return 0, err
	}
	if size <= left {
		return src.rows, nil
	}
	// The largest count whose size is not above what is left.
	lo, hi := from, src.rows
	for lo+1 < hi {
		mid := lo + (hi-lo)/2
		if size, err = src.size(from, mid); err != nil {
			return 0, err
		}
		if size <= left {
			lo = mid
		} else {
			hi = mid
		}
	}
	if lo == from && e.rows == 0 {
		lo = from + 1
	}
	return lo, nil
}

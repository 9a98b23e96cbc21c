package encoding

import (
	"math"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/encoding/internal/fsst"
	"github.com/flightblob/flightblob/encoding/internal/rle"
	"github.com/flightblob/flightblob/internal/fault"
)

// chunks chooses how a page's values are stored in chunks: what takes the
// fewest bytes among the forms that the column's settings allow.
func (e *Encoder) chunks(lv *pageLevels, w view) (chunkWriter, *pageDictionary, error) {
	t := &e.tuning
	switch v := w.v; v.kind {
	case bitVector:
		c, err := t.wrapped(flatChunks{data: v.data, bits: 1, off: w.at}, w.n)
		return c, nil, err
	case fixedVector:
		plain := t.words(lv, w.fixed(), v.width)
		if d, ok := e.dictionary(lv, w, plain.size); ok {
			c, err := t.wrapped(t.words(lv, arrow.Uint32Traits.CastToBytes(d.index), 4).writer, w.n)
			if err != nil {
				return nil, nil, err
			}
			p, err := t.storeItems(d.items)
			return c, p, err
		}
		c, err := t.wrapped(plain.writer, w.n)
		return c, nil, err
	case var32Vector, var64Vector:
		return e.textChunks(lv, w)
	case listVector:
		return listChunks{v: v, at: w.at, f: newListForm(v, w.at, w.n)}, nil, nil
	case structVector:
		return rowChunks{v: v, at: w.at}, nil, nil
	case dictVector:
		c, err := t.wrapped(t.words(lv, w.fixed(), v.width).writer, w.n)
		if err != nil {
			return nil, nil, err
		}
		p, err := t.storeItems(view{v.items.values, 0, v.items.values.n})
		return c, p, err
	default:
		return nil, nil, fault.New(fault.Internal, "encoding: values of type %s in chunks", v.typ)
	}
}

// sized is a writer with the bytes that it takes for all values.
type sized struct {
	writer chunkWriter
	size   int
}

// words chooses the form of fixed-width values.
func (t *tuning) words(lv *pageLevels, data []byte, width int) sized {
	best := sized{flatChunks{data: data, bits: 8 * width}, len(data)}
	switch {
	case t.plain:
		return best
	case width != 1 && width != 2 && width != 4 && width != 8:
		return best
	}
	if size := packedSize(data, 8*width, lv.mostPerChunk()); size < best.size {
		best = sized{packedChunks{data: data, bits: 8 * width}, size}
	}
	runs := rle.Runs(data, width)
	if n := len(data) / width; float64(runs) >= t.runThreshold*float64(n) {
		return best
	}
	if size := runs * (width + 1); size < best.size {
		best = sized{runChunks{data: data, bits: 8 * width, lengths: new([]byte)}, size}
	}
	return best
}

// generalLeast is how many bytes of values are worth a general compression.
const generalLeast = 4 << 10

// wrapped puts the general compression that the settings ask for around a
// form, where it pays. Of numbers that it would store plain, byte planes are
// tried, too.
func (t *tuning) wrapped(c chunkWriter, n int) (chunkWriter, error) {
	if t.general.scheme == 0 {
		return c, nil
	}
	plain, size, err := trial(c, n)
	if err != nil || plain < generalLeast && size < generalLeast {
		return c, err
	}
	general := generalChunks{c, t.general, new([]byte)}
	best, least := c, plain
	tries := []chunkWriter{general}
	if f, ok := c.(flatChunks); ok && (f.bits == 32 || f.bits == 64) && t.byteSplit != "off" {
		split := generalChunks{splitChunks{data: f.data, bits: f.bits}, t.general, new([]byte)}
		if tries = append(tries, split); t.byteSplit == "on" {
			return split, nil
		}
	}
	for _, g := range tries {
		got, _, err := trial(g, n)
		if err != nil {
			return nil, err
		}
		if got < least {
			best, least = g, got
		}
	}
	return best, nil
}

// trial writes a few chunks from the front, the middle and the end and gives
// their bytes, and an estimate for all of them.
func trial(c chunkWriter, n int) (part, all int, err error) {
	sizes := make([]uint32, c.buffers())
	values := 0
	last := -1
	for _, from := range []int{0, n / 2, n - min(n, c.want(0))} {
		if from <= last {
			continue
		}
		last = from
		to := min(n, from+c.want(from))
		out, err := c.append(nil, from, to, sizes)
		if err != nil {
			return 0, 0, err
		}
		part += len(out)
		values += to - from
	}
	return part, int(float64(part) / float64(max(values, 1)) * float64(n)), nil
}

// textChunks chooses the form of text and binary.
func (e *Encoder) textChunks(lv *pageLevels, w view) (chunkWriter, *pageDictionary, error) {
	t := &e.tuning
	heap, start := w.heap()
	plain := textChunks{data: w.v.data, start: start, ends: w.v.ends[w.at : w.at+w.n], bits: w.v.offsetBits(), target: t.chunkBytes}
	size := len(heap) + w.n*plain.bits/8
	coder, ratio := t.coder(w)
	if coder != nil {
		size = int(ratio*float64(len(heap))) + fsst.TableSize + w.n*plain.bits/8
	}
	if d, ok := e.dictionary(lv, w, size); ok {
		c, err := t.wrapped(t.words(lv, arrow.Uint32Traits.CastToBytes(d.index), 4).writer, w.n)
		if err != nil {
			return nil, nil, err
		}
		p, err := t.storeItems(d.items)
		return c, p, err
	}
	if coder != nil {
		data, ends := coded(coder, w, ratio)
		return codedChunks{textChunks{data: data, ends: ends, bits: plain.bits, target: t.chunkBytes}, coder.Table()}, nil, nil
	}
	c, err := t.wrapped(plain, w.n)
	return c, nil, err
}

// coded replaces every value by its codes, about ratio times as many bytes.
func coded(coder *fsst.Encoder, w view, ratio float64) (data []byte, ends []uint32) {
	ends = make([]uint32, w.n)
	data = make([]byte, 0, int(1.05*ratio*float64(w.heapSize())))
	for i := range ends {
		data = coder.AppendEncoded(data, w.bytes(i))
		ends[i] = uint32(len(data))
	}
	return data, ends
}

// offsetBits is the width of offsets and lengths of a variable-width type.
func (v *values) offsetBits() int {
	if v.kind == var64Vector {
		return 64
	}
	return 32
}

const (
	// codedLeast is how many bytes of text are worth a symbol table.
	codedLeast = 32 << 10
	// sampleBytes is how much of a page is looked at in order to choose.
	sampleBytes = 32 << 10
	samplePiece = 512 // of one value
)

// coder trains symbols for text, and gives the share of bytes that its codes
// take; nil when they do not pay.
func (t *tuning) coder(w view) (*fsst.Encoder, float64) {
	if t.plain || t.general.scheme != 0 || !t.fsst && !isText(w.v.typ) {
		return nil, 1
	}
	heap, _ := w.heap()
	if len(heap) < codedLeast && !t.fsst || len(heap) == 0 {
		return nil, 1
	}
	sample := w.sample()
	coder := fsst.Train(sample)
	plain, codes := 0, 0
	var scratch []byte
	for _, v := range sample {
		scratch = coder.AppendEncoded(scratch[:0], v)
		plain += len(v)
		codes += len(scratch)
	}
	ratio := float64(codes) / float64(max(plain, 1))
	saved := (1-ratio)*float64(len(heap)) - fsst.TableSize
	if saved < float64(len(heap))/20 && !t.fsst {
		return nil, 1
	}
	return coder, ratio
}

// sample takes pieces of values from all over the page.
func (w view) sample() [][]byte {
	heap, _ := w.heap()
	// On average every value gives the same share, long ones a piece.
	mean := max(len(heap)/w.n, 1)
	step := max(1, w.n*min(mean, samplePiece)/sampleBytes)
	var out [][]byte
	total := 0
	for i := 0; i < w.n && total < 2*sampleBytes; i += step {
		v := w.bytes(i)
		if len(v) > samplePiece {
			at := (i * 7919) % (len(v) - samplePiece + 1)
			v = v[at : at+samplePiece]
		}
		if len(v) > 0 {
			out = append(out, v)
			total += len(v)
		}
	}
	return out
}

// bitsFor is the number of bits of an index into n items.
func bitsFor(n int) int { return bits.Len(uint(max(n-1, 0))) }

// mostDistinct gives the number of distinct values in a sample of m out of so
// many equally frequent ones that is not worth looking at more of them.
func mostDistinct(m, distinct int) int {
	d := float64(distinct)
	return int(d*(1-math.Exp(-float64(m)/d))*1.02) + 1
}

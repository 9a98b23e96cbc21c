package encoding

import (
	"encoding/binary"
	"sort"

	"github.com/flightblob/flightblob/encoding/internal/bitpack"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// miniBlock is the layout of narrow values (sheet section 5.1): buffer 0 holds
// a word per chunk, buffer 1 the chunks, then an optional page dictionary and
// an optional repetition index. It also serves the chunked plane of 2.3, with
// sparse structure as plain runs of leaf slots.
//
//	chunk: u16 levels | u16 rep bytes? | u16 def bytes? | u32 value bytes × buffers
//	       pad to 8 | rep, pad | def, pad | value buffers, each padded
type miniBlock struct {
	shape    *pageShape
	levels   *levelPlan // nil: no levels, one value per leaf slot
	rep, def *lancepb.CompressiveEncoding
	value    *lancepb.CompressiveEncoding
	dict     *lancepb.CompressiveEncoding
	dictN    uint64
	valueBuf int
	items    uint64
	large    bool
	repIndex bool
}

func newMiniBlock(shape *pageShape, m *lancepb.MiniBlockLayout) (*miniBlock, error) {
	levels, err := newLevelPlan(m.GetLayers(), shape.steps)
	if err != nil {
		return nil, err
	}
	b := &miniBlock{
		shape: shape, levels: levels, rep: m.GetRepCompression(), def: m.GetDefCompression(),
		value: m.GetValueCompression(), dict: m.GetDictionary(), dictN: m.GetNumDictionaryItems(),
		items: m.GetNumItems(), large: m.GetHasLargeChunk(), repIndex: m.GetRepetitionIndexDepth() > 0,
	}
	if m.GetRepetitionIndexDepth() > 1 {
		return nil, fault.New(fault.Unsupported, "encoding: repetition index of depth %d", m.GetRepetitionIndexDepth())
	}
	return b, b.init(m.GetNumBuffers())
}

func (b *miniBlock) init(valueBuffers uint64) error {
	codec, err := newChunkCodec(b.value, 0)
	if err != nil {
		return err
	}
	if valueBuffers != uint64(codec.buffers()) {
		return fault.Corruptf(-1, "encoding: %d value buffers a chunk, the encoding has %d", valueBuffers, codec.buffers())
	}
	b.valueBuf = codec.buffers()
	if b.items > maxPageItems {
		return fault.Corruptf(-1, "encoding: a page of %d values", b.items)
	}
	if lists := b.levels != nil && b.levels.lists > 0; lists != b.repIndex || lists != (b.rep != nil) {
		return fault.Corruptf(-1, "encoding: repetition levels or index do not fit %d list layers", b.listLayers())
	}
	n := 2
	if b.dict != nil {
		n++
		if b.dictN > maxSequence {
			return fault.Corruptf(-1, "encoding: a dictionary of %d items", b.dictN)
		}
	}
	if b.repIndex {
		n++
	} else if b.items != b.shape.rows*b.shape.scale {
		return fault.Corruptf(-1, "encoding: %d values in a page of %d rows", b.items, b.shape.rows*b.shape.scale)
	}
	return b.shape.needBuffers(n)
}

func (b *miniBlock) listLayers() int {
	if b.levels == nil {
		return 0
	}
	return b.levels.lists
}

// maxPageItems keeps value numbers far from overflow. A page of booleans has
// hundreds of millions; only the chunks that are read take memory.
const maxPageItems = 1 << 48

// maxChunkValues is how many values a chunk may hold in next to no bytes, far
// above what writers put into one.
const maxChunkValues = 1 << 20

// chunk is one entry of the chunk table.
type chunk struct {
	pos, size int   // bytes in buffer 1
	first     int   // number of the first value
	n         int   // values
	row       int64 // rows finished before this chunk
	finished  int64 // rows that finish in it
	leftover  bool  // its last row goes on in the next chunk
	continues bool  // its first entries belong to a row begun before
}

type miniBlockIndex struct {
	chunks []chunk
	dict   *block
	bytes  int64
}

func (ix *miniBlockIndex) size() int64 { return ix.bytes }

func (b *miniBlock) index() []Extent {
	bufs := []Extent{b.shape.buffers[0]}
	if b.dict != nil {
		bufs = append(bufs, b.shape.buffers[2])
	}
	if b.repIndex {
		bufs = append(bufs, b.shape.buffers[len(b.shape.buffers)-1])
	}
	return bufs
}

func (b *miniBlock) newIndex(data [][]byte) (pageIndex, error) {
	words, width := data[0], 4
	if !b.large {
		width = 2
	}
	if len(words)%width != 0 {
		return nil, fault.Corruptf(int64(b.shape.buffers[0].Offset), "encoding: chunk table of %d bytes", len(words))
	}
	ix := &miniBlockIndex{chunks: make([]chunk, len(words)/width)}
	pos, first := uint64(0), uint64(0)
	for i := range ix.chunks {
		word := uint32(0)
		if b.large {
			word = binary.LittleEndian.Uint32(words[4*i:])
		} else {
			word = uint32(binary.LittleEndian.Uint16(words[2*i:]))
		}
		size, log := (uint64(word>>4)+1)*8, word&15
		n := uint64(1) << log
		if i == len(ix.chunks)-1 {
			if first > b.items {
				return nil, fault.Corruptf(int64(b.shape.buffers[0].Offset), "encoding: chunks hold more than %d values", b.items)
			}
			if n = b.items - first; log != 0 && n != 1<<log {
				return nil, fault.Corruptf(int64(b.shape.buffers[0].Offset), "encoding: last chunk of %d values says %d", n, 1<<log)
			}
		} else if log == 0 {
			return nil, fault.Corruptf(int64(b.shape.buffers[0].Offset), "encoding: chunk %d of %d says one value", i, len(ix.chunks))
		}
		if n > maxChunkValues && n/bitpack.GroupSize > size {
			return nil, fault.Corruptf(int64(b.shape.buffers[0].Offset), "encoding: a chunk of %d values in %d bytes", n, size)
		}
		ix.chunks[i] = chunk{pos: int(pos), size: int(size), first: int(first), n: int(n)}
		pos += size
		first += n
	}
	if pos != b.shape.buffers[1].Size || first != b.items {
		return nil, fault.Corruptf(int64(b.shape.buffers[1].Offset), "encoding: chunks of %d bytes and %d values, page has %d and %d",
			pos, first, b.shape.buffers[1].Size, b.items)
	}
	ix.bytes = int64(len(ix.chunks)) * 64
	if b.dict != nil {
		d, err := blockValues(b.dict, data[1], int(b.dictN), 0)
		if err != nil {
			return nil, err
		}
		ix.dict = d.own()
		ix.bytes += ix.dict.size()
	}
	if b.repIndex {
		return ix, b.readRepIndex(ix, data[len(data)-1])
	}
	return ix, nil
}

// readRepIndex fills in which rows each chunk holds.
func (b *miniBlock) readRepIndex(ix *miniBlockIndex, raw []byte) error {
	at := int64(b.shape.buffers[len(b.shape.buffers)-1].Offset)
	if len(raw) != 16*len(ix.chunks) {
		return fault.Corruptf(at, "encoding: repetition index of %d bytes for %d chunks", len(raw), len(ix.chunks))
	}
	row, open := uint64(0), false
	for i := range ix.chunks {
		c := &ix.chunks[i]
		finished := binary.LittleEndian.Uint64(raw[16*i:])
		leftover := binary.LittleEndian.Uint64(raw[16*i+8:])
		if finished > b.shape.rows-row {
			return fault.Corruptf(at+int64(16*i), "encoding: repetition index counts more than %d rows", b.shape.rows)
		}
		c.row, c.finished, c.leftover, c.continues = int64(row), int64(finished), leftover > 0, open
		row += finished
		open = c.leftover
	}
	if row != b.shape.rows || open {
		return fault.Corruptf(at, "encoding: repetition index counts %d rows of %d", row, b.shape.rows)
	}
	return nil
}

func (b *miniBlock) locate(pageIndex, []Range) ([]Extent, error) { return nil, nil }

// chunkRun is an interval of chunks that is fetched as one extent.
type chunkRun struct{ from, to int }

func (b *miniBlock) plan(index pageIndex, rows []Range, _ [][]byte) (pagePlan, []Extent, error) {
	ix, ok := index.(*miniBlockIndex)
	if !ok {
		return nil, nil, errIndex
	}
	var runs []chunkRun
	for _, r := range rows {
		from, to := b.chunksOf(ix, r)
		if n := len(runs); n > 0 && from <= runs[n-1].to {
			runs[n-1].to = max(runs[n-1].to, to)
		} else {
			runs = append(runs, chunkRun{from, to})
		}
	}
	extents := make([]Extent, len(runs))
	for i, r := range runs {
		last := ix.chunks[r.to-1]
		e, err := within(b.shape.buffers[1], uint64(ix.chunks[r.from].pos), uint64(last.pos+last.size))
		if err != nil {
			return nil, nil, err
		}
		extents[i] = e
	}
	return runs, extents, nil
}

var errIndex = fault.New(fault.Internal, "encoding: index of another page")

// chunksOf finds the chunks that hold entries of the rows.
func (b *miniBlock) chunksOf(ix *miniBlockIndex, r Range) (from, to int) {
	if b.repIndex {
		from = sort.Search(len(ix.chunks), func(i int) bool {
			c := ix.chunks[i]
			return uint64(c.row+c.finished) > r.Start || c.leftover && uint64(c.row+c.finished) == r.Start
		})
		to = sort.Search(len(ix.chunks), func(i int) bool { return uint64(ix.chunks[i].row) >= r.End })
		return from, max(to, from+1)
	}
	first, end := int(r.Start*b.shape.scale), int(r.End*b.shape.scale)
	from = sort.Search(len(ix.chunks), func(i int) bool { return ix.chunks[i].first+ix.chunks[i].n > first })
	to = sort.Search(len(ix.chunks), func(i int) bool { return ix.chunks[i].first >= end })
	return from, max(to, from+1)
}

// levelRun collects the levels of the rows that are read.
type levelRun struct {
	rep, def []uint16
	entries  int
}

func (b *miniBlock) decode(index pageIndex, plan pagePlan, rows []Range, data [][]byte, out *vector) ([]Layer, error) {
	ix, ok := index.(*miniBlockIndex)
	runs, ok2 := plan.([]chunkRun)
	if !ok || !ok2 {
		return nil, errIndex
	}
	codec, err := newChunkCodec(b.value, 0)
	if err != nil {
		return nil, err
	}
	d := &miniBlockRead{b: b, ix: ix, codec: codec, out: out}
	if b.plainItems() {
		d.items = &itemLevels{most: b.levels.maxDef, valid: make([]byte, 0, (out.want+7)/8)}
	}
	if b.rep != nil {
		d.levels.rep = []uint16{}
	}
	if b.def != nil {
		d.levels.def = []uint16{}
	}
	for i, run := range runs {
		base := ix.chunks[run.from].pos
		for c := run.from; c < run.to; c++ {
			ch := &ix.chunks[c]
			raw := data[i][ch.pos-base : ch.pos-base+ch.size]
			if rows, err = d.chunk(ch, raw, rows); err != nil {
				return nil, fault.At(int64(b.shape.buffers[1].Offset)+int64(ch.pos), err)
			}
		}
	}
	switch {
	case b.levels == nil:
		return nil, nil
	case d.items != nil:
		return []Layer{d.items.layer()}, nil
	}
	if err := b.levels.check(d.levels.rep, d.levels.def); err != nil {
		return nil, err
	}
	return b.levels.structure(d.levels.rep, d.levels.def, d.levels.entries, b.shape.steps)
}

type miniBlockRead struct {
	b      *miniBlock
	ix     *miniBlockIndex
	codec  *chunkCodec
	out    *vector
	levels levelRun
	items  *itemLevels // of columns without any nesting, in place of levels
	idx    []uint32
	bufs   [][]byte
}

// plainItems says that definition levels tell null items from others, and that
// there is nothing else to tell.
func (b *miniBlock) plainItems() bool {
	return b.levels != nil && b.rep == nil && b.def != nil && len(b.shape.steps) == 1 && b.levels.maxDef <= 1
}

// chunk decodes one chunk and appends what belongs to the rows; it returns the
// rows that later chunks may still hold.
func (d *miniBlockRead) chunk(c *chunk, raw []byte, rows []Range) ([]Range, error) {
	parts, err := d.b.split(raw, d.bufs[:0])
	if err != nil {
		return nil, err
	}
	d.bufs = parts.values
	var rep, def []uint16
	if d.items != nil {
		err = d.items.read(d.b.def, parts.def, parts.entries, c.n)
	} else {
		rep, def, err = d.b.decodeLevels(parts)
	}
	if err != nil {
		return nil, err
	}
	values, err := d.codec.codes(parts.values, c.n, d.ix.dict == nil && (d.out.kind == var32Vector || d.out.kind == var64Vector))
	if err != nil {
		return nil, err
	}
	if d.b.repIndex {
		return d.listRows(c, rep, def, values, rows)
	}
	if def != nil && len(def) != c.n {
		return nil, fault.Corruptf(-1, "encoding: %d definition levels for %d values", len(def), c.n)
	}
	scale := int64(d.b.shape.scale)
	for len(rows) > 0 {
		from, to := int64(rows[0].Start)*scale, int64(rows[0].End)*scale
		end := int64(c.first + c.n)
		if from >= end {
			break
		}
		lo, hi := int(max(from, int64(c.first))-int64(c.first)), int(min(to, end)-int64(c.first))
		if err := d.take(rep, def, values, lo, hi, lo, hi); err != nil {
			return nil, err
		}
		if to > end {
			break
		}
		rows = rows[1:]
	}
	return rows, nil
}

// listRows appends the entries of the wanted rows of a chunk with lists.
func (d *miniBlockRead) listRows(c *chunk, rep, def []uint16, values *block, rows []Range) ([]Range, error) {
	top := uint16(d.b.levels.lists)
	if visible := d.b.visible(def, len(rep)); visible != c.n {
		return nil, fault.Corruptf(-1, "encoding: levels show %d values, the chunk holds %d", visible, c.n)
	}
	if len(rep) > 0 && (rep[0] == top) == c.continues {
		return nil, fault.Corruptf(-1, "encoding: repetition index disagrees with the levels about where rows start")
	}
	// touched rows: [c.row, last)
	last := c.row + c.finished
	if c.leftover {
		last++
	}
	row, entry, slot := c.row-1, 0, 0
	if c.continues {
		row = c.row
	}
	advance := func(until int64) { // to the first entry of a row >= until
		for ; entry < len(rep); entry++ {
			if rep[entry] == top {
				if row+1 >= until {
					return
				}
				row++
			}
			if def == nil || def[entry] <= d.b.levels.maxVisible {
				slot++
			}
		}
	}
	for len(rows) > 0 && int64(rows[0].Start) < last {
		if start := int64(rows[0].Start); start > row || !c.continues && entry == 0 {
			advance(start)
		}
		e0, s0 := entry, slot
		advance(int64(rows[0].End))
		if err := d.take(rep, def, values, e0, entry, s0, slot); err != nil {
			return nil, err
		}
		if int64(rows[0].End) > last || int64(rows[0].End) == last && c.leftover {
			break
		}
		rows = rows[1:]
	}
	advance(last + 1)
	if row != last-1 {
		return nil, fault.Corruptf(-1, "encoding: chunk ends in row %d, the repetition index says %d", row, last-1)
	}
	return rows, nil
}

func (b *miniBlock) visible(def []uint16, n int) int {
	if def == nil {
		return n
	}
	return b.levels.visible(def)
}

// take appends entries [e0, e1) and values [s0, s1).
func (d *miniBlockRead) take(rep, def []uint16, values *block, e0, e1, s0, s1 int) error {
	if d.items != nil {
		if err := d.items.take(e0, e1); err != nil {
			return err
		}
	}
	if d.levels.rep != nil {
		d.levels.rep = append(d.levels.rep, rep[e0:e1]...)
	}
	if d.levels.def != nil && d.items == nil {
		d.levels.def = append(d.levels.def, def[e0:e1]...)
	}
	d.levels.entries += e1 - e0
	if d.ix.dict == nil {
		if d.codec.fsst != nil && (d.out.kind == var32Vector || d.out.kind == var64Vector) {
			return d.out.appendFSST(d.codec.fsst, values, s0, s1)
		}
		return d.out.append(values, s0, s1)
	}
	if values.kind != fixedBlock || checkWord(uint64(values.bits)) != nil {
		return fault.Corruptf(-1, "encoding: dictionary indices stored as %s of %d bits", values.describe(), values.bits)
	}
	codes := sequence{values.data, values.bits, values.n}
	if d.out.kind == dictVector && d.out.dict.appendCodes(d.ix.dict, codes, s0, s1) {
		d.out.n += s1 - s0
		return nil
	}
	d.idx = codes.indices(d.idx[:0], s0, s1)
	return d.out.appendGather(d.ix.dict, d.idx)
}

// chunkParts are the parts of a chunk as they are stored.
type chunkParts struct {
	entries  int
	rep, def []byte
	values   [][]byte
}

// split cuts a chunk into levels and value buffers, which it adds to bufs.
func (b *miniBlock) split(raw []byte, bufs [][]byte) (p chunkParts, err error) {
	head := 2 + 2*btoi(b.rep != nil) + 2*btoi(b.def != nil)
	sizeBytes := 4
	if !b.large {
		sizeBytes = 2
	}
	if len(raw) < head+sizeBytes*b.valueBuf {
		return p, fault.Corruptf(0, "encoding: chunk of %d bytes", len(raw))
	}
	p.entries = int(binary.LittleEndian.Uint16(raw))
	at, pos := 2, pad8(head+sizeBytes*b.valueBuf)
	part := func(size int) ([]byte, error) {
		if size > len(raw)-pos {
			return nil, fault.Corruptf(int64(pos), "encoding: part of %d bytes in a chunk of %d", size, len(raw))
		}
		p := raw[pos : pos+size]
		pos = min(pad8(pos+size), len(raw))
		return p, nil
	}
	level := func() ([]byte, error) {
		size := int(binary.LittleEndian.Uint16(raw[at:]))
		at += 2
		return part(size)
	}
	if b.rep != nil {
		if p.rep, err = level(); err != nil {
			return p, err
		}
	}
	if b.def != nil {
		if p.def, err = level(); err != nil {
			return p, err
		}
	}
	for range b.valueBuf {
		size := 0
		if b.large {
			size = int(binary.LittleEndian.Uint32(raw[at:]))
		} else {
			size = int(binary.LittleEndian.Uint16(raw[at:]))
		}
		at += sizeBytes
		buf, err := part(size)
		if err != nil {
			return p, err
		}
		bufs = append(bufs, buf)
	}
	p.values = bufs
	if pos != len(raw) {
		return p, fault.Corruptf(int64(pos), "encoding: chunk of %d bytes uses %d", len(raw), pos)
	}
	return p, nil
}

// decodeLevels decodes the levels of a chunk.
func (b *miniBlock) decodeLevels(p chunkParts) (rep, def []uint16, err error) {
	if b.rep != nil {
		if rep, err = decodeLevels(b.rep, p.rep, p.entries); err != nil {
			return nil, nil, err
		}
	}
	if b.def != nil {
		if def, err = decodeLevels(b.def, p.def, p.entries); err != nil {
			return nil, nil, err
		}
	}
	if rep != nil && def != nil && len(rep) != len(def) {
		return nil, nil, fault.Corruptf(0, "encoding: %d repetition and %d definition levels", len(rep), len(def))
	}
	return rep, def, nil
}

func pad8(n int) int { return (n + 7) &^ 7 }

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

package encoding

import (
	"encoding/binary"
	"math/bits"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// cut is where one chunk ends.
type cut struct{ value, entry int }

// miniBlockPage stores the values of a page in chunks (sheet section 5.1).
func (e *Encoder) miniBlockPage(lv *pageLevels, w view) (EncodedPage, error) {
	codec, dict, err := e.chunks(lv, w)
	if err != nil {
		return EncodedPage{}, err
	}
	cuts, ok := lv.cut(codec)
	if !ok { // other values have the full-zip layout for such rows
		return EncodedPage{}, fault.New(fault.Unsupported, "encoding: column %s: a row holds more than %d null or empty lists in sequence, too many for a page of dictionary values; write fewer in a row, or plain values", e.leaf.FullName(), maxChunkLevels)
	}
	m := &lancepb.MiniBlockLayout{
		ValueCompression: codec.encoding(), Layers: lv.layers, NumBuffers: uint64(codec.buffers()),
		NumItems: uint64(lv.shown), HasLargeChunk: true,
	}
	var rep, def levelCodec
	at := func(i int) int { return cuts[i].entry }
	if lv.rep != nil {
		rep = chooseLevels(lv.rep, len(cuts), at)
		m.RepCompression, m.RepetitionIndexDepth = rep.encoding(), 1
	}
	if lv.def != nil {
		def = chooseLevels(lv.def, len(cuts), at)
		m.DefCompression = def.encoding()
	}
	words, data, err := lv.writeChunks(cuts, codec, rep, def)
	if err != nil {
		return EncodedPage{}, err
	}
	p := EncodedPage{Buffers: [][]byte{words, data}}
	if dict != nil {
		m.Dictionary, m.NumDictionaryItems = dict.encoding, uint64(dict.n)
		p.Buffers = append(p.Buffers, dict.data)
	}
	if lv.rep != nil {
		p.Buffers = append(p.Buffers, lv.repetitionIndex(cuts))
	}
	p.Layout, err = describeMiniBlock(e.version, m)
	return p, err
}

// cut decides where chunks end: every chunk but the last holds a power of two
// of values, with the entries up to its last one; the last chunk holds the
// rest. ok is false when a chunk cannot keep below the limit of levels.
func (p *pageLevels) cut(codec chunkWriter) (cuts []cut, ok bool) {
	entryOf := func(value int) int { return value + 1 }
	if p.shown != p.entries {
		at := make([]int32, 0, p.shown)
		for i := range p.entries {
			if p.def[i] <= p.maxVisible {
				at = append(at, int32(i))
			}
		}
		entryOf = func(value int) int { return int(at[value]) + 1 }
	}
	value, entry := 0, 0
	for value < p.shown {
		left, n := p.shown-value, codec.want(value)
		if left <= n {
			if p.entries-entry <= maxChunkLevels {
				return append(cuts, cut{p.shown, p.entries}), true
			}
			n = 0
			if left > 1 {
				n = 1 << (bits.Len(uint(left-1)) - 1)
			}
		}
		for n >= 2 && entryOf(value+n-1)-entry > maxChunkLevels {
			n /= 2
		}
		if n < 2 {
			return nil, false
		}
		value += n
		entry = entryOf(value - 1)
		cuts = append(cuts, cut{value, entry})
	}
	return cuts, entry == p.entries
}

// mostPerChunk is how many values the chunks of a page have at most, by the
// levels that come with them on average.
func (p *pageLevels) mostPerChunk() int {
	return max(2, int(float64(p.shown)/float64(p.entries)*maxChunkLevels))
}

// writeChunks writes the table of chunks and the chunks.
func (p *pageLevels) writeChunks(cuts []cut, codec chunkWriter, rep, def levelCodec) (words, data []byte, err error) {
	sizes := make([]uint32, codec.buffers())
	head := pad8(2 + 2*p.streams() + 4*len(sizes))
	// Levels mostly take a few bits; buffers are padded.
	data = make([]byte, 0, codec.size(p.shown)+p.streams()*p.entries/4+len(cuts)*(head+40))
	from := cut{}
	for i, to := range cuts {
		base := len(data)
		for range head / 8 {
			data = append(data, zeros[:]...)
		}
		put := func(at, n int) { binary.LittleEndian.PutUint16(data[base+at:], uint16(n)) }
		at := 2
		if p.streams() > 0 {
			put(0, to.entry-from.entry)
		}
		for _, stream := range []struct {
			levels []uint16
			codec  levelCodec
		}{{p.rep, rep}, {p.def, def}} {
			if stream.levels == nil {
				continue
			}
			begin := len(data)
			data = stream.codec.append(data, stream.levels[from.entry:to.entry])
			if len(data)-begin > maxLevelBytes {
				return nil, nil, fault.New(fault.Internal, "encoding: %d bytes of levels in a chunk", len(data)-begin)
			}
			put(at, len(data)-begin)
			at += 2
			data = padTo8(data)
		}
		if data, err = codec.append(data, from.value, to.value, sizes); err != nil {
			return nil, nil, err
		}
		for k, n := range sizes {
			binary.LittleEndian.PutUint32(data[base+at+4*k:], n)
		}
		size := (len(data) - base) / 8
		if size > 1<<28 {
			return nil, nil, fault.New(fault.Exhausted, "encoding: a chunk of %d bytes", 8*size)
		}
		word := uint32(size-1) << 4
		if i < len(cuts)-1 {
			word |= uint32(bits.Len(uint(to.value-from.value)) - 1)
		}
		words = binary.LittleEndian.AppendUint32(words, word)
		from = to
	}
	return words, data, nil
}

// repetitionIndex tells for every chunk how many rows end in it, and how many
// of its entries belong to a row that goes on in the next one.
func (p *pageLevels) repetitionIndex(cuts []cut) []byte {
	out := make([]byte, 0, 16*len(cuts))
	from := 0
	for i, c := range cuts {
		rows, last := 0, from // rows that start after the first entry; start of the last one
		for k := from; k < c.entry; k++ {
			if int(p.rep[k]) != p.lists {
				continue
			}
			last = k
			if k > from {
				rows++
			}
		}
		left := 0
		if i == len(cuts)-1 || int(p.rep[c.entry]) == p.lists {
			rows++
		} else {
			left = c.entry - last
		}
		out = binary.LittleEndian.AppendUint64(out, uint64(rows))
		out = binary.LittleEndian.AppendUint64(out, uint64(left))
		from = c.entry
	}
	return out
}

package rowset

import (
	"encoding/binary"
	"slices"

	"github.com/flightblob/flightblob/internal/fault"
)

// The portable form of a 32-bit Roaring bitmap, all numbers little-endian:
//
//	cookie 12346, u32 containers              without run containers
//	u16 cookie 12347, u16 containers-1, bits  a bit for each: is it of runs
//	u16 key, u16 members-1                    for each container
//	u32 offset                                for each; with cookie 12347 only
//	                                          if there are 4 containers or more
//	containers, back to back
//
// A container is u16 members, ascending, if it has at most 4096, else 65536
// bits; a container of runs is u16 count, then u16 first, u16 length-1 each.
// Bitmaps are read here and not by a library, since the known one trusts
// order and counts, and its later check takes quadratic time.
const (
	roaringPlain      = 12346
	roaringRuns       = 12347
	roaringNoOffsets  = 4    // fewer containers with runs have no offsets
	roaringSortedMost = 4096 // members of a sorted container
)

func notRoaring(at int, format string, args ...any) error {
	return fault.Corruptf(int64(at), "rowset: not a roaring bitmap: "+format, args...)
}

// readRoaring reads the whole of data as a bitmap; nothing may follow it.
func (d *Deletions) readRoaring(data []byte) error {
	n, err := d.readRoaringFirst(data)
	if err == nil && n < len(data) {
		err = notRoaring(n, "%d bytes follow it", len(data)-n)
	}
	return err
}

// readRoaringFirst reads the bitmap at the beginning of data and tells how many
// bytes it takes.
func (d *Deletions) readRoaringFirst(data []byte) (int, error) {
	r := roaringReader{data: data}
	containers, runs, err := r.cookie()
	if err != nil {
		return 0, err
	}
	headers, err := r.take(4*containers, "headers")
	if err != nil {
		return 0, err
	}
	if runs == nil || containers >= roaringNoOffsets {
		if _, err := r.take(4*containers, "offsets"); err != nil {
			return 0, err
		}
	}
	for i := range containers {
		key := binary.LittleEndian.Uint16(headers[4*i:])
		members := int(binary.LittleEndian.Uint16(headers[4*i+2:])) + 1
		if n := len(d.keys); n > 0 && d.keys[n-1] >= key {
			return 0, notRoaring(r.at, "key %d of container %d does not ascend", key, i)
		}
		c, err := r.container(members, runs != nil && runs[i/8]>>(i%8)&1 != 0)
		if err != nil {
			return 0, err
		}
		d.add(key, c)
	}
	return r.at, nil
}

type roaringReader struct {
	data []byte
	at   int
}

func (r *roaringReader) take(n int, what string) ([]byte, error) {
	if n > len(r.data)-r.at {
		return nil, notRoaring(r.at, "%d bytes of %s are cut short", n, what)
	}
	r.at += n
	return r.data[r.at-n : r.at], nil
}

func (r *roaringReader) cookie() (containers int, runs []byte, err error) {
	first, err := r.take(4, "cookie")
	if err != nil {
		return 0, nil, err
	}
	cookie := binary.LittleEndian.Uint32(first)
	switch {
	case cookie == roaringPlain:
		count, err := r.take(4, "count")
		if err != nil {
			return 0, nil, err
		}
		n := binary.LittleEndian.Uint32(count)
		if n > chunkSize {
			return 0, nil, notRoaring(4, "%d containers", n)
		}
		return int(n), nil, nil
	case cookie&0xFFFF == roaringRuns:
		n := int(cookie>>16) + 1
		runs, err = r.take((n+7)/8, "run marks")
		return n, runs, err
	}
	return 0, nil, notRoaring(0, "the cookie is %d", cookie)
}

func (r *roaringReader) container(members int, runs bool) (chunk, error) {
	start := r.at
	switch {
	case runs:
		count, err := r.take(2, "runs")
		if err != nil {
			return nil, err
		}
		raw, err := r.take(4*int(binary.LittleEndian.Uint16(count)), "runs")
		if err != nil {
			return nil, err
		}
		c, ok := newRunChunk(raw)
		if !ok {
			return nil, notRoaring(start, "runs are missing, overlap or leave their container")
		}
		return c, nil
	case members <= roaringSortedMost:
		raw, err := r.take(2*members, "members")
		if err != nil {
			return nil, err
		}
		if c := sortedChunk(raw); c.ascending() {
			return c, nil
		}
		return nil, notRoaring(start, "members do not ascend")
	}
	raw, err := r.take(chunkSize/8, "bits")
	if err != nil {
		return nil, err
	}
	c := newBitChunk(raw)
	if n := c.count(); n != members {
		return nil, notRoaring(start, "%d bits are set of %d", n, members)
	}
	return c, nil
}

// readArray reads the offsets of an Arrow file, which come in any order. One
// given twice counts once.
func (d *Deletions) readArray(data []byte) error {
	offsets, err := readOffsets(data, d.rows)
	if err != nil {
		return err
	}
	slices.Sort(offsets)
	offsets = slices.Compact(offsets)
	for len(offsets) > 0 {
		key := offsets[0] >> 16
		n := 0
		var c sortedChunk
		for ; n < len(offsets) && offsets[n]>>16 == key; n++ {
			c = binary.LittleEndian.AppendUint16(c, uint16(offsets[n]))
		}
		d.add(uint16(key), c)
		offsets = offsets[n:]
	}
	return nil
}

package encoding

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

func u32s(v ...uint32) []byte {
	var out []byte
	for _, x := range v {
		out = binary.LittleEndian.AppendUint32(out, x)
	}
	return out
}

// framed puts the length of the first part before the parts.
func framed(first, rest []byte) []byte {
	return slices.Concat(u64s(uint64(len(first))), first, rest)
}

// stored wraps bytes as LZ4 blocks of literals only, under their size.
func stored(b []byte) []byte {
	out := append(u32s(uint32(len(b))), byte(min(len(b), 15))<<4)
	if len(b) >= 15 {
		out = append(out, byte(len(b)-15))
	}
	return append(out, b...)
}

func generalCE(values *ce) *ce {
	return &ce{Compression: &lancepb.CompressiveEncoding_General{General: &lancepb.General{
		Compression: &lancepb.BufferCompression{Scheme: lancepb.BufferCompression_LZ4}, Values: values,
	}}}
}

func inlineCE(bits uint64) *ce {
	return &ce{Compression: &lancepb.CompressiveEncoding_InlineBitpacking{InlineBitpacking: &lancepb.InlineBitpacking{UncompressedBitsPerValue: bits}}}
}

// TestSequences: the generic blocks of sheet section 6.3, composed by hand.
func TestSequences(t *testing.T) {
	t.Parallel()
	// 1024 values of one bit, of which 0 and 64 are set (check values of
	// section 6.7 for words of 32 bits).
	packed := make([]byte, 128)
	packed[0], packed[1] = 1, 1
	bits := make([]uint64, 100)
	bits[0], bits[64] = 1, 1
	for _, c := range []struct {
		name string
		ce   *ce
		buf  []byte
		want []uint64
	}{
		{"flat", flatCE(64), u64s(3, 1<<63), []uint64{3, 1 << 63}},
		{"flat of no values", flatCE(64), nil, nil},
		{"constant of 4 bytes", constantCE(7, 0, 0, 0), nil, []uint64{7, 7, 7}},
		{"constant of 8 bytes", constantCE(0, 0, 0, 0, 1, 0, 0, 0), nil, []uint64{1 << 32}},
		{"empty constant", constantCE(), nil, nil},
		{"range", rangeCE(32, 5, 3), nil, []uint64{5, 8, 11}},
		{"delta of a constant", deltaCE(64, 10, constantCE(2, 0, 0, 0, 0, 0, 0, 0)), nil, []uint64{10, 12, 14}},
		{"delta of flat", deltaCE(32, 0, flatCE(32)), u32s(4, 0, 5), []uint64{0, 4, 4, 9}},
		{"delta of one value", deltaCE(32, 6, constantCE()), nil, []uint64{6}},
		{"inline bitpacking", inlineCE(32), append(u32s(1), packed...), bits},
		{"out of line", outOfLineCE(32, 1), packed, bits},
		{"out of line with a raw tail", outOfLineCE(32, 1), u32s(9, 8), []uint64{9, 8}},
		{"general flat", generalCE(flatCE(32)), stored(u32s(1, 2, 3, 4)), []uint64{1, 2, 3, 4}},
		{"runs", rleCE(flatCE(32), flatCE(32)), framed(u32s(8, 9), u32s(2, 1)), []uint64{8, 8, 9}},
		{"runs of length 0", rleCE(flatCE(32), flatCE(32)), framed(u32s(7, 8, 9), u32s(2, 0, 1)), []uint64{7, 7, 9}},
		{"runs of one length", rleCE(flatCE(32), constantCE(2, 0, 0, 0)), framed(u32s(8, 9), nil), []uint64{8, 8, 9, 9}},
		{"growing runs", rleCE(rangeCE(32, 5, 1), rangeCE(32, 1, 1)), nil, []uint64{5, 6, 6, 7, 7, 7}},
		{"runs of a constant", rleCE(constantCE(4, 0, 0, 0), flatCE(32)), framed(nil, u32s(1, 2)), []uint64{4, 4, 4}},
		{"compressed runs", rleCE(generalCE(flatCE(32)), outOfLineCE(32, 8)), framed(stored(u32s(8, 9)), u32s(1, 2)), []uint64{8, 9, 9}},
		{"dictionary", dictionaryCE(flatCE(32), flatCE(64), 2), slices.Concat(u64s(12, 16), u32s(1, 0, 1), u64s(5, 6)), []uint64{6, 5, 6}},
		{"dictionary of a range", dictionaryCE(flatCE(32), rangeCE(64, 10, 10), 3), slices.Concat(u64s(8, 0), u32s(2, 0)), []uint64{30, 10}},
		{"dictionary without bytes", dictionaryCE(constantCE(1, 0, 0, 0), rangeCE(64, 10, 10), 3), nil, []uint64{20, 20}},
	} {
		s, err := decodeSequence(c.ce, c.buf, len(c.want))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []uint64
		for i := range s.n {
			got = append(got, s.at(i))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
		if needs := len(c.buf) > 0; len(c.want) > 0 && needsPayload(c.ce) != needs {
			t.Errorf("%s: needs bytes: %v", c.name, !needs)
		}
	}
}

func TestSequenceDamage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		ce   *ce
		buf  []byte
		n    int
	}{
		{"missing", nil, nil, 1},
		{"flat too short", flatCE(64), u64s(3), 2},
		{"flat of odd width", flatCE(24), make([]byte, 3), 1},
		{"constant of 3 bytes", constantCE(1, 2, 3), nil, 1},
		{"constant without value", constantCE(), nil, 1},
		{"delta of no values", deltaCE(32, 0, flatCE(32)), nil, 0},
		{"range of odd width", rangeCE(12, 0, 1), nil, 1},
		{"runs that do not cover", rleCE(flatCE(32), flatCE(32)), framed(u32s(8), u32s(2)), 3},
		{"runs that cover more", rleCE(flatCE(32), flatCE(32)), framed(u32s(8), u32s(4)), 3},
		{"runs of no length", rleCE(flatCE(32), constantCE(0, 0, 0, 0)), framed(u32s(8), nil), 3},
		{"ranges of no length", rleCE(constantCE(1, 0, 0, 0), rangeCE(32, 0, 0)), nil, 3},
		{"ranges around zero", rleCE(constantCE(1, 0, 0, 0), rangeCE(32, 0, 1<<63)), nil, 3},
		{"uneven runs of one length", rleCE(flatCE(32), constantCE(2, 0, 0, 0)), framed(u32s(8, 9), nil), 3},
		{"runs that nothing counts", rleCE(outOfLineCE(32, 1), outOfLineCE(32, 1)), framed(u32s(1), u32s(1)), 1},
		{"frame past the end", rleCE(flatCE(32), flatCE(32)), u64s(9), 1},
		{"dictionary index", dictionaryCE(flatCE(32), flatCE(64), 1), slices.Concat(u64s(4, 8), u32s(1), u64s(5)), 1},
		{"dictionary parts", dictionaryCE(flatCE(32), flatCE(64), 1), slices.Concat(u64s(4, 9), u32s(0), u64s(5)), 1},
		{"runs in differences", deltaCE(32, 0, rleCE(flatCE(32), flatCE(32))), framed(u32s(8), u32s(1)), 2},
		{"general in general", rleCE(generalCE(generalCE(flatCE(32))), flatCE(32)), framed(stored(stored(u32s(8))), u32s(1)), 1},
		{"packed wider than its word", outOfLineCE(8, 9), make([]byte, 2000), 1},
		{"too many inline", inlineCE(8), make([]byte, 2000), 1025},
	} {
		if _, err := decodeSequence(c.ce, c.buf, c.n); err == nil || fault.KindOf(err) != fault.Corrupt && fault.KindOf(err) != fault.Unsupported {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestWrappedLevels: a chunk counts its levels modulo 65536; the runs know.
func TestWrappedLevels(t *testing.T) {
	t.Parallel()
	values, lengths := []byte{1, 0}, []byte{}
	for range 300 {
		values, lengths = append(values, 0, 0), append(lengths, 255)
	}
	lengths = append([]byte{1}, lengths...)
	count := 1 + 300*255
	got, err := decodeLevels(rleCE(flatCE(16), flatCE(8)), framed(values, lengths), count%65536)
	if err != nil || len(got) != count || got[0] != 1 || got[count-1] != 0 {
		t.Errorf("%d levels, %v", len(got), err)
	}
	if _, err := decodeLevels(rleCE(flatCE(16), flatCE(8)), framed(values, lengths), count%65536+1); fault.KindOf(err) != fault.Corrupt {
		t.Errorf("another count: %v", err)
	}
}

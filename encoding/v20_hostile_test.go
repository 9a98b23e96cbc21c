package encoding

import (
	"testing"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/schema"
)

// TestMisplacedArrays20 puts arrays that need two rounds of requests, or hold no
// plain numbers, where offsets, indices, bitmaps and bytes belong.
func TestMisplacedArrays20(t *testing.T) {
	t.Parallel()
	bufs := [][]byte{u64s(0, 1, 2), []byte("abcdefgh"), {0xff}}
	strs := binaryAE(flatAE(64, 0), flatAE(8, 1), 9)
	for _, wrong := range []struct {
		name string
		enc  *ae20
	}{
		{"strings", strs},
		{"strings of strings", binaryAE(flatAE(64, 0), strs, 9)},
		{"strings of odd bits", binaryAE(flatAE(64, 0), flatAE(1, 2), 9)},
		{"dictionary", dictionaryAE(flatAE(8, 2), strs, 1)},
		{"nulls", allNullsAE()},
		{"some nulls", someNullsAE(flatAE(1, 2), flatAE(64, 0))},
		{"fsst", &ae20{Array: &lancepb.ArrayEncoding20_Fsst{Fsst: &lancepb.Fsst20{Binary: strs, SymbolTable: make([]byte, 2312)}}}},
		{"missing", &ae20{}},
		{"absent", nil},
	} {
		for _, c := range []struct {
			place   string
			records []schema.Record
			columns [][]page20In
		}{
			{"string offsets", oneField("string"), [][]page20In{{{3, binaryAE(wrong.enc, flatAE(8, 1), 9), bufs}}}},
			{"string bytes", oneField("string"), [][]page20In{{{3, binaryAE(flatAE(64, 0), wrong.enc, 9), bufs}}}},
			{"bytes of one length", oneField("string"), [][]page20In{{{3, &ae20{Array: &lancepb.ArrayEncoding20_FixedSizeBinary{
				FixedSizeBinary: &lancepb.FixedSizeBinary20{Bytes: wrong.enc, ByteWidth: 2},
			}}, bufs}}}},
			{"list offsets", listOf("int8"), [][]page20In{{{3, listAE(wrong.enc, 9, 8), bufs}}, {{8, flatAE(8, 1), bufs}}}},
			{"validity", oneField("int64"), [][]page20In{{{3, someNullsAE(wrong.enc, flatAE(64, 0)), bufs}}}},
			{"indices", oneField("string"), [][]page20In{{{3, dictionaryAE(wrong.enc, strs, 1), bufs}}}},
			{"bytes of lists", oneField("string"), [][]page20In{{{3, listAE(flatAE(64, 0), 9, 8), bufs}}, {{8, wrong.enc, bufs}}}},
		} {
			f := handMade(t, c.records, c.columns...)
			for _, rows := range []Range{{0, 3}, {1, 2}} {
				if _, err := f.read(t, rows); fault.KindOf(err) != fault.Unsupported {
					t.Errorf("%s as %s, rows %v: %v", wrong.name, c.place, rows, err)
				}
			}
		}
	}
}

// TestDictionarySizes20: items that no bytes stand for must not ask for memory.
func TestDictionarySizes20(t *testing.T) {
	t.Parallel()
	enc := allNullsAE()
	for range 6 {
		enc = dictionaryAE(nonNegAE(0, 64), enc, 1<<27)
	}
	f := handMade(t, oneField("string"), []page20In{{1, enc, [][]byte{nil}}})
	if _, err := f.read(t, Range{0, 1}); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("nested dictionaries of 2^27 items: %v", err)
	}
}

package encoding

import (
	"math"
	"strconv"

	"github.com/flightblob/flightblob/encoding/internal/compress"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
)

// Settings of a column in its field metadata, as the reference takes them.
const (
	keyCompression     = "lance-encoding:compression"                   // none, lz4, zstd, fsst
	keyLevel           = "lance-encoding:compression-level"             // of zstd
	keyRunThreshold    = "lance-encoding:rle-threshold"                 // most runs per value
	keyByteSplit       = "lance-encoding:bss"                           // off, on, auto
	keyChunkSize       = "lance-encoding:minichunk-size"                // bytes of a chunk of text
	keyStructure       = "lance-encoding:structural-encoding"           // miniblock, fullzip; sparse at 2.3, a hint
	keyDictDivisor     = "lance-encoding:dict-divisor"                  // most distinct values: one of so many
	keyDictRatio       = "lance-encoding:dict-size-ratio"               // most bytes, of the plain ones
	keyDictMax         = "lance-encoding:dict-max-size"                 // bytes of a dictionary
	keyDictCompression = "lance-encoding:dict-values-compression"       // none, lz4, zstd
	keyDictLevel       = "lance-encoding:dict-values-compression-level" // of zstd
)

// compression is a general compression; scheme 0 is none.
type compression struct {
	scheme compress.Scheme
	level  int
}

// tuning is how the values of a column shall be stored. Structure and values
// are the same whatever it says.
type tuning struct {
	plain        bool        // compression=none: values as they are
	fsst         bool        // compression=fsst
	general      compression // compression=lz4 or zstd
	runThreshold float64
	byteSplit    string
	chunkBytes   int // of variable-width chunks
	structure    string
	dictDivisor  float64
	dictRatio    float64
	dictMax      int
	dict         compression
}

func newTuning(version Version, f *schema.Field) (tuning, error) {
	t := tuning{
		runThreshold: math.Inf(1), byteSplit: "auto", chunkBytes: 8 << 10,
		dictDivisor: 2, dictRatio: 0.8, dictMax: 8 << 20, dict: compression{scheme: compress.LZ4},
	}
	m := f.Metadata
	switch v := m[keyCompression]; v {
	case "":
	case "none":
		t.plain = true
	case "fsst":
		t.fsst = true
	case "lz4":
		t.general.scheme = compress.LZ4
	case "zstd":
		t.general.scheme = compress.Zstd
	default:
		return t, fault.New(fault.Invalid, "encoding: column %s has %s %q; allowed are none, lz4, zstd and fsst", f.FullName(), keyCompression, v)
	}
	switch v := m[keyDictCompression]; v {
	case "", "lz4":
	case "none":
		t.dict.scheme = 0
	case "zstd":
		t.dict.scheme = compress.Zstd
	default:
		return t, fault.New(fault.Invalid, "encoding: column %s has %s %q; allowed are none, lz4 and zstd", f.FullName(), keyDictCompression, v)
	}
	switch v := m[keyStructure]; {
	case v == "miniblock" || v == "fullzip":
		t.structure = v
	case v == "sparse" && version != V2_3:
		return t, fault.New(fault.Invalid, "encoding: column %s has %s %q, which needs files of format 2.3", f.FullName(), keyStructure, v)
	}
	// What else cannot be read is as good as absent.
	number(m[keyLevel], 1, 22, func(v float64) { t.general.level = int(v) })
	number(m[keyDictLevel], 1, 22, func(v float64) { t.dict.level = int(v) })
	number(m[keyRunThreshold], 0, 1, func(v float64) { t.runThreshold = v })
	number(m[keyChunkSize], 128, 1<<20, func(v float64) { t.chunkBytes = int(v) })
	number(m[keyDictDivisor], 1, math.MaxFloat64, func(v float64) { t.dictDivisor = v })
	number(m[keyDictRatio], 0, 1, func(v float64) { t.dictRatio = v })
	number(m[keyDictMax], 0, 1<<30, func(v float64) { t.dictMax = int(v) })
	if v := m[keyByteSplit]; v == "off" || v == "on" {
		t.byteSplit = v
	}
	return t, nil
}

func number(text string, least, most float64, set func(float64)) {
	if v, err := strconv.ParseFloat(text, 64); err == nil && v >= least && v <= most {
		set(v)
	}
}

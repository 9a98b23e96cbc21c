package query

import (
	"encoding/binary"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/internal/fault"
)

// checkText refuses text that is not UTF-8: the engine would take its word for
// it. Values of null slots are not looked at by anyone.
func checkText(name string, data arrow.ArrayData) error {
	if data.DataType().ID() == arrow.DICTIONARY {
		return checkText(name, data.Dictionary())
	}
	a := array.MakeFromData(data)
	defer a.Release()
	valid := true
	switch a := a.(type) {
	case *array.String:
		valid = validText(a.ValueBytes(), a.ValueOffsets(), a)
	case *array.LargeString:
		valid = validText(a.ValueBytes(), a.ValueOffsets(), a)
	}
	if !valid {
		return fault.New(fault.Corrupt, "query: column %q holds text that is not valid UTF-8", name)
	}
	return nil
}

// validText looks at all values at once: they are valid when their bytes are,
// and no value begins inside a character. Only where that fails, as it may for
// what lies under nulls, are values looked at one by one.
func validText[O int32 | int64](text []byte, offsets []O, a interface {
	array.StringLike
	IsValid(int) bool
},
) bool {
	if isASCII(text) || utf8.Valid(text) && startsOfRunes(text, offsets) {
		return true
	}
	for i := range a.Len() {
		if a.IsValid(i) && !utf8.ValidString(a.Value(i)) {
			return false
		}
	}
	return true
}

func isASCII(b []byte) bool {
	const high = 0x8080808080808080
	for ; len(b) >= 32; b = b[32:] {
		w := binary.LittleEndian.Uint64(b) | binary.LittleEndian.Uint64(b[8:]) |
			binary.LittleEndian.Uint64(b[16:]) | binary.LittleEndian.Uint64(b[24:])
		if w&high != 0 {
			return false
		}
	}
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// startsOfRunes says that no value begins inside a character.
func startsOfRunes[O int32 | int64](text []byte, offsets []O) bool {
	for _, o := range offsets {
		if at := o - offsets[0]; at < O(len(text)) && !utf8.RuneStart(text[at]) {
			return false
		}
	}
	return true
}

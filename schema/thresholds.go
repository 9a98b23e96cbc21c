package schema

import (
	"strconv"
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
)

// Field metadata keys that say where the bytes of a blob column go, and schema
// metadata values of KeyManaged. Numbers are decimal text (WRT-7).
const (
	KeyInline    = "lance-encoding:blob-inline-size-threshold"
	KeyDedicated = "lance-encoding:blob-dedicated-size-threshold"
	KeyPack      = "lance-encoding:blob-pack-file-size-threshold"
)

// Thresholds decide the placement of byte values of one column (WRT-1): longer
// than Dedicated bytes has an object of its own, else longer than Inline goes
// into a pack of at most Pack bytes, else it stays in the data file.
type Thresholds struct {
	Inline    uint64
	Dedicated uint64
	Pack      uint64
}

// DefaultThresholds are those of a column that states none.
var DefaultThresholds = Thresholds{Inline: 64 << 10, Dedicated: 4 << 20, Pack: 1 << 30}

// thresholdKeys lists the keys with what they may hold.
var thresholdKeys = [...]struct {
	key  string
	zero bool // 0 is allowed
	of   func(*Thresholds) *uint64
}{
	{KeyInline, true, func(t *Thresholds) *uint64 { return &t.Inline }},
	{KeyDedicated, false, func(t *Thresholds) *uint64 { return &t.Dedicated }},
	{KeyPack, false, func(t *Thresholds) *uint64 { return &t.Pack }},
}

// Thresholds reads the effective thresholds of a blob field from its metadata.
// The error names key, value, field and what is allowed (ERR-8): fault.Invalid.
func (f *Field) Thresholds() (Thresholds, error) {
	t := DefaultThresholds
	for _, k := range thresholdKeys {
		text, ok := f.Metadata[k.key]
		if !ok {
			continue
		}
		n, err := parseThreshold(text)
		if err != nil || n == 0 && !k.zero {
			allowed := "a whole number of bytes below 2^64"
			if !k.zero {
				allowed = "a positive " + strings.TrimPrefix(allowed, "a ")
			}
			return t, fault.New(fault.Invalid, "schema: field %s has %s = %s; it must be %s, in decimal digits",
				f.dotted(), k.key, fault.Quote(text), allowed)
		}
		*k.of(&t) = n
	}
	return t, nil
}

// parseThreshold reads decimal digits, with one plus sign before them at most.
func parseThreshold(text string) (uint64, error) {
	digits := strings.TrimPrefix(text, "+")
	if strings.HasPrefix(digits, "+") {
		digits = ""
	}
	return strconv.ParseUint(digits, 10, 64)
}

// Managed reads the managed-blob opt-in of schema metadata (CAP-1): true and
// false are the only values, absent is false. The error names key and value
// (ERR-9): fault.Invalid.
func Managed(metadata map[string]string) (bool, error) {
	switch text, ok := metadata[KeyManaged]; {
	case !ok || text == "false":
		return false, nil
	case text == "true":
		return true, nil
	default:
		return false, fault.New(fault.Invalid, `schema: schema metadata %s = %s; it must be "true" or "false"`, KeyManaged, fault.Quote(text))
	}
}

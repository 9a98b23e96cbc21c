package blob

import "github.com/flightblob/flightblob/schema"

// placement is where the bytes of a value go.
type placement uint8

const (
	inline    placement = iota // into the data file
	packed                     // into an object with others
	dedicated                  // into an object of its own
)

// placementOf is WRT-1: the dedicated threshold is asked first, so a larger
// inline threshold does not keep long values in the file (WRT-2), and both
// comparisons are strict. Empty values always stay in the file (WRT-3).
func placementOf(size uint64, t schema.Thresholds) placement {
	switch {
	case size == 0:
		return inline
	case size > t.Dedicated:
		return dedicated
	case size > t.Inline:
		return packed
	}
	return inline
}

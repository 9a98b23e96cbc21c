package table

import "sync"

// sizer decides how many rows to read in one go, from the bytes that rows have
// had so far: a small first batch, then growing ones that aim at BatchBytes.
type sizer struct {
	mu       sync.Mutex
	maxRows  int
	maxBytes int64
	last     int     // rows of the previous unit
	perRow   float64 // bytes per row, a running mean that leans to the latest
	observed bool
}

func newSizer(req ScanRequest) *sizer {
	return &sizer{maxRows: req.BatchRows, maxBytes: req.BatchBytes, last: firstBatchRows / growth}
}

// known says whether any rows have been measured.
func (s *sizer) known() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.observed
}

// next gives the rows of the next unit and the bytes that they will take, at
// most maxBytes.
func (s *sizer) next() (rows int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows = min(s.last*growth, s.maxRows)
	bytes = s.maxBytes
	if s.observed {
		if s.perRow*float64(rows) > float64(s.maxBytes) {
			rows = max(1, int(float64(s.maxBytes)/s.perRow))
		}
		bytes = min(bytes, int64(s.perRow*float64(rows))+1)
	}
	s.last = rows
	return rows, bytes
}

// observe learns from a unit that was read.
func (s *sizer) observe(rows int, bytes int64) {
	if rows == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	latest := float64(bytes) / float64(rows)
	if !s.observed {
		s.perRow, s.observed = latest, true
		return
	}
	// Growth is believed at once, shrinking by half: memory is bounded by the
	// largest rows, not by the mean.
	s.perRow = max(latest, (s.perRow+latest)/2)
}

// Package duration reads lengths of time as people and Lance's settings write them.
package duration

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// units of a length of time, in the words that people and Lance's settings use.
var units = map[string]time.Duration{
	"ns": time.Nanosecond, "us": time.Microsecond, "ms": time.Millisecond,
	"s": time.Second, "sec": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
	"w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour, "weeks": 7 * 24 * time.Hour,
}

// Parse reads a length of time: numbers with units, such as 7d, 12h, 90
// minutes or 1d 12h; a bare 0 is one too. It is never negative.
func Parse(s string) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	if s == "0" {
		return 0, true
	}
	var total time.Duration
	for rest := s; rest != ""; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		if err != nil {
			return 0, false
		}
		rest = strings.TrimLeft(rest[digits:], " ")
		word := len(rest) - len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz"))
		unit, ok := units[rest[:word]]
		if !ok || n > int64((math.MaxInt64-total)/unit) {
			return 0, false
		}
		total += time.Duration(n) * unit
		rest = strings.TrimLeft(rest[word:], " ")
	}
	return total, s != ""
}

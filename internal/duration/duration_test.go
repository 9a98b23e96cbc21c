package duration_test

import (
	"testing"
	"time"

	"github.com/flightblob/flightblob/internal/duration"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "14d": 14 * 24 * time.Hour, "1h 30m": 90 * time.Minute, "1h30m": 90 * time.Minute,
		"90 minutes": 90 * time.Minute, " 2 weeks ": 14 * 24 * time.Hour, "1500ms": 1500 * time.Millisecond,
	} {
		if got, ok := duration.Parse(text); !ok || got != want {
			t.Errorf("%q is %s, %t; want %s", text, got, ok, want)
		}
	}
	for _, text := range []string{"", " ", "5", "-1d", "d", "1 fortnight", "1.5h", "9999999999999w", "1d!", "99999999999999999999s"} {
		if got, ok := duration.Parse(text); ok {
			t.Errorf("%q is %s", text, got)
		}
	}
}

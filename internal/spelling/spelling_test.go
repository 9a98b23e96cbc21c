package spelling

import (
	"slices"
	"testing"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	have := []string{"images", "image", "videos", "x"}
	for _, test := range []struct {
		name     string
		n, limit int
		want     []string
	}{
		{"IMAGE", 3, 2, []string{"image", "images"}},
		{"imags", 1, 2, []string{"images"}},
		{"sounds", 3, 2, []string{}},
		{"", 2, -1, []string{"x", "image"}},
	} {
		if got := Nearest(test.name, have, test.n, test.limit); !slices.Equal(got, test.want) {
			t.Errorf("%q: %q, want %q", test.name, got, test.want)
		}
	}
}

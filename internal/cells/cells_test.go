package cells

import (
	"strings"
	"testing"
)

func TestCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, want string
		width      int
	}{
		{"abc", "abc", 3},
		{"abcd", "ab…", 3},
		{"日本語", "日本語", 6},
		{"日本語", "日…", 4},
		{"e\u0301e\u0301", "e\u0301e\u0301", 2},
		{"│─…", "│─…", 3},
		{"🎈🎈", "🎈…", 3},
		{"ｱｲｳ", "ｱｲｳ", 3}, // half-width
		{"", "", 0},
	} {
		if got := Cut(c.text, c.width); got != c.want || Width(got) > c.width {
			t.Errorf("Cut(%q, %d) = %q of %d cells, want %q", c.text, c.width, got, Width(got), c.want)
		}
	}
}

func TestAround(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line   string
		at     int
		width  int
		part   string
		before int
	}{
		{"SELECT )", 7, 80, "SELECT )", 7},
		{"SELECT '日本' )", 16, 80, "SELECT '日本' )", 14},
		{"e\u0301\t)", 4, 80, "e\u0301 )", 2},
		{"a\u202eb\x1b)", 6, 80, "a b )", 4},
		{"abcdef", 6, 80, "abcdef", 6},
		{"abcdef)ghijkl", 6, 8, "…ef)gh…", 3},
		{"abcdef", 6, 5, "…def", 4},
		{"abcdefgh", 0, 5, "abc…", 0},
		{"日本語日本語)日本語日本語", 18, 10, "…語)日…", 3},
	} {
		part, before := Around(c.line, c.at, c.width)
		if part != c.part || before != c.before {
			t.Errorf("Around(%q, %d, %d) = %q, %d; want %q, %d", c.line, c.at, c.width, part, before, c.part, c.before)
		}
		if Width(part) > c.width || before >= c.width {
			t.Errorf("%q takes %d cells of %d, the place is at %d", part, Width(part), c.width, before)
		}
	}
	long := strings.Repeat("漢a\u0301", 300)
	for at := range long {
		if part, before := Around(long, at, 40); Width(part) > 40 || before >= 40 {
			t.Fatalf("at %d: %q, %d", at, part, before)
		}
	}
}

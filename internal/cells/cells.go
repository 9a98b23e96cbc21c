// Package cells says how much room text takes on a terminal: two cells for a
// character of East Asian scripts and for a picture, none for marks that join
// the one before, whatever language the user's environment names.
package cells

import (
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"
)

// terminal counts what Unicode calls ambiguous, lines and arrows among them, as
// one cell.
var terminal = &runewidth.Condition{StrictEmojiNeutral: true}

// Width is how many cells a text takes. It holds no control characters.
func Width(s string) int {
	for i := range len(s) {
		if s[i] >= 0x7f {
			return terminal.StringWidth(s)
		}
	}
	return len(s)
}

// Cut shortens text to a number of cells, of which the last is an ellipsis.
func Cut(s string, width int) string {
	if Width(s) <= width {
		return s
	}
	return terminal.Truncate(s, width, "…")
}

// Around is the part of a line about the byte at, which takes at most width
// cells, ellipses for what is left out included, and how many of them stand
// before that byte. What would move the cursor is shown as a blank.
func Around(line string, at, width int) (part string, before int) {
	head, tail := strings.Map(plain, line[:at]), strings.Map(plain, line[at:])
	room := max(width, 4) - 1 // a place at the end of a line has a cell of its own
	left, right := Width(head), Width(tail)
	if left+right > room {
		// Each half gets what the other does not need.
		left = min(left, max(room/2, room-right))
		right = min(right, room-left)
		if tail = Cut(tail, right); Width(head) > left {
			head = terminal.TruncatePrefix(head, left, "…")
		}
	}
	return head + tail, Width(head)
}

func plain(r rune) rune {
	if !unicode.IsPrint(r) {
		return ' '
	}
	return r
}

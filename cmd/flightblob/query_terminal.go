package main

import (
	"io"
	"os"
	"strconv"
)

// screen is what a table must fit.
type screen struct {
	terminal bool
	width    int // characters; 0 = any
}

// screenOf looks at where output goes. COLUMNS decides where it is set, so that
// a width can be had without a terminal.
func screenOf(w io.Writer) screen {
	s := screen{terminal: isTerminal(w)}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		s.width = n
	} else if s.terminal {
		s.width = terminalWidth(w.(*os.File))
	}
	return s
}

// runeWidth is how many cells of a terminal a character takes: two for those of
// East Asian scripts and pictures, none for marks that join the one before.
func runeWidth(r rune) int {
	switch {
	case r >= 0x300 && r < 0x370, r == 0x200d, r >= 0xfe00 && r <= 0xfe0f:
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf && r != 0x303f, r >= 0xac00 && r <= 0xd7a3,
		r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6,
		r >= 0x1f300 && r <= 0x1f64f, r >= 0x1f900 && r <= 0x1f9ff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

func textWidth(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// cut shortens text to a number of cells, the last one an ellipsis.
func cut(s string, width int) string {
	if textWidth(s) <= width {
		return s
	}
	n := 0
	for i, r := range s {
		if n += runeWidth(r); n >= width {
			return s[:i] + "…"
		}
	}
	return s
}

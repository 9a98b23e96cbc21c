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

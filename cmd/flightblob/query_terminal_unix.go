//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalWidth is how many characters a line of a terminal has; 0 for what is
// none.
func terminalWidth(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	if size.Col == 0 {
		return 80 // a terminal that does not say
	}
	return int(size.Col)
}

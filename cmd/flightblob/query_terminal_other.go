//go:build !unix

package main

import "os"

// terminalWidth is how many characters a line of a terminal has; 0 for what is
// none.
func terminalWidth(f *os.File) int {
	st, err := f.Stat()
	if err != nil || st.Mode()&os.ModeCharDevice == 0 {
		return 0
	}
	return 80
}

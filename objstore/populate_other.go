//go:build unix && !linux

package objstore

import "golang.org/x/sys/unix"

// populate asks for a range to be read ahead.
func populate(p []byte) { _ = unix.Madvise(p, unix.MADV_WILLNEED) }

package objstore

import "golang.org/x/sys/unix"

// populate maps the pages of a range, reading those that are not cached.
// Kernels before 5.14 do not know the advice and get a hint instead. Nothing
// here can fail in a way that matters: who touches the range finds out.
func populate(p []byte) {
	if unix.Madvise(p, unix.MADV_POPULATE_READ) != nil {
		_ = unix.Madvise(p, unix.MADV_WILLNEED)
	}
}

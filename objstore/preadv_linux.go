package objstore

import "golang.org/x/sys/unix"

// preadv reads into several buffers with one call.
func preadv(fd int, parts [][]byte, off int64) (int, error) { return unix.Preadv(fd, parts, off) }

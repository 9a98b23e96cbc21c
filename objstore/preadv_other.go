//go:build unix && !linux

package objstore

import "golang.org/x/sys/unix"

// preadv reads into the first buffer; the caller goes on with what is left.
func preadv(fd int, parts [][]byte, off int64) (int, error) { return unix.Pread(fd, parts[0], off) }

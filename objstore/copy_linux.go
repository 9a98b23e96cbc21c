package objstore

import (
	"context"

	"golang.org/x/sys/unix"
)

// kernelChunk bounds one copy_file_range, so that cancellation is seen.
const kernelChunk = 64 << 20

// copyInKernel copies the first size bytes between two files, or as many as the
// kernel does; blocks are shared where the file system can.
func copyInKernel(ctx context.Context, dst, src int, size int64) (int64, error) {
	if size == 0 {
		return 0, nil
	}
	if unix.IoctlFileClone(dst, src) == nil {
		var st unix.Stat_t
		if err := unix.Fstat(dst, &st); err != nil {
			return 0, err
		}
		if st.Size == size {
			return size, nil
		}
		if err := unix.Ftruncate(dst, 0); err != nil { // the source has grown
			return 0, err
		}
	}
	var from, to int64
	for to < size {
		if err := ctx.Err(); err != nil {
			return to, err
		}
		var n int
		err := ignoringEINTR(func() (err error) {
			n, err = unix.CopyFileRange(src, &from, dst, &to, int(min(size-to, kernelChunk)), 0)
			return err
		})
		if err != nil && !cannotCopy(err) {
			return to, err
		}
		if err != nil || n == 0 {
			break
		}
	}
	return to, nil
}

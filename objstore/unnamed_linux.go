package objstore

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// createUnnamed opens a file in the folder that has no name until linkUnnamed
// gives it one: a process that is killed leaves nothing of it.
func (f *folder) createUnnamed() (*os.File, error) {
	var fd int
	err := ignoringEINTR(func() (err error) {
		fd, err = unix.Openat(f.fd(), ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o666)
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "unnamed"), nil
}

// linkUnnamed gives an unnamed file of the folder a name if that is free.
func (f *folder) linkUnnamed(file *os.File, name string) error {
	err := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", file.Fd()), f.fd(), name, unix.AT_SYMLINK_FOLLOW)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EXDEV) { // no /proc
		return unix.EOPNOTSUPP
	}
	return err
}

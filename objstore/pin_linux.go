package objstore

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// pin is a file held by a path-only descriptor: it can be looked at and opened
// later, but opening the pin itself has no effect on it and never blocks.
type pin struct {
	fd   int
	stat unix.Stat_t
	real string // where the file really lies, all links resolved
}

// pinPath resolves path once; everything later is about the inode found.
func pinPath(path string) (*pin, error) {
	p := &pin{}
	err := ignoringEINTR(func() (err error) {
		p.fd, err = unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := unix.Fstat(p.fd, &p.stat); err != nil {
		p.close()
		return nil, err
	}
	if p.real, err = realOf(p.fd); err != nil {
		// Without /proc: resolve by name and make sure it is the same inode.
		if p.real, err = resolvedSame(path, &p.stat); err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

// open opens the pinned inode for reading.
func (p *pin) open(flags int) (fd int, err error) {
	flags |= unix.O_CLOEXEC | unix.O_NONBLOCK
	err = ignoringEINTR(func() (err error) {
		fd, err = unix.Open("/proc/self/fd/"+strconv.Itoa(p.fd), flags, 0)
		return err
	})
	if err == nil {
		return fd, nil
	}
	if _, missing := os.Stat("/proc/self/fd"); missing == nil {
		return -1, err
	}
	return openSame(p.real, flags, &p.stat)
}

func (p *pin) close() { _ = unix.Close(p.fd) }

// realOf asks the kernel for the path of an open descriptor.
func realOf(fd int) (string, error) {
	real, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(real) { // "(unreachable)/…": outside our file system root
		return "", unix.ENOENT
	}
	return real, nil
}

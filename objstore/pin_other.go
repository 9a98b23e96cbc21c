//go:build !linux

package objstore

import "golang.org/x/sys/unix"

// pin is a file that was resolved by name; opening it later checks that the
// same inode is still there.
type pin struct {
	stat unix.Stat_t
	real string // where the file really lies, all links resolved
}

func pinPath(path string) (*pin, error) {
	p := &pin{}
	if err := ignoringEINTR(func() error { return unix.Stat(path, &p.stat) }); err != nil {
		return nil, err
	}
	var err error
	p.real, err = resolvedSame(path, &p.stat)
	return p, err
}

// open opens the pinned inode for reading.
func (p *pin) open(flags int) (int, error) {
	return openSame(p.real, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, &p.stat)
}

func (p *pin) close() {}

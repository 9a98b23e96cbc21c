package objstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/flightblob/flightblob/internal/fault"
)

// RemoveFolder implements FolderRemover. The folder is renamed to a name that
// starts with TempPrefix, which makes it gone, and then emptied; a process that
// is killed meanwhile leaves a folder of that name.
func (l *Local) RemoveFolder(ctx context.Context, dir string) error {
	return l.removeFolder(ctx, dir, everything)
}

func (l *Local) removeFolder(ctx context.Context, dir string, a *Access) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("objstore: remove %s: %w", dir, err)
	}
	parent, name, err := splitObject(dir)
	if err != nil {
		return err
	}
	f, err := l.openFolder(parent, name, a, false)
	if err != nil {
		if fault.KindOf(err) == fault.NotFound {
			return nil
		}
		return err
	}
	defer f.close()
	temp := TempPrefix + rand.Text()
	if a.checkReal(joinPath(parent, temp), joinPath(f.real, temp)) != nil {
		return fault.New(fault.Unsupported, "objstore: %s cannot be removed as one, because the folder that it is in may not be changed", dir)
	}
	if !f.holdsFolder(name) && !f.holdsLink(name) {
		return nil // nothing there, or an object
	}
	if err = l.at("rename"); err == nil {
		err = ignoringEINTR(func() error { return unix.Renameat(f.fd(), name, f.fd(), temp) })
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EXDEV):
		return fault.New(fault.Unsupported, "objstore: %s cannot be removed as one: %w", dir, err)
	case err != nil:
		return writeError("remove", dir, err)
	}
	if err := l.syncFolder(f); err != nil {
		return Uncertain(dir, writeError("sync", dir, err))
	}
	if err := l.empty(ctx, f, temp); err != nil {
		return writeError("remove the files of", dir, err)
	}
	return nil
}

// holdsLink reports that name is a link.
func (f *folder) holdsLink(name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(f.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// empty removes name from f with all that is below it.
func (l *Local) empty(ctx context.Context, f *folder, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := l.at("unlink"); err != nil {
		return err
	}
	err := ignoringEINTR(func() error { return unix.Unlinkat(f.fd(), name, 0) })
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM): // what systems say of a folder
		return err
	}
	fd, openErr := unix.Openat(f.fd(), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(openErr, unix.ENOTDIR) {
		return err
	}
	if openErr != nil {
		return openErr
	}
	real := joinPath(f.real, name)
	below := &folder{file: os.NewFile(uintptr(fd), real), real: real}
	defer below.close()
	names, err := below.file.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := l.empty(ctx, below, n); err != nil {
			return err
		}
	}
	err = ignoringEINTR(func() error { return unix.Unlinkat(f.fd(), name, unix.AT_REMOVEDIR) })
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

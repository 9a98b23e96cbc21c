package objstore

import (
	"errors"
	"os"
	"path"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flightblob/flightblob/internal/fault"
)

// folderAttempts is how often a folder is looked up again that others remove
// or replace at the same time.
const folderAttempts = 8

// folder is a folder held open. Objects are made and removed in it by name
// alone, so no link that is swapped in later can lead a write elsewhere.
type folder struct {
	file *os.File
	real string // where it really lies, all links resolved
}

func (f *folder) fd() int { return int(f.file.Fd()) }

func (f *folder) close() { f.file.Close() }

// create opens a new file for reading and writing.
func (f *folder) create(name string) (*os.File, error) {
	var fd int
	err := ignoringEINTR(func() (err error) {
		fd, err = unix.Openat(f.fd(), name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o666)
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// holdsFolder reports that name is a folder.
func (f *folder) holdsFolder(name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(f.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// openFolder opens folder dir for an object of that name, once it is sure that
// the object may be touched there; what is missing of dir is made if wanted.
func (l *Local) openFolder(dir, name string, a *Access, makeMissing bool) (*folder, error) {
	object := joinPath(dir, name)
	for attempt := 1; ; attempt++ {
		f, err := l.tryFolder(dir, name, a, makeMissing)
		switch {
		case err == nil:
			return f, nil
		case makeMissing && attempt < folderAttempts && isAny(err, unix.ENOENT, unix.ELOOP, unix.ENOTDIR, unix.ESTALE):
			continue // something changed while the folders were made
		case makeMissing && isAny(err, unix.ENOENT, unix.ELOOP):
			return nil, fault.New(fault.Precondition, "objstore: a folder of %s is a link that leads nowhere, or keeps vanishing", object)
		}
		var known *fault.Error
		if errors.As(err, &known) {
			return nil, err
		}
		if denied := a.checkPath(object); denied != nil {
			return nil, denied
		}
		if makeMissing {
			return nil, writeError("make the folder of", object, err)
		}
		return nil, fileError("open the folder of", object, err)
	}
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

func (l *Local) tryFolder(dir, name string, a *Access, makeMissing bool) (*folder, error) {
	var missing []string // innermost first
	at := dir
	p, err := pinPath(at)
	for makeMissing && errors.Is(err, unix.ENOENT) && at != "/" {
		missing = append(missing, path.Base(at))
		at = path.Dir(at)
		p, err = pinPath(at)
	}
	if err != nil {
		return nil, err
	}
	defer p.close()
	real := p.real
	for i := len(missing) - 1; i >= 0; i-- {
		real = joinPath(real, missing[i])
	}
	if err := a.checkReal(joinPath(dir, name), joinPath(real, name)); err != nil {
		return nil, err
	}
	if p.stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil, unix.ENOTDIR
	}
	fd, err := p.open(unix.O_RDONLY | unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	f := &folder{file: os.NewFile(uintptr(fd), p.real), real: p.real}
	for i := len(missing) - 1; i >= 0; i-- {
		below, err := l.subfolder(f, missing[i])
		f.close()
		if err != nil {
			return nil, err
		}
		f = below
	}
	return f, nil
}

// subfolder makes a folder in f, unless it is there, and opens it.
func (l *Local) subfolder(f *folder, name string) (*folder, error) {
	err := l.at("mkdir")
	if err == nil {
		err = ignoringEINTR(func() error { return unix.Mkdirat(f.fd(), name, 0o777) })
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, err
	}
	var fd int
	err = ignoringEINTR(func() (err error) {
		fd, err = unix.Openat(f.fd(), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		var st unix.Stat_t
		if unix.Fstatat(f.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
			err = unix.ELOOP // systems differ in what they call a link here
		}
		return nil, err
	}
	real := joinPath(f.real, name)
	return &folder{file: os.NewFile(uintptr(fd), real), real: real}, nil
}

// syncFolder makes the names in f durable.
func (l *Local) syncFolder(f *folder) error {
	if err := l.at("sync folder"); err != nil {
		return err
	}
	return syncNames(f.file)
}

// syncNames syncs a folder. Some file systems have no such thing: their names
// are as durable as they ever get.
func syncNames(dir *os.File) error {
	err := dir.Sync()
	if isAny(err, unix.EINVAL, unix.ENOTSUP, unix.EROFS) {
		return nil
	}
	return err
}

// reachedFor is how long a folder is believed to be durable once the folders
// above it were synced: it might be removed and made again by somebody else.
const reachedFor = time.Minute

// maxReached bounds the folders remembered.
const maxReached = 4096

// reached remembers which folders, with all that lead to them, are durable.
type reached struct {
	mu      sync.Mutex
	folders map[string]reachedFolder // by real path
}

type reachedFolder struct {
	inode inode
	at    time.Time
}

func (r *reached) knows(real string, at inode) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, ok := r.folders[real]
	return ok && f.inode == at && time.Since(f.at) < reachedFor
}

func (r *reached) learn(real string, at inode) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.folders == nil || len(r.folders) >= maxReached {
		r.folders = make(map[string]reachedFolder)
	}
	r.folders[real] = reachedFolder{at, time.Now()}
}

// reach makes sure that f can be found after a crash: every folder above it is
// synced once, whoever made the one below.
func (l *Local) reach(f *folder) error {
	var st unix.Stat_t
	if err := unix.Fstat(f.fd(), &st); err != nil {
		return writeError("stat", f.real, err)
	}
	return l.reachFolder(f.real, inodeOf(&st))
}

func (l *Local) reachFolder(real string, at inode) error {
	parent := path.Dir(real)
	if parent == real || l.reached.knows(real, at) {
		return nil
	}
	if err := l.at("sync folder"); err != nil {
		return writeError("sync", parent, err)
	}
	dir, err := os.Open(parent)
	if err == nil {
		defer dir.Close()
		if err := syncNames(dir); err != nil {
			return writeError("sync", parent, err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
			return writeError("stat", parent, err)
		}
		if err := l.reachFolder(parent, inodeOf(&st)); err != nil {
			return err
		}
	} else if !isAny(err, unix.EACCES, unix.EPERM, unix.ENOENT) {
		// A folder that this process may not read, or that was moved since, is
		// none that it made.
		return writeError("sync", parent, err)
	}
	l.reached.learn(real, at)
	return nil
}

package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flightblob/flightblob/internal/fault"
)

// LocalOptions bounds what a Local keeps open between calls. Zero values give
// the defaults.
type LocalOptions struct {
	// OpenFiles bounds the cached descriptors; default 256.
	OpenFiles int
	// Mappings bounds the cached mappings; default 256.
	Mappings int
	// MappedBytes bounds the bytes of the cached mappings; default 64 GiB of
	// address space. A larger file is mapped for its users only.
	MappedBytes int64
}

func (o LocalOptions) withDefaults() LocalOptions {
	if o.OpenFiles <= 0 {
		o.OpenFiles = 256
	}
	if o.Mappings <= 0 {
		o.Mappings = 256
	}
	if o.MappedBytes <= 0 {
		o.MappedBytes = 64 << 30
	}
	return o
}

// Local is the local file system as a store. Paths are absolute, such as
// "/data/t.lance/_versions/1.manifest"; "." and ".." components are refused.
//
// Descriptors and mappings are cached by path and used again only when the
// path still names the same inode, which costs one stat per call: a file that
// is replaced under its name is never read stale, so mutable files (refs,
// hints) need no special treatment. A cached descriptor pins its inode, hence
// inode numbers cannot be recycled meanwhile.
type Local struct {
	files   fileCache
	maps    mapCache
	reached reached

	// step, if set, is asked before each system call that changes something:
	// tests let it fail there.
	step func(op string) error
}

func (l *Local) at(op string) error {
	if l.step == nil {
		return nil
	}
	return l.step(op)
}

// NewLocal makes a store over the local file system.
func NewLocal(o LocalOptions) *Local {
	o = o.withDefaults()
	l := &Local{}
	l.files.init(o.OpenFiles)
	l.maps.init(o.Mappings, o.MappedBytes)
	return l
}

// Close forgets all cached descriptors and mappings. Those in use live until
// their users are done; the store stays usable.
func (l *Local) Close() error {
	l.files.clear()
	l.maps.clear()
	return nil
}

// URI gives the path itself, which Locate reads back literally.
func (l *Local) URI(path string) string { return path }

// ReadAt implements Store.
func (l *Local) ReadAt(ctx context.Context, path string, p []byte, off int64) error {
	return l.readAt(ctx, path, p, off, everything)
}

// Size implements Store.
func (l *Local) Size(ctx context.Context, path string) (int64, error) {
	return l.size(ctx, path, everything)
}

// List implements Store. Empty folders, dangling links and special files are
// left out.
func (l *Local) List(ctx context.Context, dir string) iter.Seq2[Entry, error] {
	return l.list(ctx, dir, every, everything)
}

// Map implements Mapper.
func (l *Local) Map(ctx context.Context, path string) (Mapping, error) {
	return l.mapFile(ctx, path, everything)
}

// ReadWhole implements WholeReader: length and bytes come from one descriptor.
func (l *Local) ReadWhole(ctx context.Context, path string, limit int64) ([]byte, error) {
	return l.readWhole(ctx, path, limit, everything)
}

func (l *Local) readAt(ctx context.Context, path string, p []byte, off int64, a *Access) error {
	if off < 0 {
		return fault.New(fault.Invalid, "objstore: negative offset %d for %s", off, path)
	}
	if len(p) == 0 {
		return a.checkPath(path)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("objstore: read %s: %w", path, err)
	}
	f, err := l.acquire(path, a)
	if err != nil {
		return err
	}
	defer f.release()
	return f.readFull(ctx, p, off)
}

func (l *Local) readWhole(ctx context.Context, path string, limit int64, a *Access) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("objstore: read %s: %w", path, err)
	}
	f, err := l.acquire(path, a)
	if err != nil {
		return nil, err
	}
	defer f.release()
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		return nil, fileError("stat", path, err)
	}
	if st.Size > limit {
		return nil, tooLarge(path, st.Size, limit)
	}
	data := make([]byte, st.Size)
	if err := f.readFull(ctx, data, 0); err != nil {
		return nil, err
	}
	return data, nil
}

// size answers from one stat when the file is open already or nothing needs
// checking; else it pins the file to see where it really lies.
func (l *Local) size(ctx context.Context, path string, a *Access) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("objstore: size of %s: %w", path, err)
	}
	if err := checkLocalPath(path); err != nil {
		return 0, err
	}
	var st unix.Stat_t
	if err := ignoringEINTR(func() error { return unix.Stat(path, &st) }); err != nil {
		return 0, l.absent("stat", path, err, a)
	}
	if !a.all {
		if f := l.files.get(path, &st); f != nil {
			defer f.release()
			if err := f.check(a); err != nil {
				return 0, err
			}
		} else {
			pin, err := pinPath(path)
			if err != nil {
				return 0, l.absent("stat", path, err, a)
			}
			defer pin.close()
			if err := a.checkReal(path, pin.real); err != nil {
				return 0, err
			}
			st = pin.stat
		}
	}
	if err := regular(path, &st); err != nil {
		return 0, err
	}
	return st.Size, nil
}

// every keeps all names.
func every(string) bool { return true }

func (l *Local) list(ctx context.Context, dir string, keep func(name string) bool, a *Access) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if dir == "" {
			dir = "/"
		} else if len(dir) > 1 {
			dir = strings.TrimSuffix(dir, "/")
		}
		f, names, err := l.readDir(dir, keep, a)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		if f == nil {
			return
		}
		defer f.Close()
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				yield(Entry{}, fmt.Errorf("objstore: list %s: %w", dir, err))
				return
			}
			e, ok, err := childEntry(int(f.Fd()), dir, strings.TrimSuffix(name, "/"), a)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if ok && !yield(e, nil) {
				return
			}
		}
	}
}

// readDir opens a folder and gives its names in key order; folders (and links,
// which may lead to one) end in a slash for the sake of that order. A nil file
// means that there is no such folder.
func (l *Local) readDir(dir string, keep func(name string) bool, a *Access) (*os.File, []string, error) {
	if err := checkLocalPath(dir); err != nil {
		return nil, nil, err
	}
	pin, err := pinPath(dir)
	if err != nil {
		err = l.absent("list", dir, err, a)
		if fault.KindOf(err) == fault.NotFound {
			err = nil
		}
		return nil, nil, err
	}
	defer pin.close()
	if err := a.checkReal(dir, pin.real); err != nil {
		return nil, nil, err
	}
	if pin.stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil, nil, nil
	}
	fd, err := pin.open(unix.O_RDONLY | unix.O_DIRECTORY)
	if err != nil {
		return nil, nil, fileError("list", dir, err)
	}
	f := os.NewFile(uintptr(fd), dir)
	entries, err := f.ReadDir(-1)
	if err != nil {
		f.Close()
		return nil, nil, fileError("list", dir, err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		name := e.Name()
		if !keep(name) {
			continue
		}
		if e.IsDir() || e.Type()&os.ModeSymlink != 0 && linkedDir(fd, name) {
			name += "/"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return f, names, nil
}

func linkedDir(dirfd int, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(dirfd, name, &st, 0) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// childEntry describes one name of an opened folder; false leaves it out.
func childEntry(dirfd int, dir, name string, a *Access) (Entry, bool, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dirfd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if errors.Is(err, unix.ENOENT) { // removed meanwhile
			return Entry{}, false, nil
		}
		return Entry{}, false, fileError("stat", joinPath(dir, name), err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		pin, err := pinPath(joinPath(dir, name))
		if err != nil { // dangling or unreadable: nothing to offer
			return Entry{}, false, nil
		}
		defer pin.close()
		if a.checkReal(joinPath(dir, name), pin.real) != nil {
			return Entry{}, false, nil
		}
		st = pin.stat
	}
	e := Entry{Name: name, Modified: time.Unix(st.Mtim.Unix())}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		e.Dir = true
		return e, holdsSomething(dirfd, name, joinPath(dir, name), 0), nil
	case unix.S_IFREG:
		e.Size = st.Size
		return e, true, nil
	default:
		return Entry{}, false, nil
	}
}

// deepest bounds how far down holdsSomething looks.
const deepest = 64

// holdsSomething tells a folder with an object below it from one that holds
// empty folders at most. A folder that cannot be read is shown, so that opening
// it reports why.
func holdsSomething(dirfd int, name, path string, depth int) bool {
	fd, err := unix.Openat(dirfd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return !errors.Is(err, unix.ENOENT) // else removed meanwhile
	}
	f := os.NewFile(uintptr(fd), path) // the path is for file systems that do not tell folders by name
	defer f.Close()
	var folders []string
	for {
		entries, err := f.ReadDir(64)
		for _, e := range entries {
			if !e.IsDir() {
				return true
			}
			folders = append(folders, e.Name())
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return true
		}
	}
	for _, below := range folders {
		if depth == deepest || holdsSomething(fd, below, joinPath(path, below), depth+1) {
			return true
		}
	}
	return false
}

// acquire gives an open, checked, regular file that the caller releases.
func (l *Local) acquire(path string, a *Access) (*openFile, error) {
	if err := checkLocalPath(path); err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := ignoringEINTR(func() error { return unix.Stat(path, &st) }); err != nil {
		l.files.drop(path)
		return nil, l.absent("open", path, err, a)
	}
	if f := l.files.get(path, &st); f != nil {
		if err := f.check(a); err != nil {
			f.release()
			return nil, err
		}
		return f, nil
	}
	f, err := openChecked(path, a)
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		l.files.clear() // our own cache may hold the descriptors that are missing
		f, err = openChecked(path, a)
	}
	if err != nil {
		return nil, l.absent("open", path, err, a)
	}
	return l.files.put(f), nil
}

// openChecked pins the file, looks where it really lies and what it is, and
// only then opens exactly that inode: no link can be swapped in between, and
// nothing that is refused gets opened.
func openChecked(path string, a *Access) (*openFile, error) {
	pin, err := pinPath(path)
	if err != nil {
		return nil, err
	}
	defer pin.close()
	if err := a.checkReal(path, pin.real); err != nil {
		return nil, err
	}
	if err := regular(path, &pin.stat); err != nil {
		return nil, err
	}
	fd, err := pin.open(unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	f := newOpenFile(path, fd, pin)
	f.checked.Store(a)
	return f, nil
}

// absent turns a failed look-up into an error. What lies outside the access
// stays Denied even when it does not exist: a refusal must not tell.
func (l *Local) absent(op, path string, err error, a *Access) error {
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	if denied := a.checkPath(path); denied != nil {
		return denied
	}
	return fileError(op, path, err)
}

// checkLocalPath refuses what is not an absolute literal path.
func checkLocalPath(path string) error {
	if !strings.HasPrefix(path, "/") {
		return fault.New(fault.Invalid, "objstore: local path %q is not absolute", path)
	}
	if strings.IndexByte(path, 0) >= 0 {
		return fault.New(fault.Invalid, "objstore: local path %q holds a zero byte", path)
	}
	if hasDotComponent(path) {
		return fault.New(fault.Invalid, "objstore: local path %q holds a '.' or '..' component", path)
	}
	return nil
}

// regular refuses folders (no object there) and special files, which could
// block, have side effects when read, or never end.
func regular(path string, st *unix.Stat_t) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		return fault.New(fault.NotFound, "objstore: %s is a folder, not an object", path)
	default:
		return fault.New(fault.Denied, "objstore: %s is not a regular file", path)
	}
}

// fileError maps an errno to the house's kinds.
func fileError(op, path string, err error) error {
	kind := fault.Internal
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENAMETOOLONG):
		return fault.New(fault.NotFound, "objstore: %s does not exist", path)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		kind = fault.Denied
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
		kind = fault.Exhausted
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EINVAL):
		kind = fault.Invalid
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		err = errno // a *PathError would print the path again, or one of /proc
	}
	return fault.New(kind, "objstore: %s %s: %w", op, path, err)
}

func tooLarge(object string, size, limit int64) error {
	return fault.New(fault.Exhausted, "objstore: %s has %d bytes, more than the %d this reader accepts", object, size, limit)
}

// shortObject reports a range that ends behind the object (ERR-16, RES-14).
func shortObject(object string, off, n, size int64) error {
	return &fault.Error{
		Kind: fault.Corrupt, Object: object, Offset: off,
		Text: fmt.Sprintf("objstore: %d bytes wanted, but the object ends at byte %d", n, size),
	}
}

func joinPath(dir, name string) string {
	if strings.HasSuffix(dir, "/") {
		return dir + name
	}
	return dir + "/" + name
}

func ignoringEINTR(call func() error) error {
	for {
		if err := call(); err != unix.EINTR { //nolint:errorlint // a raw errno
			return err
		}
	}
}

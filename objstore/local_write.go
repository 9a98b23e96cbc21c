package objstore

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/flightblob/flightblob/internal/fault"
)

// TempPrefix starts the names of local files that are not objects yet. A
// process that is killed leaves them behind; nothing ever refers to them. Objects
// that are made by PutIfAbsent have no such name where the file system can do
// without, as those of Linux can.
const TempPrefix = ".tmp-"

// writeBuffer gathers small writes, in bytes.
const writeBuffer = 256 << 10

// Create implements Store. The bytes go to a file beside the object, named by
// TempPrefix, which Commit syncs and renames.
func (l *Local) Create(ctx context.Context, path string) (Writer, error) {
	return l.create(ctx, path, everything)
}

// PutIfAbsent implements Store by a hard link, which the file system makes only
// when the name is free, whoever else tries at the same time.
func (l *Local) PutIfAbsent(ctx context.Context, path string, data []byte) error {
	return l.putIfAbsent(ctx, path, data, everything)
}

// Put implements Store by rename.
func (l *Local) Put(ctx context.Context, path string, data []byte) error {
	return l.put(ctx, path, data, everything)
}

// Delete implements Store. A link is removed itself, not what it leads to.
// Folders stay.
func (l *Local) Delete(ctx context.Context, path string) error {
	return l.remove(ctx, path, everything)
}

// tempFile is a file in the folder of an object that is not there yet.
type tempFile struct {
	store *Local
	dir   *folder
	path  string // of the object, for messages
	name  string // of the object in dir
	temp  string // of this file in dir; "" when it has no name
	file  *os.File
}

// newTemp opens a temporary file beside the object, making its folders. An
// unnamed one gets a name all the same where the file system wants it.
func (l *Local) newTemp(ctx context.Context, object string, a *Access, unnamed bool) (*tempFile, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("objstore: write %s: %w", object, err)
	}
	dir, name, err := splitObject(object)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		f, err := l.openFolder(dir, name, a, true)
		if err == nil {
			t := &tempFile{store: l, dir: f, path: object, name: name}
			if err = l.at("create"); err == nil {
				err = t.open(unnamed)
			}
			if err == nil {
				return t, nil
			}
			f.close()
			err = writeError("create", object, err)
		}
		switch {
		case attempt == folderAttempts:
			return nil, err
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
			l.files.clear() // our own cache may hold the descriptors that are missing
		case !errors.Is(err, unix.ENOENT): // else somebody removed the empty folder
			return nil, err
		}
	}
}

// open makes the file.
func (t *tempFile) open(unnamed bool) (err error) {
	if unnamed {
		if t.file, err = t.dir.createUnnamed(); err == nil {
			return nil // else why not differs between systems: one with a name says what is wrong
		}
	}
	t.temp = TempPrefix + rand.Text()
	t.file, err = t.dir.create(t.temp)
	return err
}

// sync makes the bytes and the folders above durable; only the name is missing.
func (t *tempFile) sync() error {
	err := t.store.at("sync")
	if err == nil {
		err = t.file.Sync()
	}
	if err != nil {
		// What a failed sync lost stays lost: a second one would succeed.
		return writeError("sync", t.path, err)
	}
	return t.store.reach(t.dir)
}

// discard removes the file.
func (t *tempFile) discard() {
	t.file.Close()
	t.dropName()
	t.dir.close()
}

func (t *tempFile) dropName() {
	// A failure leaves a file that nothing refers to.
	if t.temp != "" && t.store.at("unlink") == nil {
		_ = unix.Unlinkat(t.dir.fd(), t.temp, 0)
	}
}

// rename gives the file its name, in place of an object that has it.
func (t *tempFile) rename() error {
	err := t.store.at("rename")
	if err == nil {
		err = ignoringEINTR(func() error { return unix.Renameat(t.dir.fd(), t.temp, t.dir.fd(), t.name) })
	}
	if err == nil {
		t.store.files.drop(t.path)
		return nil
	}
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		return fault.New(fault.Precondition, "objstore: %s is a folder, no object can take its name", t.path)
	}
	return writeError("write", t.path, err)
}

// link gives the file its name if that is free.
func (t *tempFile) link() error {
	err := t.store.at("link")
	if err == nil {
		err = ignoringEINTR(func() error {
			if t.temp == "" {
				return t.dir.linkUnnamed(t.file, t.name)
			}
			return unix.Linkat(t.dir.fd(), t.temp, t.dir.fd(), t.name, 0)
		})
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EEXIST):
		// A network file system may repeat a request whose answer got lost and
		// then report its own success as a failure.
		if t.linked() {
			return nil
		}
		return exists(t.path)
	case !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EMLINK):
		return writeError("write", t.path, err)
	case t.temp == "":
		return errNeedsName
	}
	return t.renameIfAbsent(err)
}

// errNeedsName says that an unnamed file cannot be linked here.
var errNeedsName = errors.New("the file must have a name before it gets another")

// linked reports that the object's name leads to this file.
func (t *tempFile) linked() bool {
	var at, own unix.Stat_t
	return unix.Fstatat(t.dir.fd(), t.name, &at, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		unix.Fstat(int(t.file.Fd()), &own) == nil && inodeOf(&at) == inodeOf(&own)
}

// renameIfAbsent does the same on file systems without hard links.
func (t *tempFile) renameIfAbsent(noLink error) error {
	err := ignoringEINTR(func() error { return renameNoReplace(t.dir.fd(), t.temp, t.name) })
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EEXIST):
		return exists(t.path)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EPERM):
		return fault.New(fault.Unsupported, "objstore: the file system of %s can neither link files nor rename them to free names only, "+
			"so commits to it would not be safe; keep tables on another one: %w", t.path, noLink)
	default:
		return writeError("write", t.path, err)
	}
}

// fill writes all of data and makes it durable.
func (t *tempFile) fill(data []byte) error {
	err := t.store.at("write")
	if err == nil {
		_, err = t.file.Write(data)
	}
	if err != nil {
		return writeError("write", t.path, err)
	}
	return t.sync()
}

// publish makes the file the object, durably, and closes it. Who gets an error
// discards the file.
func (t *tempFile) publish() error {
	if err := t.sync(); err != nil {
		return err
	}
	if err := t.rename(); err != nil {
		return err
	}
	if err := t.store.syncFolder(t.dir); err != nil {
		t.temp = t.name // nobody can know the object before this call succeeds
		return writeError("sync", t.path, err)
	}
	t.file.Close()
	t.dir.close()
	return nil
}

func (l *Local) put(ctx context.Context, path string, data []byte, a *Access) error {
	t, err := l.newTemp(ctx, path, a, false)
	if err != nil {
		return err
	}
	if err := t.fill(data); err != nil {
		t.discard()
		return err
	}
	if err := t.rename(); err != nil {
		t.discard()
		return err
	}
	t.file.Close()
	defer t.dir.close()
	if err := l.syncFolder(t.dir); err != nil {
		return Uncertain(path, writeError("sync", path, err))
	}
	return nil
}

func (l *Local) putIfAbsent(ctx context.Context, path string, data []byte, a *Access) error {
	err := l.linkIfAbsent(ctx, path, data, a, true)
	if errors.Is(err, errNeedsName) {
		err = l.linkIfAbsent(ctx, path, data, a, false)
	}
	return err
}

func (l *Local) linkIfAbsent(ctx context.Context, path string, data []byte, a *Access, unnamed bool) error {
	t, err := l.newTemp(ctx, path, a, unnamed)
	if err != nil {
		return err
	}
	defer t.discard() // the object has a name of its own by then
	if t.taken() {
		return exists(path)
	}
	if err := t.fill(data); err != nil {
		return err
	}
	if err := t.link(); err != nil {
		return err
	}
	if err := l.syncFolder(t.dir); err != nil {
		// Others may have seen the object already, so it cannot be taken back.
		return Uncertain(path, writeError("sync", path, err))
	}
	return nil
}

// taken looks whether the name is in use, which saves writing in vain.
func (t *tempFile) taken() bool {
	var st unix.Stat_t
	return unix.Fstatat(t.dir.fd(), t.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

func (l *Local) remove(ctx context.Context, path string, a *Access) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("objstore: delete %s: %w", path, err)
	}
	dir, name, err := splitObject(path)
	if err != nil {
		return err
	}
	f, err := l.openFolder(dir, name, a, false)
	if err != nil {
		if fault.KindOf(err) == fault.NotFound {
			return nil
		}
		return err
	}
	defer f.close()
	if err = l.at("unlink"); err == nil {
		err = ignoringEINTR(func() error { return unix.Unlinkat(f.fd(), name, 0) })
	}
	l.files.drop(path)
	switch {
	case err == nil:
		if err := l.syncFolder(f); err != nil {
			return Uncertain(path, writeError("sync", path, err))
		}
		return nil
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EISDIR), errors.Is(err, unix.EPERM) && f.holdsFolder(name):
		return nil // no object has that name
	default:
		return writeError("delete", path, err)
	}
}

// localWriter is a Writer over a temporary file.
type localWriter struct {
	ctx  context.Context
	temp *tempFile
	buf  *bufio.Writer
	err  error // of the first Write that failed
	done bool
}

func (l *Local) create(ctx context.Context, path string, a *Access) (Writer, error) {
	t, err := l.newTemp(ctx, path, a, false)
	if err != nil {
		return nil, err
	}
	w := &localWriter{ctx: ctx, temp: t}
	w.buf = bufio.NewWriterSize(fileWriter{t}, writeBuffer)
	return w, nil
}

// fileWriter writes to the file of a tempFile.
type fileWriter struct{ t *tempFile }

func (w fileWriter) Write(p []byte) (int, error) {
	if err := w.t.store.at("write"); err != nil {
		return 0, err
	}
	return w.t.file.Write(p)
}

// Write implements io.Writer.
func (w *localWriter) Write(p []byte) (int, error) {
	if w.done {
		return 0, finished(w.temp.path)
	}
	if w.err != nil {
		return 0, w.err
	}
	if err := w.ctx.Err(); err != nil {
		w.err = fmt.Errorf("objstore: write %s: %w", w.temp.path, err)
		return 0, w.err
	}
	n, err := w.buf.Write(p)
	if err != nil {
		w.err = writeError("write", w.temp.path, err)
		return n, w.err
	}
	return n, nil
}

// Commit implements Writer.
func (w *localWriter) Commit(ctx context.Context) error {
	if w.done {
		return finished(w.temp.path)
	}
	w.done = true
	if err := w.publish(ctx); err != nil {
		w.temp.discard()
		return err
	}
	return nil
}

func (w *localWriter) publish(ctx context.Context) error {
	t := w.temp
	if w.err != nil {
		return w.err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("objstore: commit %s: %w", t.path, err)
	}
	if err := w.buf.Flush(); err != nil {
		return writeError("write", t.path, err)
	}
	return t.publish()
}

// Abort implements Writer.
func (w *localWriter) Abort() {
	if w.done {
		return
	}
	w.done = true
	w.temp.discard()
}

// splitObject cuts a path into folder and name.
func splitObject(object string) (dir, name string, err error) {
	if err := checkLocalPath(object); err != nil {
		return "", "", err
	}
	i := strings.LastIndexByte(object, '/')
	if name = object[i+1:]; name == "" {
		return "", "", fault.New(fault.Invalid, "objstore: %s names a folder, not an object", object)
	}
	return path.Clean(object[:i+1]), name, nil
}

// writeError maps an errno of a write to the house's kinds.
func writeError(op, path string, err error) error {
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	var kind fault.Kind
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		kind = fault.Exhausted
	case errors.Is(err, unix.EROFS):
		kind = fault.Denied
	case errors.Is(err, unix.ENOENT):
		kind = fault.Precondition
	case errors.Is(err, unix.ENOTDIR):
		return fault.New(fault.Invalid, "objstore: %s %s: a part of the path is no folder", op, path)
	case errors.Is(err, unix.ENAMETOOLONG):
		kind = fault.Invalid
	default:
		return fileError(op, path, err)
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		err = errno
	}
	return fault.New(kind, "objstore: %s %s: %w", op, path, err)
}

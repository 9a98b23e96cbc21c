package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/flightblob/flightblob/query/statement"
)

// Bounds of the history: entries that are kept, bytes of one, and bytes of the
// file that are read.
const (
	mostEntries  = 1000
	longestEntry = 16 << 10
	mostHistory  = 4 << 20
)

// historyPath is the file in the user's state folder, by the XDG base directory
// specification; empty where there is none.
func historyPath(env func(string) string) string {
	state := env("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // which the specification says to ignore
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "flightblob", "history")
}

// history is a file of statements, one a line, readable by its owner only.
// Several shells may append to it.
type history struct{ path string }

// openHistory gives what earlier sessions kept. The file is cut when it holds
// more than twice what is kept. Without a path nothing is.
func openHistory(path string) (*history, []string, error) {
	if path == "" {
		return nil, nil, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	h := &history{path: path}
	if !st.Mode().IsRegular() { // such as /dev/null
		return h, nil, nil
	}
	if st.Mode().Perm() != 0o600 {
		if err := f.Chmod(0o600); err != nil {
			return nil, nil, err
		}
	}
	if _, err := f.Seek(max(0, st.Size()-mostHistory), io.SeekStart); err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, mostHistory))
	if err != nil {
		return nil, nil, err
	}
	var kept []string
	all := strings.Split(string(text), "\n")
	for _, entry := range all {
		if storable(entry) {
			kept = append(kept, entry)
		}
	}
	kept = kept[max(0, len(kept)-mostEntries):]
	if len(all) > 2*mostEntries || st.Size() > mostHistory {
		err = h.rewrite(kept)
	}
	return h, kept, err
}

// storable tells what an entry may be: a line of text that the editor can show.
func storable(entry string) bool {
	return entry != "" && len(entry) <= longestEntry && utf8.ValidString(entry) && strings.IndexFunc(entry, unicode.IsControl) < 0
}

// rewrite replaces the file.
func (h *history) rewrite(kept []string) error {
	f, err := os.CreateTemp(filepath.Dir(h.path), ".history-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(kept, "\n") + "\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), h.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// append adds an entry. Nothing is kept without a history.
func (h *history) append(entry string) error {
	if h == nil || !storable(entry) {
		return nil
	}
	f, err := os.OpenFile(h.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("its folder was removed: %w", err)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(entry + "\n")
	return errors.Join(err, f.Close())
}

// inside tells whether a text ends within a string, a quoted name or a comment.
func inside(text string) bool {
	_, err := statement.Split(text)
	return open(text, err)
}

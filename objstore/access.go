package objstore

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flightblob/flightblob/internal/fault"
)

// resolvedFor is how long the place that an allowed local prefix resolves to
// is believed. A refusal always looks again, so a stale answer can only keep
// open what was allowed this long ago.
const resolvedFor = time.Second

// Access is the set of places that may be touched: folders, buckets, parts of
// them, or single objects. It never changes; With makes a larger one. Keep and
// share an Access: guarded stores and open files remember its answers.
//
// The nil Access allows nothing.
type Access struct {
	all      bool
	prefixes []*allowed
	guards   sync.Map // Store → guarded Store

	// A store guarded twice is checked by the two at once: self is the one
	// that this was made from, and also must allow everything too.
	self, also *Access
}

// includes reports whether b is one of those that a checks.
func (a *Access) includes(b *Access) bool {
	for ; a != nil; a = a.also {
		if a == b || a.self == b {
			return true
		}
	}
	return false
}

// allowed is one prefix. Local ones may be links, or not exist yet.
type allowed struct {
	target
	resolved atomic.Pointer[resolution]
}

type resolution struct {
	path string
	at   time.Time
}

// everything is the access of unguarded stores.
var everything = &Access{all: true}

// nothing stands for the nil access.
var nothing = &Access{}

// NewAccess allows the given prefixes: local paths or URIs, matched by whole
// components, or "*" for everything. A prefix that is no valid URI allows
// nothing; CheckPrefix tells why.
func NewAccess(prefixes ...string) *Access { return nothing.With(prefixes...) }

// CheckPrefix reports what is wrong with a prefix for NewAccess: fault.Invalid.
func CheckPrefix(prefix string) error {
	if prefix == "*" {
		return nil
	}
	_, err := parseTarget(prefix)
	return err
}

// With allows more prefixes. It gives the receiver when that adds nothing.
func (a *Access) With(prefixes ...string) *Access {
	if a == nil {
		a = nothing
	}
	if a.all {
		return a
	}
	merged := slices.Clip(a.prefixes)
	for _, p := range prefixes {
		if p == "*" {
			return &Access{all: true}
		}
		t, err := parseTarget(p)
		if err != nil || slices.ContainsFunc(merged, func(have *allowed) bool { return have.target == t }) {
			continue
		}
		merged = append(merged, &allowed{target: t})
	}
	if len(merged) == len(a.prefixes) && a != nothing {
		return a
	}
	return &Access{prefixes: merged}
}

// Allows reports whether a URI or path may be touched: nil, fault.Denied, or
// fault.Invalid for what is no URI. For a local path it resolves links as they
// are now; a guarded store checks again what it really opens.
func (a *Access) Allows(uri string) error {
	if a == nil {
		a = nothing
	}
	t, err := parseTarget(uri)
	if err != nil {
		return err
	}
	return a.checkTarget(t)
}

func (a *Access) checkTarget(t target) error {
	if a.all {
		return nil
	}
	if t.scheme == fileScheme {
		return a.checkPath(t.path)
	}
	for _, p := range a.prefixes {
		if t.within(p.target) {
			return nil
		}
	}
	return denied(t)
}

// checkPath checks a local path by name. Only for paths that are not going to
// be opened: what is opened is checked by where it really lies.
func (a *Access) checkPath(path string) error {
	if a.all {
		return nil
	}
	if err := checkLocalPath(path); err != nil {
		return err
	}
	return a.checkReal(path, resolvePath(path))
}

// checkReal checks a local path, named as path, that really lies at real.
func (a *Access) checkReal(path, real string) error {
	if a.all {
		return nil
	}
	if a.also != nil {
		if err := a.also.checkReal(path, real); err != nil {
			return err
		}
	}
	for _, fresh := range []bool{false, true} {
		for _, p := range a.prefixes {
			if p.scheme == fileScheme && pathWithin(real, p.resolve(fresh)) {
				return nil
			}
		}
	}
	for _, p := range a.prefixes {
		if p.scheme == fileScheme && pathWithin(path, p.path) {
			return fault.New(fault.Denied, "objstore: %s is reached through a link that leads outside what this server may touch; "+
				"allow the folder it leads to with --external PREFIX", path)
		}
	}
	return denied(target{scheme: fileScheme, path: path})
}

// denied names the flag and the prefix that would allow t.
func denied(t target) error {
	return fault.New(fault.Denied, "objstore: %s lies outside what this server may touch; allow it with --external %s",
		t.uri(), t.parent().uri())
}

func (p *allowed) resolve(fresh bool) string {
	now := time.Now()
	if r := p.resolved.Load(); r != nil && !fresh && now.Sub(r.at) < resolvedFor {
		return r.path
	}
	r := &resolution{path: resolvePath(p.path), at: now}
	p.resolved.Store(r)
	return r.path
}

// resolvePath resolves all links of an absolute path. What does not exist is
// kept as written below the deepest folder that does.
func resolvePath(path string) string {
	rest := ""
	for dir := path; ; {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil {
			return filepath.Join(real, rest)
		}
		parent := filepath.Dir(dir)
		if parent == dir || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNotDir) {
			return path
		}
		rest = filepath.Join(filepath.Base(dir), rest)
		dir = parent
	}
}

package flightsvc

import (
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/flightblob/flightblob/table/manifest"
)

// maxRun is how many bytes without a blank are kept of a longer run: names and
// URIs that anyone means are shorter.
const maxRun = 500

var longRun = regexp.MustCompile(`\S{400,}`)

// redactor removes from texts what is not for clients.
type redactor struct {
	places []place // longest path first
}

// place is a local folder and what is shown of it.
type place struct{ path, shown string } // path has a final slash

// newRedactor knows the local roots by all names they may appear under. Roots
// are paths; URIs of other stores stay readable.
func newRedactor(roots []string) redactor {
	var r redactor
	for _, root := range roots {
		r.add(root, "")
	}
	return r
}

// add makes a local folder, by its name and by what that links to, appear as
// shown. Names that are there already stay.
func (r *redactor) add(folder, shown string) {
	if strings.Contains(folder, "://") {
		return
	}
	abs, err := filepath.Abs(folder)
	if err != nil {
		return
	}
	names := []string{abs}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		names = append(names, real)
	}
	for _, name := range names {
		name = strings.TrimRight(name, "/") + "/"
		if name != "/" && !slices.ContainsFunc(r.places, func(p place) bool { return p.path == name }) {
			r.places = append(r.places, place{name, shown})
		}
	}
	slices.SortStableFunc(r.places, func(a, b place) int { return len(b.path) - len(a.path) })
}

// baseRedactor shows the local bases that a manifest registers by their ids.
func baseRedactor(bases map[uint32]manifest.Base) redactor {
	var r redactor
	for _, id := range slices.Sorted(maps.Keys(bases)) {
		path := bases[id].Path
		if rest, ok := strings.CutPrefix(path, "file://"); ok {
			path = rest
			if plain, err := url.PathUnescape(rest); err == nil {
				path = plain
			}
		}
		r.add(path, fmt.Sprintf("base %d/", id))
	}
	return r
}

var (
	// A URL's user and password, and its query, which may be a signature.
	urlUser  = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s@"']*@`)
	urlQuery = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://[^\s?"']*)\?[^\s"']*`)
)

// text gives what may be said of s: paths relative to their root, no signed
// URLs, no stack, at most maxErrorText bytes of valid UTF-8.
func (r redactor) text(s string) string {
	// Some libraries put a stack into the text of a recovered panic.
	for _, mark := range []string{"\ngoroutine ", "\nruntime.", "\nruntime/", "\npanic("} {
		if i := strings.Index(s, mark); i >= 0 {
			s = s[:i]
		}
	}
	s = r.paths(s)
	if strings.Contains(s, "://") {
		s = urlUser.ReplaceAllString(s, "${1}")
		s = urlQuery.ReplaceAllString(s, "${1}?…")
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	// A foreign name may be as long as a ticket; what follows it says what to do.
	s = longRun.ReplaceAllStringFunc(shorten(s, 16*maxErrorText), func(run string) string { return shorten(run, maxRun) })
	return shorten(s, maxErrorText-len("…"))
}

// paths replaces the folders that the redactor knows.
func (r redactor) paths(s string) string {
	for _, p := range r.places {
		s = strings.ReplaceAll(s, "file://"+p.path, p.shown)
		s = replacePath(s, p.path, p.shown)
	}
	return s
}

// replacePath replaces a folder where it begins a path, so that /srv/data/
// stays in /backup/srv/data/x.
func replacePath(s, folder, shown string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, folder)
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		if i > 0 && isPathByte(s[i-1]) {
			b.WriteString(folder)
		} else {
			b.WriteString(shown)
		}
		s = s[i+len(folder):]
	}
}

func isPathByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		c == '_' || c == '-' || c == '.' || c == '/' || c == '%' || c >= 0x80
}

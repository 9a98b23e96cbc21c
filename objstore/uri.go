package objstore

import (
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/flightblob/flightblob/internal/fault"
)

// Schemes that the registry serves by itself.
const (
	fileScheme = "file"
	memScheme  = "mem"
)

// target is a parsed URI: a literal path in a named store.
type target struct {
	scheme string // lower case
	bucket string // authority; empty for local files
	path   string // local: absolute and clean; else a key without outer slashes
}

// parseTarget reads a URI or a plain local path.
//
// URIs follow the reference (EXT-6 and its measured habits): a raw '#' or '?'
// ends the path, dot segments are resolved, percent escapes are decoded and
// invalid ones are left as they are. Plain paths are literal; relative ones
// start at the working directory.
func parseTarget(uri string) (target, error) {
	if uri == "" {
		return target{}, fault.New(fault.Invalid, "objstore: empty URI")
	}
	scheme, rest, ok := cutScheme(uri)
	if !ok {
		return parsePlain(uri)
	}
	if i := strings.IndexAny(rest, "#?"); i >= 0 {
		rest = rest[:i]
	}
	if scheme == fileScheme {
		// A backslash separates in file URIs of the reference's URL rules.
		rest = strings.ReplaceAll(rest, `\`, "/")
	}
	authority, raw, slash := strings.Cut(rest, "/")
	path, err := decodePath(raw, uri)
	if err != nil {
		return target{}, err
	}
	if scheme == fileScheme {
		if authority != "" && !strings.EqualFold(authority, "localhost") {
			return target{}, fault.New(fault.Invalid, "objstore: file URI %q names a host; write file:///path", redactURI(uri))
		}
		if !slash {
			return target{}, fault.New(fault.Invalid, "objstore: file URI %q has no absolute path", redactURI(uri))
		}
		return target{scheme: scheme, path: filepath.Clean("/" + path)}, nil
	}
	if err := checkBucket(authority, uri); err != nil {
		return target{}, err
	}
	path = strings.TrimSuffix(path, "/")
	if path != "" && hasEmptyComponent(path) {
		return target{}, fault.New(fault.Invalid, "objstore: %q has an empty path component", redactURI(uri))
	}
	return target{scheme: scheme, bucket: authority, path: path}, nil
}

func parsePlain(path string) (target, error) {
	if strings.IndexByte(path, 0) >= 0 {
		return target{}, fault.New(fault.Invalid, "objstore: path %q holds a zero byte", path)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return target{}, fault.New(fault.Internal, "objstore: make %q absolute: %w", path, err)
	}
	return target{scheme: fileScheme, path: abs}, nil
}

// cutScheme splits "scheme://rest"; "file:/path" is understood too.
func cutScheme(uri string) (scheme, rest string, ok bool) {
	i := strings.IndexByte(uri, ':')
	if i <= 0 || !validScheme(uri[:i]) {
		return "", "", false
	}
	scheme, rest = strings.ToLower(uri[:i]), uri[i+1:]
	if after, found := strings.CutPrefix(rest, "//"); found {
		return scheme, after, true
	}
	if scheme == fileScheme && strings.HasPrefix(rest, "/") {
		return scheme, rest, true
	}
	return "", "", false
}

func validScheme(s string) bool {
	for i := range len(s) {
		switch c := s[i] | 0x20; {
		case c >= 'a' && c <= 'z':
		case i > 0 && (s[i] >= '0' && s[i] <= '9' || s[i] == '+' || s[i] == '-' || s[i] == '.'):
		default:
			return false
		}
	}
	return true
}

// checkBucket accepts the characters that bucket and container names use, so
// that a name can never smuggle a host, a port or user information.
func checkBucket(name, uri string) error {
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-', c == '_':
		default:
			return fault.New(fault.Invalid, "objstore: the bucket name in %q may hold letters, digits, '.', '-' and '_' only", redactURI(uri))
		}
	}
	return nil
}

// decodePath resolves dot segments and decodes escapes of a URI's path.
func decodePath(raw, uri string) (string, error) {
	path := unescape(resolveDots(raw))
	switch {
	case strings.IndexByte(path, 0) >= 0:
		return "", fault.New(fault.Invalid, "objstore: path of %q holds a zero byte", redactURI(uri))
	case !utf8.ValidString(path):
		return "", fault.New(fault.Invalid, "objstore: path of %q is not UTF-8 once decoded", redactURI(uri))
	case hasDotComponent(path):
		// Escaped slashes beside dots: neither a name nor a normal form.
		return "", fault.New(fault.Invalid, "objstore: path of %q hides '.' or '..' behind escapes", redactURI(uri))
	}
	return path, nil
}

// resolveDots removes the dot segments of a URI's path, escaped dots included.
func resolveDots(raw string) string {
	var kept []string
	parts := strings.Split(raw, "/")
	for i, part := range parts {
		last := i == len(parts)-1
		switch dots := strings.ReplaceAll(strings.ReplaceAll(part, "%2e", "."), "%2E", "."); dots {
		case ".":
			if last {
				kept = append(kept, "")
			}
		case "..":
			if len(kept) > 0 {
				kept = kept[:len(kept)-1]
			}
			if last {
				kept = append(kept, "")
			}
		default:
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "/")
}

// unescape decodes %XX and leaves anything else alone.
func unescape(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			hi, lo := hexValue(s[i+1]), hexValue(s[i+2])
			if hi >= 0 && lo >= 0 {
				out = append(out, byte(hi<<4|lo))
				i += 2
				continue
			}
		}
		out = append(out, s[i])
	}
	return string(out)
}

func hexValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// EscapePath percent-encodes a literal path for use in a URI, in the
// normalised form of EXT-6: slashes stay, and so does everything that a URI
// path may hold raw.
func EscapePath(path string) string {
	return escape(path, "\"#%<>?`{}\\")
}

// escape percent-encodes blanks, controls, what is not ASCII, and the given
// characters.
func escape(text, also string) string {
	const digits = "0123456789ABCDEF"
	raw := func(c byte) bool {
		return c > 0x20 && c < 0x7f && strings.IndexByte(also, c) < 0
	}
	n := 0
	for i := range len(text) {
		if !raw(text[i]) {
			n++
		}
	}
	if n == 0 {
		return text
	}
	out := make([]byte, 0, len(text)+2*n)
	for i := range len(text) {
		if c := text[i]; raw(c) {
			out = append(out, c)
		} else {
			out = append(out, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(out)
}

// uri prints the target so that parseTarget reads it back.
func (t target) uri() string {
	if t.scheme == fileScheme {
		return t.path
	}
	return t.scheme + "://" + t.bucket + "/" + EscapePath(t.path)
}

// parent gives the folder of the target, which is what a person allows; for
// what lies at the top of the file system, the target itself.
func (t target) parent() target {
	i := strings.LastIndexByte(t.path, '/')
	switch {
	case i > 0:
		t.path = t.path[:i]
	case i < 0:
		t.path = ""
	}
	return t
}

// within reports whether t is prefix or lies below it, by whole components.
func (t target) within(prefix target) bool {
	if t.scheme != prefix.scheme {
		return false
	}
	if prefix.bucket == "" && t.scheme != fileScheme {
		return prefix.path == "" // "s3://": every bucket
	}
	return t.bucket == prefix.bucket && pathWithin(t.path, prefix.path)
}

func pathWithin(path, prefix string) bool {
	if prefix == "" || prefix == "/" || path == prefix {
		return true
	}
	return len(path) > len(prefix) && path[len(prefix)] == '/' && path[:len(prefix)] == prefix
}

// hasDotComponent reports a "." or ".." between slashes.
func hasDotComponent(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if part == "." || part == ".." {
			return true
		}
	}
	return false
}

func hasEmptyComponent(path string) bool {
	return strings.HasPrefix(path, "/") || strings.Contains(path, "//")
}

// redactURI drops what may hold a credential: user information, query and
// fragment. It also cuts long input.
func redactURI(uri string) string {
	if scheme, rest, ok := cutScheme(uri); ok {
		if i := strings.IndexAny(rest, "#?"); i >= 0 {
			rest = rest[:i]
		}
		authority, path, slash := strings.Cut(rest, "/")
		if i := strings.LastIndexByte(authority, '@'); i >= 0 {
			authority = authority[i+1:]
		}
		uri = scheme + "://" + authority
		if slash {
			uri += "/" + path
		}
	}
	const most = 512
	if len(uri) > most {
		cut := most
		for cut > 0 && !utf8.RuneStart(uri[cut]) {
			cut--
		}
		uri = uri[:cut] + "…"
	}
	return uri
}

// NormalURI gives the absolute URI that descriptors store for uri, spelled as
// the reference spells it (EXT-6): scheme in lower case, dot segments resolved,
// blanks and what is not ASCII escaped, present escapes, queries and fragments
// left alone. A plain path is no URI. The error, fault.Invalid, does not repeat
// a credential.
func NormalURI(uri string) (string, error) {
	uri = strings.TrimFunc(uri, func(r rune) bool { return r <= ' ' })
	uri = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(uri)
	scheme, rest, ok := cutScheme(uri)
	if !ok {
		return "", fault.New(fault.Invalid, "objstore: %q is not an absolute URI", redactURI(uri))
	}
	t, err := parseTarget(uri)
	if err != nil {
		return "", err
	}
	if t.path == "" || t.path == "/" {
		return "", fault.New(fault.Invalid, "objstore: %q names no object", redactURI(uri))
	}
	tail := ""
	if i := strings.IndexAny(rest, "#?"); i >= 0 {
		rest, tail = rest[:i], escape(rest[i:], `"<>`)
	}
	if scheme == fileScheme {
		rest = strings.ReplaceAll(rest, `\`, "/")
	}
	_, path, _ := strings.Cut(rest, "/")
	return scheme + "://" + t.bucket + "/" + escape(resolveDots(path), "\"<>`{}") + tail, nil
}

// Below gives the literal path of uri below a folder and the number of the
// folder's components. Both may be URIs or absolute local paths; they are
// compared as objects of a store, by whole components. ok is false when uri
// does not lie below the folder, and for the folder itself.
func Below(uri, folder string) (rest string, depth int, ok bool, err error) {
	t, err := parseTarget(uri)
	if err != nil {
		return "", 0, false, err
	}
	base, err := parseTarget(folder)
	if err != nil {
		return "", 0, false, err
	}
	prefix := strings.TrimSuffix(base.path, "/")
	if t.scheme != base.scheme || t.bucket != base.bucket || t.path == base.path || !pathWithin(t.path, prefix) {
		return "", 0, false, nil
	}
	for part := range strings.SplitSeq(prefix, "/") {
		if part != "" {
			depth++
		}
	}
	return strings.TrimPrefix(strings.TrimPrefix(t.path, prefix), "/"), depth, true, nil
}

// SplitURI gives the scheme of a URI or plain path, "file" for local ones, and
// the literal path that it names in its store, as Locate understands it.
func SplitURI(uri string) (scheme, path string, err error) {
	t, err := parseTarget(uri)
	return t.scheme, t.path, err
}

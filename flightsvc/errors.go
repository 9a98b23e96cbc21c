package flightsvc

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flightblob/flightblob/internal/fault"
)

// statusCodes says which code a client sees for each kind of failure.
var statusCodes = map[fault.Kind]codes.Code{
	fault.Internal:     codes.Internal,
	fault.Invalid:      codes.InvalidArgument,
	fault.NotFound:     codes.NotFound,
	fault.Exists:       codes.AlreadyExists,
	fault.Precondition: codes.FailedPrecondition,
	fault.Conflict:     codes.Aborted,
	fault.Exhausted:    codes.ResourceExhausted,
	fault.Denied:       codes.PermissionDenied,
	fault.Corrupt:      codes.DataLoss,
	fault.Unsupported:  codes.Unimplemented,
}

// code is the gRPC code of an error. A call that its client gave up is that,
// whatever came of it inside.
func code(err error) codes.Code {
	var f *fault.Error
	s, isStatus := status.FromError(err)
	switch {
	case err == nil:
		return codes.OK
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.As(err, &f):
		return statusCodes[f.Kind]
	case isStatus:
		return s.Code()
	}
	return codes.Internal
}

// maxErrorText is the longest error text that is sent, in bytes. It travels in
// a header, which clients limit.
const maxErrorText = 4 << 10

// status turns any error into the one that the client gets.
func (s *Server) status(err error) error {
	if err == nil {
		return nil
	}
	c := code(err)
	text := err.Error()
	var f *fault.Error
	if st, ok := status.FromError(err); ok && !errors.As(err, &f) {
		text = st.Message()
	}
	return status.Error(c, s.redact.text(text))
}

// maxRun is how many bytes without a blank are kept of a longer run: names and
// URIs that anyone means are shorter.
const maxRun = 500

var longRun = regexp.MustCompile(`\S{400,}`)

// redactor removes from texts what is not for clients.
type redactor struct {
	roots []string // local root folders, longest first, each with a final slash
}

// newRedactor knows the local roots by all names they may appear under. Roots
// are paths; URIs of other stores stay readable.
func newRedactor(roots []string) redactor {
	seen := map[string]bool{}
	var r redactor
	add := func(path string) {
		path = strings.TrimRight(path, "/") + "/"
		if path != "/" && !seen[path] {
			seen[path] = true
			r.roots = append(r.roots, path)
		}
	}
	for _, root := range roots {
		if strings.Contains(root, "://") {
			continue
		}
		abs, err := filepath.Abs(root)
		if err != nil {
			continue
		}
		add(abs)
		if real, err := filepath.EvalSymlinks(abs); err == nil {
			add(real)
		}
	}
	sort.Slice(r.roots, func(i, j int) bool { return len(r.roots[i]) > len(r.roots[j]) })
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
	for _, root := range r.roots {
		s = strings.ReplaceAll(s, "file://"+root, "")
		s = replacePath(s, root)
	}
	if strings.Contains(s, "://") {
		s = urlUser.ReplaceAllString(s, "${1}")
		s = urlQuery.ReplaceAllString(s, "${1}?…")
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	// A foreign name may be as long as a ticket; what follows it says what to do.
	s = longRun.ReplaceAllStringFunc(shorten(s, 16*maxErrorText), func(run string) string { return shorten(run, maxRun) })
	return shorten(s, maxErrorText-len("…"))
}

// replacePath removes root where it begins a path, so that /srv/data/ stays in
// /backup/srv/data/x.
func replacePath(s, root string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, root)
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		if i > 0 && isPathByte(s[i-1]) {
			b.WriteString(root)
		}
		s = s[i+len(root):]
	}
}

func isPathByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		c == '_' || c == '-' || c == '.' || c == '/' || c == '%' || c >= 0x80
}

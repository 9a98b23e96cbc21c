package blob

import (
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table/manifest"
)

// externalPath checks the relative path of an External value with a base and
// gives it without the one leading and one trailing slash that readers
// tolerate (RES-9). An empty path is refused (RES-10).
func externalPath(uri string) (string, error) {
	path := strings.TrimSuffix(strings.TrimPrefix(uri, "/"), "/")
	why := ""
	switch {
	case path == "":
		why = "is empty"
	case strings.Contains(path, "\x00"):
		why = "contains a NUL character"
	default:
		why = badComponent(path)
	}
	if why != "" {
		return "", fault.New(fault.Corrupt, "blob: external path %q %s; a path below the base is needed", uri, why)
	}
	return path, nil
}

// checkExternalURI accepts what RES-7 asks for, an absolute URI. The reference
// also takes "" and plain paths, as places relative to the process; those
// would mean something else in every process, so they are refused.
func checkExternalURI(uri string) error {
	if !isURI(uri) {
		return fault.New(fault.Corrupt, "blob: external reference %q without a base is not an absolute URI", uri)
	}
	return nil
}

// isURI tells a URI with scheme and :// from a plain path.
func isURI(s string) bool {
	scheme, _, found := strings.Cut(s, "://")
	if !found || scheme == "" {
		return false
	}
	for i := range len(scheme) {
		c := scheme[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		other := '0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'
		if !letter && (i == 0 || !other) {
			return false
		}
	}
	return true
}

// ExternalURI is the absolute URI of an External value: the recorded one, or
// the base's with the relative path appended, escaped so that reading or
// writing it again names the same object (EXT-5, EXT-6). It reads nothing and
// touches no store. Descriptors of other kinds are an error.
func (r *Resolver) ExternalURI(d Descriptor) (string, error) {
	if d.Kind != External {
		return "", fault.New(fault.Internal, "blob: kind %d (%s) has no external URI", uint8(d.Kind), d.Kind)
	}
	if d.ID == 0 {
		if err := checkExternalURI(d.URI); err != nil {
			return "", err
		}
		return strings.Clone(d.URI), nil
	}
	base, err := r.base(d)
	if err != nil {
		return "", err
	}
	path, err := externalPath(d.URI)
	if err != nil {
		return "", err
	}
	prefix, err := baseURI(base)
	if err != nil {
		return "", err
	}
	return prefix + "/" + objstore.EscapePath(path), nil
}

// baseURI spells a base path as a URI without trailing slash. Both spellings
// occur in manifests (EXT-10); a plain path is literal, a URI is taken as is.
func baseURI(base manifest.Base) (string, error) {
	path := strings.TrimRight(base.Path, "/")
	switch {
	case isURI(base.Path):
		if strings.HasSuffix(path, ":") { // scheme:// and nothing else
			return base.Path[:len(path)+2], nil
		}
		return path, nil
	case strings.HasPrefix(base.Path, "/"):
		return "file://" + objstore.EscapePath(path), nil
	}
	return "", fault.New(fault.Corrupt, "blob: path %q of base %d is neither absolute nor a URI", base.Path, base.ID)
}

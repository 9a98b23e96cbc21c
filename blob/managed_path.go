package blob

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/flightblob/flightblob/internal/fault"
)

// checkManagedPath refuses paths that are not canonical and relative (RES-11).
// Everything else is literal: an escape such as %2F is part of a name. Control
// characters and ill-formed UTF-8 are refused as the reference does, although
// the specification does not list them.
func checkManagedPath(path string) error {
	refuse := func(why string) error {
		return fault.New(fault.Corrupt, "blob: managed path %q %s; a canonical relative path is needed", path, why)
	}
	switch {
	case path == "":
		return refuse("is empty")
	case !utf8.ValidString(path):
		return refuse("is not UTF-8")
	case strings.Contains(path, "://"):
		return refuse("contains ://")
	case strings.Contains(path, `\`):
		return refuse("contains a backslash")
	case strings.ContainsFunc(path, unicode.IsControl):
		return refuse("contains a control character")
	}
	if why := badComponent(path); why != "" {
		return refuse(why)
	}
	return nil
}

// badComponent says what is wrong with a relative path's components, or "".
func badComponent(path string) string {
	for part := range strings.SplitSeq(path, "/") {
		switch part {
		case "":
			return "has an empty component or a slash at its end"
		case ".", "..":
			return "has a component " + part
		}
	}
	return ""
}

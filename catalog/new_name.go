package catalog

import (
	"slices"
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
)

// longestFile is how long the name of a file may be on common file systems, in
// bytes.
const longestFile = 255

// checkNewName says whether a new table, or one part of a new schema, may have a
// name. The rule is LanceDB's, so that every client can open what this server
// makes: ASCII letters, digits, '_', '-' and '.', but not "." or "..". What
// exists under another name can be read and dropped all the same.
func checkNewName(what, name string) error {
	switch {
	case name == "":
		return fault.New(fault.Invalid, "catalog: a new %s needs a name", what)
	case name == "." || name == "..", name == manifestTable:
		return fault.New(fault.Invalid, "catalog: a new %s cannot be called %q, which means something else", what, name)
	case len(name) > longestFile-len(folderSuffix):
		return fault.New(fault.Invalid, "catalog: the name %q… of a new %s has %d bytes, more than %d", strings.ToValidUTF8(name[:20], ""), what, len(name), longestFile-len(folderSuffix))
	}
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-', r == '.':
		default:
			return fault.New(fault.Invalid, "catalog: a new %s cannot be called %q; ASCII letters, digits, '_', '-' and '.' are allowed", what, name)
		}
	}
	return nil
}

// checkNewSchema checks the path of a new schema, part by part.
func checkNewSchema(name string) error {
	if slices.ContainsFunc(refused, func(no string) bool { return strings.EqualFold(name, no) }) {
		return fault.New(fault.Invalid, "catalog: a new schema cannot be called %q, which means something else in SQL; refused are %s", name, strings.Join(refused, ", "))
	}
	for part := range strings.SplitSeq(name, separator) {
		if err := checkNewName("schema", part); err != nil {
			return err
		}
	}
	return nil
}

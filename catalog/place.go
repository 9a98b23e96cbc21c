package catalog

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// longestFile is how long the name of a file may be on common file systems, in
// bytes.
const longestFile = 255

// CheckName says whether a new table or one part of a new schema may have a
// name: fault.Invalid, and why. The rule is LanceDB's, so that every client can
// open what this server makes: ASCII letters, digits, '_', '-' and '.', but not
// "." or "..". What exists under another name can be read and dropped all the
// same.
func CheckName(name string) error {
	switch {
	case name == "":
		return fault.New(fault.Invalid, "catalog: an empty name")
	case name == "." || name == "..":
		return fault.New(fault.Invalid, "catalog: %q is no name", name)
	case name == manifestTable:
		return fault.New(fault.Invalid, "catalog: the name %s belongs to the catalog itself", manifestTable)
	case len(name) > longestFile-len(folderSuffix):
		return fault.New(fault.Invalid, "catalog: the name %q… has %d bytes, more than %d", name[:20], len(name), longestFile-len(folderSuffix))
	}
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-', r == '.':
		default:
			return fault.New(fault.Invalid, "catalog: the name %q holds %q; new names may hold ASCII letters, digits, '_', '-' and '.'", name, r)
		}
	}
	return nil
}

// Place is where a new table goes.
type Place struct {
	Name     Name              // complete
	Location objstore.Location // its folder
}

// Place finds the folder for a new table and makes nothing. Empty parts of the
// name are the defaults of Resolve. In schema main the folder is NAME.lance; a
// table there is found as soon as it has a version. Elsewhere it is a folder
// with a random name, found once a row of __manifest points at it.
//
// fault.Invalid for a name that CheckName refuses, fault.Exists when a table, a
// registration or a schema has it already, fault.NotFound for a schema that
// does not exist. Two that ask at the same time get the same answer: creating
// the first version decides.
func (c *Catalog) Place(ctx context.Context, name Name) (Place, error) {
	name = c.complete(name)
	if err := CheckName(name.Table); err != nil {
		return Place{}, err
	}
	r, err := c.root(name.Catalog)
	if err != nil {
		return Place{}, err
	}
	rows, err := r.rows(ctx)
	if err != nil {
		return Place{}, err
	}
	for _, id := range name.ids() {
		if _, taken := rows.tables[id]; taken {
			return Place{}, fault.New(fault.Exists, "catalog: table %s exists already: it is registered", name)
		}
	}
	id := name.objectID()
	if slices.Contains(rows.namespaces, id) {
		return Place{}, fault.New(fault.Exists, "catalog: table %s cannot be made: schema %s has its name", name, id)
	}
	if name.Schema != Main {
		if !slices.Contains(rows.namespaces, name.Schema) {
			return Place{}, c.noSchema(r, rows, name.Schema, fmt.Sprintf("table %s cannot be made", name))
		}
		folder := randomFolder(id)
		if len(folder) > longestFile {
			return Place{}, fault.New(fault.Invalid, "catalog: the names of table %s have %d bytes together, more than %d", name, len(id), longestFile-len(folder)+len(id))
		}
		return Place{name, r.loc.Join(folder)}, nil
	}
	loc := r.loc.Join(name.Table + folderSuffix)
	for of, location := range rows.tables {
		if at, err := r.locate(of, location); err == nil && at.Path == loc.Path {
			return Place{}, fault.New(fault.Exists, "catalog: table %s cannot be made: its folder is that of table %s", name, of)
		}
	}
	seen, err := inspect(ctx, loc)
	switch {
	case err != nil:
		return Place{}, fmt.Errorf("catalog: table %s: %w", name, err)
	case seen.versions && seen.deregistered:
		return Place{}, fault.New(fault.Exists, "catalog: table %s cannot be made: its folder holds one that was taken off the list (%s)", name, deregistered)
	case seen.versions:
		return Place{}, fault.New(fault.Exists, "catalog: table %s exists already", name)
	}
	return Place{name, loc}, nil
}

// randomFolder names the folder of a table in a child namespace.
func randomFolder(id string) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:]) + "_" + id
}

// noSchema says that a schema is not there, and what is near.
func (c *Catalog) noSchema(r *root, rows *registered, schema, what string) error {
	hint := ""
	if near := nearest(schema, rows.schemas()); len(near) > 0 {
		hint = "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return fault.New(fault.NotFound, "catalog: %s: catalog %s has no schema %q%s", what, r.name, schema, hint)
}

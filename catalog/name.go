package catalog

import (
	"slices"
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
)

// Main is the schema of the tables that lie right under a root.
const Main = "main"

// DefaultCatalog is the name of a root that was given none.
const DefaultCatalog = "lance"

// separator joins a namespace path; a nested namespace is one schema.
const separator = "$"

// Name is the full name of a table. Matching is exact, case included.
type Name struct{ Catalog, Schema, Table string }

// String joins the parts by dots.
func (n Name) String() string { return n.Catalog + "." + n.Schema + "." + n.Table }

// objectID is the name's id in __manifest.
func (n Name) objectID() string {
	if n.Schema == Main {
		return n.Table
	}
	return n.Schema + separator + n.Table
}

// Resolve completes a path of one to three parts: [table], [schema, table] or
// [catalog, schema, table]. Empty leading parts are the default ones: the first
// catalog, and schema main. Other lengths and an empty table are fault.Invalid.
func (c *Catalog) Resolve(path []string) (Name, error) {
	if len(path) == 0 || len(path) > 3 || path[len(path)-1] == "" {
		return Name{}, fault.New(fault.Invalid,
			"catalog: a table path is [table], [schema, table] or [catalog, schema, table], got %q", path)
	}
	n := Name{Table: path[len(path)-1]}
	if len(path) > 1 {
		n.Schema = path[len(path)-2]
	}
	if len(path) > 2 {
		n.Catalog = path[0]
	}
	return c.complete(n), nil
}

func (c *Catalog) complete(n Name) Name {
	if n.Catalog == "" {
		n.Catalog = c.roots[0].name
	}
	if n.Schema == "" {
		n.Schema = Main
	}
	return n
}

// nearest picks at most three names that are close to one that does not exist,
// the closest first.
func nearest(name string, have []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	for _, h := range have {
		d := distance(strings.ToLower(name), strings.ToLower(h))
		if d <= min(max(2, len(name)/3), len(name)-1) {
			near = append(near, candidate{h, d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return a.distance - b.distance })
	names := make([]string, 0, 3)
	for _, c := range near[:min(3, len(near))] {
		names = append(names, c.name)
	}
	return names
}

// distance is the edit distance of the first 64 bytes of two names.
func distance(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

package catalog

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/flightblob/flightblob/objstore"
)

// What the folder of a root table is called, and what marks one that a client
// took off the list.
const (
	folderSuffix = ".lance"
	versionsDir  = "_versions"
	deregistered = ".lance-deregistered"
)

// Schema is a schema of a catalog.
type Schema struct{ Catalog, Name string }

// Schemas lists the schemas of all catalogs: main, the namespaces, and what
// tables are registered below.
func (c *Catalog) Schemas(ctx context.Context) ([]Schema, error) {
	var all []Schema
	for _, r := range c.roots {
		rows, err := r.rows(ctx)
		if err != nil {
			return nil, err
		}
		for _, s := range rows.schemas() {
			all = append(all, Schema{r.name, s})
		}
	}
	return all, nil
}

// schemas lists main and then the others by name.
func (r *registered) schemas() []string {
	names := slices.Clone(r.namespaces)
	for id := range r.tables {
		if i := strings.LastIndex(id, separator); i > 0 {
			names = append(names, id[:i])
		}
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(s string) bool { return s == Main || s == "" })
	return append([]string{Main}, names...)
}

// candidate is a name that may be a table.
type candidate struct {
	name Name
	loc  objstore.Location
	row  bool // registered: the mark of deregistration does not count
}

// Names lists the tables of all catalogs, by catalog, schema (main first) and
// name. It opens no table; it looks into each folder, for what is only declared
// or deregistered is no table. After an error there are no more names.
func (c *Catalog) Names(ctx context.Context) iter.Seq2[Name, error] {
	return func(yield func(Name, error) bool) {
		for _, r := range c.roots {
			rows, err := r.rows(ctx)
			if err != nil {
				yield(Name{}, err)
				return
			}
			all, err := r.candidates(ctx, rows)
			if err != nil {
				yield(Name{}, err)
				return
			}
			for window := range slices.Chunk(all, lookers*4) {
				seen, err := inspectAll(ctx, window)
				if err != nil {
					yield(Name{}, fmt.Errorf("catalog: list the tables of catalog %s: %w", r.name, err))
					return
				}
				for i, c := range window {
					if !seen[i].isTable(c.row) {
						continue
					}
					if !yield(c.name, nil) {
						return
					}
				}
			}
		}
	}
}

// lookers is how many folders are looked into at once.
const lookers = 16

// candidates unites rows and folders by location, in order and each name once.
// Rows whose location is refused are left out: they can only be opened to see
// why.
func (r *root) candidates(ctx context.Context, rows *registered) ([]candidate, error) {
	return r.matching(ctx, rows, func(Name) bool { return true })
}

// matching gives those of the candidates whose names are wanted, and looks at no
// other folders.
func (r *root) matching(ctx context.Context, rows *registered, wanted func(Name) bool) ([]candidate, error) {
	var all []candidate
	taken := map[string]bool{}
	for id, location := range rows.tables {
		loc, err := r.locate(id, location)
		if err != nil {
			continue
		}
		taken[loc.Path] = true
		name := Name{Catalog: r.name, Schema: Main, Table: id}
		if i := strings.LastIndex(id, separator); i > 0 {
			name.Schema, name.Table = id[:i], id[i+len(separator):]
		}
		if name.Table != "" && wanted(name) {
			all = append(all, candidate{name, loc, true})
		}
	}
	folder := func(entry string) bool {
		name, ok := strings.CutSuffix(entry, folderSuffix)
		return ok && wanted(Name{r.name, Main, name})
	}
	for e, err := range r.loc.ListNamed(ctx, folder) {
		if err != nil {
			return nil, fmt.Errorf("catalog: list catalog %s: %w", r.name, err)
		}
		name, ok := strings.CutSuffix(e.Name, folderSuffix)
		loc := r.loc.Join(e.Name)
		if !ok || !e.Dir || !folderName(name) || taken[loc.Path] {
			continue
		}
		all = append(all, candidate{Name{r.name, Main, name}, loc, false})
	}
	slices.SortFunc(all, func(a, b candidate) int {
		switch am, bm := a.name.Schema == Main, b.name.Schema == Main; {
		case am && !bm:
			return -1
		case bm && !am:
			return 1
		}
		if d := strings.Compare(a.name.Schema, b.name.Schema); d != 0 {
			return d
		}
		if d := strings.Compare(a.name.Table, b.name.Table); d != 0 {
			return d
		}
		return boolOrder(a.row, b.row)
	})
	return slices.CompactFunc(all, func(a, b candidate) bool { return a.name == b.name }), nil
}

// boolOrder puts registered tables before folders of the same name, as opening
// does.
func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// folderName says that a table name can be that of a folder right under a
// root.
func folderName(table string) bool {
	return table != "" && table != "." && table != ".." && !strings.ContainsAny(table, "/\x00")
}

// folder is what was seen in one.
type folder struct{ versions, deregistered bool }

// isTable says that a folder counts: the mark of deregistration is about those
// that no row points at.
func (f folder) isTable(registered bool) bool { return f.versions && (registered || !f.deregistered) }

// inspect looks into a folder. Stores list only folders that hold something,
// so a listed _versions is one with versions.
func inspect(ctx context.Context, loc objstore.Location) (folder, error) {
	var f folder
	marks := func(name string) bool { return name == deregistered || name == versionsDir }
	for e, err := range loc.ListNamed(ctx, marks) {
		switch {
		case err != nil:
			return f, err
		case e.Name == deregistered:
			f.deregistered = true
		case e.Name == versionsDir:
			f.versions = e.Dir
		}
	}
	return f, nil
}

func inspectAll(ctx context.Context, window []candidate) ([]folder, error) {
	seen := make([]folder, len(window))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lookers)
	for i, c := range window {
		group.Go(func() (err error) {
			seen[i], err = inspect(ctx, c.loc)
			return err
		})
	}
	return seen, group.Wait()
}

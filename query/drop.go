package query

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// prepareDrop checks DROP TABLE.
func (c *Change) prepareDrop(ctx context.Context) error {
	absent := func(err error) bool { return c.text.Drop.IfExists && fault.KindOf(err) == fault.NotFound }
	if branch := c.session.Branch; branch != "" && branch != manifest.MainBranch {
		return fault.New(fault.Precondition, "query: statements work on branch %q, and DROP TABLE drops all branches of a table; "+
			"drop it from main, or delete the branch with CALL delete_branch", branch)
	}
	if _, _, err := c.existing(ctx); err != nil && !absent(err) {
		return err
	}
	c.do = func(ctx context.Context, c *Change, _ []arrow.RecordBatch) (Outcome, error) {
		var out Outcome
		name, snapshot, err := c.existing(ctx)
		if err == nil {
			out.Notice = c.dependents(ctx, name, snapshot.Table())
			err = c.engine.cat.DropTable(ctx, name)
		}
		if absent(err) {
			err = nil
		}
		return out, err
	}
	return nil
}

// mostClones bounds how many tables are looked at to find clones of one.
const mostClones = 1000

// dependents tells what goes, or breaks, with a table: its branches, and tables of
// the catalogs that have it for a base, as shallow clones do. What cannot be read
// is left out.
func (c *Change) dependents(ctx context.Context, name catalog.Name, t *table.Table) string {
	var branches, clones, told []string
	if all, err := t.Branches(ctx); err == nil {
		for _, b := range all {
			branches = append(branches, strconv.QuoteToASCII(b.Name))
		}
	}
	looked := 0
	for other, err := range c.engine.cat.Names(ctx) {
		if err != nil || looked >= mostClones {
			break
		}
		if other == name {
			continue
		}
		looked++
		if c.refersTo(ctx, other, t) {
			clones = append(clones, strconv.QuoteToASCII(other.String()))
		}
	}
	if len(branches) > 0 {
		told = append(told, "branches that went with the table: "+strings.Join(branches, ", "))
	}
	if len(clones) > 0 {
		told = append(told, "tables that have files in it, which are gone: "+strings.Join(clones, ", "))
	}
	if looked >= mostClones {
		told = append(told, fmt.Sprintf("clones were looked for among %d tables", mostClones))
	}
	return strings.Join(told, "; ")
}

// refersTo says that a table has files in the folder of another one.
func (c *Change) refersTo(ctx context.Context, name catalog.Name, of *table.Table) bool {
	t, err := c.engine.cat.Table(ctx, name)
	if err != nil {
		return false
	}
	s, err := t.At(ctx, table.Ref{})
	if err != nil {
		return false
	}
	for _, base := range s.Manifest().Bases {
		within := strings.TrimRight(base.Path, "/") + "/any" // the folder itself, or one below it
		if _, _, ok, err := objstore.Below(within, of.Root().AbsoluteURI()); err == nil && ok {
			return true
		}
	}
	return false
}

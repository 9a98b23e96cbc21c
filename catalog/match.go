package catalog

import (
	"context"
	"fmt"
	"strings"
)

// Match lists the tables whose catalog, schema and table are those of name but
// for the case of letters, as SQL names match. Empty parts of the name are the
// defaults of Resolve. It opens no table; none at all is an empty answer.
func (c *Catalog) Match(ctx context.Context, name Name) ([]Name, error) {
	name = c.complete(name)
	var found []Name
	for _, r := range c.roots {
		if !strings.EqualFold(r.name, name.Catalog) {
			continue
		}
		rows, err := r.rows(ctx)
		if err != nil {
			return nil, err
		}
		all, err := r.matching(ctx, rows, func(n Name) bool {
			return strings.EqualFold(n.Schema, name.Schema) && strings.EqualFold(n.Table, name.Table)
		})
		if err != nil {
			return nil, err
		}
		for _, candidate := range all {
			seen, err := inspect(ctx, candidate.loc)
			if err != nil {
				return nil, fmt.Errorf("catalog: table %s: %w", candidate.name, err)
			}
			if seen.isTable(candidate.row) {
				found = append(found, candidate.name)
			}
		}
	}
	return found, nil
}

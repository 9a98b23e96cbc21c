package sqlengine

import (
	"context"
	"regexp"
	"strings"

	"github.com/flightblob/flightblob/flightsvc"
	"github.com/flightblob/flightblob/query/statement"
	"github.com/flightblob/flightblob/schema"
)

// The shape of a plain scan: columns by their names, or all, from one table.
// What looks otherwise, comments included, is left to the engine.
const (
	identifier = `(?:[a-zA-Z_][a-zA-Z0-9_]*|"(?:[^"]|"")+")`
	column     = `\s*` + identifier + `\s*`
)

var plainShape = regexp.MustCompile(`(?is)^(?:select\s+(\*|` + column + `(?:,` + column + `)*)\s*)?from\s+` +
	identifier + `(?:\.` + identifier + `){0,2}$`)

// plainScan recognises a statement that is a plain scan. The engine has read it
// already, so its words mean what they seem to; which table they meant is told
// by the one version that was pinned, which columns by the result's schema.
func (e *Engine) plainScan(ctx context.Context, s *stmt) (flightsvc.PlainScan, bool) {
	none := flightsvc.PlainScan{}
	p := s.parsed
	if p.Kind != statement.Select || !p.With.Empty() || len(p.Params) > 0 || len(p.Ats) > 0 || len(s.pins) != 1 {
		return none, false
	}
	found := plainShape.FindStringSubmatch(strings.TrimSpace(p.Span.Of(p.Text)))
	if found == nil {
		return none, false
	}
	result, err := s.planned.Schema(schema.Descriptor)
	if err != nil {
		return none, false
	}
	t, err := e.cat.Table(ctx, s.pins[0].Name)
	if err != nil {
		return none, false
	}
	snap, err := t.At(ctx, s.pins[0].Ref)
	if err != nil {
		return none, false
	}
	known := map[string]bool{}
	for _, f := range snap.Schema().Fields {
		known[f.Name] = true
	}
	// A name with a dot could also reach into a struct.
	columns := make([]string, result.NumFields())
	seen := map[string]bool{}
	for i, f := range result.Fields() {
		if !known[f.Name] || seen[f.Name] || strings.Contains(f.Name, ".") {
			return none, false
		}
		columns[i], seen[f.Name] = f.Name, true
	}
	if found[1] == "*" || found[1] == "" {
		if len(columns) != len(snap.Schema().Fields) {
			return none, false
		}
	}
	return flightsvc.PlainScan{Snapshot: snap, Columns: columns}, true
}

package flightsvc

import (
	"context"
	"log/slog"
	"strings"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// Actions that change what a table says about itself. They do the same as the
// statements of their names, by the same code.

// changed is the answer of such an action.
type changed struct {
	Table   string `json:"table"`
	Version uint64 `json:"version"`
	Notice  string `json:"notice,omitempty"`
}

// addBase registers a base path: {"table":"t","path":"s3://b/x","name":"cam","dataset_root":false}.
func (s *Server) addBase(ctx context.Context, body []byte) (any, error) {
	o, err := parseObject("add_base", body)
	if err != nil {
		return nil, err
	}
	var name catalog.Name
	var b manifest.Base
	o.name(&name)
	o.base(&b)
	if err := o.finish(); err != nil {
		return nil, err
	}
	return s.changing(ctx, name, func(t *table.Table) (*table.Snapshot, error) { return t.AddBase(ctx, "", b) })
}

// set changes settings: {"table":"t","managed":true,"img.inline":65536}.
func (s *Server) set(ctx context.Context, body []byte) (any, error) {
	o, err := parseObject("set", body)
	if err != nil {
		return nil, err
	}
	var name catalog.Name
	o.name(&name)
	values := map[string]string{}
	for _, key := range o.keys {
		if o.known[key] {
			continue
		}
		o.known[key] = true
		values[key] = strings.Trim(string(o.fields[key]), `"`)
	}
	if err := o.finish(); err != nil {
		return nil, err
	}
	settings, err := table.ParseSettings(values)
	if err != nil {
		return nil, err
	}
	return s.changing(ctx, name, func(t *table.Table) (*table.Snapshot, error) { return t.Set(ctx, "", settings) })
}

// changing carries a change of a table out and answers its version.
func (s *Server) changing(ctx context.Context, name catalog.Name, change func(*table.Table) (*table.Snapshot, error)) (any, error) {
	if s.opts.ReadOnly {
		return nil, errReadOnly
	}
	t, err := s.cat.Table(ctx, name)
	if err != nil {
		return nil, err
	}
	before, err := t.At(ctx, table.Ref{})
	if err != nil {
		return nil, err
	}
	after, err := change(t)
	if err != nil {
		return nil, err
	}
	return changed{t.Name(), after.Version(), s.optedIn(ctx, t.Name(), before, after)}, nil
}

// optedIn logs and tells that a change opted a table in to managed blobs.
func (s *Server) optedIn(ctx context.Context, name string, before, after *table.Snapshot) string {
	if !table.OptedIn(before, after) {
		return ""
	}
	s.log.LogAttrs(ctx, slog.LevelWarn, table.OptInNotice, slog.String("table", name))
	return table.OptInNotice
}

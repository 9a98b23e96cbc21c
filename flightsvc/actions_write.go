package flightsvc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/operation"
	"github.com/flightblob/flightblob/table"
)

// Actions that change what a table says about itself. They do the same as the
// statements of their names, by the same code.

// changed is the answer of set.
type changed struct {
	Table   string `json:"table"`
	Version uint64 `json:"version"`
	Notice  string `json:"notice,omitempty"`
}

// operate carries out an operation of the list: {"table":"t"} and its arguments.
func (s *Server) operate(ctx context.Context, op *operation.Operation, body []byte) (any, error) {
	o, err := parseObject(op.Name, body)
	if err != nil {
		return nil, err
	}
	call := &operation.Call{Catalog: s.cat, Args: operation.Args{}}
	o.name(&call.Name)
	for _, p := range op.Params {
		if !o.has(p.Name) {
			continue
		}
		value, err := scalar(o.fields[p.Name])
		if err != nil {
			o.fail("%s is %v", p.Name, err)
		} else if err = op.Set(call.Args, p.Name, value); err != nil && o.err == nil {
			o.err = err
		}
	}
	if err := o.finish(); err != nil {
		return nil, err
	}
	branch, err := s.branch(ctx)
	if err == nil {
		err = op.On(branch, call.Args)
	}
	if err != nil {
		return nil, err
	}
	if err := op.Check(call.Args); err != nil {
		return nil, err
	}
	if s.opts.ReadOnly {
		return nil, errReadOnly
	}
	if call.Table, err = s.cat.Table(ctx, call.Name); err != nil {
		return nil, err
	}
	call.Shown = call.Table.Name()
	done, err := op.Do(ctx, call)
	if err != nil {
		return nil, err
	}
	if done.Notice != "" {
		s.log.LogAttrs(ctx, slog.LevelWarn, done.Notice, slog.String("table", call.Shown), slog.String("after", op.Name))
	}
	return op.JSON(call.Shown, done)
}

// scalar reads a JSON value that is text, a number, true or false.
func scalar(raw json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case json.Number:
		return v.String(), nil
	case string, bool:
		return v, nil
	}
	return nil, fmt.Errorf("%s, it must be text, a number, true or false", shorten(string(raw), 60))
}

// set changes settings: {"table":"t","managed":true,"img.inline":65536}.
func (s *Server) set(ctx context.Context, body []byte) (any, error) {
	o, err := parseObject("set", body)
	if err != nil {
		return nil, err
	}
	var name catalog.Name
	o.name(&name)
	var on table.Ref
	o.string("branch", &on.Branch)
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
	if on, err = s.onBranch(ctx, on); err != nil {
		return nil, err
	}
	return s.changing(ctx, name, on, func(t *table.Table) (*table.Snapshot, error) { return t.Set(ctx, on.Branch, settings) })
}

// changing carries a change of a branch of a table out and answers its version.
func (s *Server) changing(ctx context.Context, name catalog.Name, on table.Ref, change func(*table.Table) (*table.Snapshot, error)) (any, error) {
	if s.opts.ReadOnly {
		return nil, errReadOnly
	}
	t, err := s.cat.Table(ctx, name)
	if err != nil {
		return nil, err
	}
	before, err := t.At(ctx, on)
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

package flightsvc

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/flight"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/operation"
)

// action is something that DoAction does.
type action struct {
	name  string
	about string
	do    func(s *Server, ctx context.Context, body []byte) (any, error)
}

// actions are all of them, in the order of ListActions.
var actions = append(ownActions, operations()...)

// operations are the actions that do what CALL does.
func operations() []action {
	var out []action
	for _, op := range operation.All() {
		about := op.About + ` {"table":"t"`
		if op.Example != "" {
			about += "," + op.Example
		}
		about += "} with schema and catalog. "
		for _, p := range op.Params {
			about += p.Name + ": " + p.About + "; "
		}
		about = strings.TrimSuffix(about, "; ") + ". Answers JSON: table, version"
		for _, f := range op.Answers {
			about += ", " + f.Name
		}
		out = append(out, action{op.Name, about + ".", func(s *Server, ctx context.Context, body []byte) (any, error) {
			return s.operate(ctx, op, body)
		}})
	}
	return out
}

// ownActions are those that only clients of the wire have.
var ownActions = []action{{
	name: "describe",
	about: `What a version of a table is: {"table":"t"} with schema, catalog, version, tag, branch or timestamp. ` +
		`Answers JSON: table, version, rows, schema, fragments, blob columns, bases, flags, and what was read of its objects.`,
	do: (*Server).describe,
}, {
	name: "set",
	about: `Changes settings for later writes: {"table":"t","managed":true,"img.inline":65536,"img.dedicated":4194304,"img.pack":1073741824} ` +
		`with schema and catalog. Before managed is turned on, all other maintenance clients of the table must be upgraded or stopped (GC-13). ` +
		`Answers JSON: table, version.`,
	do: (*Server).set,
}}

// maxActionBody bounds what a client may send with an action.
const maxActionBody = 1 << 20

// DoAction implements flight.FlightServer: a JSON object in, one out.
func (s *Server) DoAction(a *flight.Action, stream flight.FlightService_DoActionServer) error {
	if i := slices.IndexFunc(flightActions, func(have flightAction) bool { return have.name == a.GetType() }); i >= 0 {
		return s.doFlightAction(&flightActions[i], a.Body, stream)
	}
	i := slices.IndexFunc(actions, func(have action) bool { return have.name == a.GetType() })
	if i < 0 {
		names := make([]string, len(actions))
		for i, have := range actions {
			names[i] = have.name
		}
		return fault.New(fault.Invalid, "action: unknown type %s; known are %s", quote(a.GetType()), strings.Join(names, ", "))
	}
	if n := len(a.GetBody()); n > maxActionBody {
		return fault.New(fault.Invalid, "%s: a body of %d bytes is over the limit of %d", a.Type, n, maxActionBody)
	}
	answer, err := actions[i].do(s, stream.Context(), a.GetBody())
	if err != nil {
		return err
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("flightsvc: %s: %w", a.Type, err)
	}
	return stream.Send(&flight.Result{Body: body})
}

// ListActions implements flight.FlightServer.
func (s *Server) ListActions(_ *flight.Empty, stream flight.FlightService_ListActionsServer) error {
	for _, a := range flightActions {
		if a.refused != "" || a.engine && s.opts.Engine == nil {
			continue
		}
		if err := stream.Send(&flight.ActionType{Type: a.name, Description: a.about}); err != nil {
			return err
		}
	}
	for _, a := range actions {
		if err := stream.Send(&flight.ActionType{Type: a.name, Description: a.about}); err != nil {
			return err
		}
	}
	return nil
}

// maxFragments bounds the fragments that describe lists one by one.
const maxFragments = 1000

func (s *Server) describe(ctx context.Context, body []byte) (any, error) {
	o, err := parseObject("describe", body)
	if err != nil {
		return nil, err
	}
	var t Ticket
	o.name(&t.Name)
	o.ref(&t.Ref)
	if err := o.finish(); err != nil {
		return nil, err
	}
	snap, err := s.snapshot(ctx, &t)
	if err != nil {
		return nil, err
	}
	d, err := Describe(snap, maxFragments)
	if err != nil {
		return nil, err
	}
	for i := range d.Bases {
		d.Bases[i].Path = s.redact.text(d.Bases[i].Path)
	}
	use := storeUse(s.opts.Counter, snap)
	if use != nil {
		for i := range use.Objects {
			use.Objects[i].Object = s.redact.text(use.Objects[i].Object)
		}
	}
	return describeAnswer(d, use, defaultMessage)
}

// describeAnswer is the answer in JSON. Fragments of wide tables list many
// fields, and what does not fit into a message helps nobody: some are left out
// then, as fragment_count tells.
func describeAnswer(d *Description, use *StoreUse, limit int) (json.RawMessage, error) {
	for {
		body, err := json.Marshal(struct {
			*Description
			Store *StoreUse `json:"store,omitempty"`
		}{d, use})
		if err != nil || len(body) <= limit || len(d.Fragments) == 0 {
			return body, err
		}
		d.Fragments = d.Fragments[:len(d.Fragments)/2]
	}
}

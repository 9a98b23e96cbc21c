package flightsvc

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/flight"
	flightpb "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table/manifest"
)

// Names of session options. Those of headers are taken too and answered as they
// were given.
const (
	optionCatalog    = "catalog"
	optionSchema     = "schema"
	optionBlobs      = "blobs"
	optionBatchBytes = "batch_bytes"
	optionMaxMessage = "max_message_bytes"
	optionProfile    = "profile"
	optionCompress   = "compression"
	optionBranch     = "branch"
	optionLease      = "lease"
)

var optionNames = map[string]string{
	optionCatalog: optionCatalog, optionSchema: optionSchema, optionBlobs: optionBlobs, optionBatchBytes: optionBatchBytes,
	optionMaxMessage: optionMaxMessage, optionProfile: optionProfile, optionCompress: optionCompress,
	headerCatalog: optionCatalog, headerSchema: optionSchema, headerBlobs: optionBlobs, headerBatchBytes: optionBatchBytes,
	headerMaxMessage: optionMaxMessage, headerProfile: optionProfile, headerCompress: optionCompress,
	optionBranch: optionBranch, headerBranch: optionBranch,
	optionLease: optionLease, headerLease: optionLease,
}

// sessionOption is an option's value, and the name and form it was given in.
type sessionOption struct {
	value string
	name  string
	given *flight.SessionOptionValue
}

// maxOptions bounds the options of one call.
const maxOptions = 100

// setSessionOptions sets each option or says what is wrong with it. An option
// without a value goes back to its default. Catalog is set before schema, so
// that both may be given together.
func (s *Server) setSessionOptions(ctx context.Context, req *flight.SetSessionOptionsRequest) (*flight.SetSessionOptionsResult, error) {
	if len(req.SessionOptions) > maxOptions {
		return nil, fault.New(fault.Invalid, "SetSessionOptions: %d options are more than the %d of one call", len(req.SessionOptions), maxOptions)
	}
	names := make([]string, 0, len(req.SessionOptions))
	for name := range req.SessionOptions {
		names = append(names, name)
	}
	slices.Sort(names) // catalog, …, schema
	result := &flight.SetSessionOptionsResult{Errors: map[string]*flightpb.SetSessionOptionsResult_Error{}}
	set, err := s.sessionFor(ctx)
	if err != nil {
		return nil, err
	}
	for _, given := range names {
		name, known := optionNames[given]
		value := req.SessionOptions[given]
		bad := flight.SetSessionOptionsResultErrorUnspecified
		switch {
		case !known:
			bad = flight.SetSessionOptionsResultErrorInvalidName
		case value.GetOptionValue() == nil:
			set.unset(name)
		default:
			text, ok, err := s.checkOption(ctx, set, name, value)
			if err != nil {
				return nil, err
			}
			if !ok {
				bad = flight.SetSessionOptionsResultErrorInvalidValue
				break
			}
			set.set(name, sessionOption{value: text, name: given, given: value})
		}
		if bad != flight.SetSessionOptionsResultErrorUnspecified {
			result.Errors[given] = &flightpb.SetSessionOptionsResult_Error{Value: bad}
		}
	}
	return result, nil
}

// checkOption gives an option's value as text, and whether it is one.
func (s *Server) checkOption(ctx context.Context, in *session, name string, v *flight.SessionOptionValue) (text string, ok bool, err error) {
	text, ok = optionText(v)
	if !ok {
		return "", false, nil
	}
	switch name {
	case optionCatalog:
		text, ok = matching(text, s.cat.Catalogs())
	case optionSchema:
		schemas, err := s.schemasOf(ctx, s.sessionNamespace(in).Catalog)
		if err != nil {
			return "", false, err
		}
		text, ok = matching(text, schemas)
	case optionBlobs:
		_, err := parseFace("", text)
		ok = err == nil && text != ""
	case optionProfile:
		_, err := parseProfile("", text)
		ok = err == nil
	case optionCompress:
		_, err := parseCompression("", text)
		ok = err == nil && text != ""
	case optionBranch:
		ok = text == manifest.MainBranch || manifest.CheckBranchName(text) == nil
	case optionLease:
		_, err := parseLease("", text)
		ok = err == nil && text != ""
	case optionBatchBytes, optionMaxMessage:
		n, err := strconv.ParseInt(text, 10, 64)
		ok = err == nil && n >= 0
	}
	return text, ok, nil
}

// optionText takes whole numbers for text.
func optionText(v *flight.SessionOptionValue) (string, bool) {
	switch v := v.OptionValue.(type) {
	case *flightpb.SessionOptionValue_StringValue:
		return v.StringValue, len(v.StringValue) <= maxSessionKey
	case *flightpb.SessionOptionValue_Int64Value:
		return strconv.FormatInt(v.Int64Value, 10), true
	case *flightpb.SessionOptionValue_DoubleValue:
		if d := v.DoubleValue; d == math.Trunc(d) && math.Abs(d) < 1<<53 {
			return strconv.FormatInt(int64(d), 10), true
		}
	}
	return "", false
}

// matching finds a name among others as SQL does without quotes: exactly, else
// without case if only one matches.
func matching(name string, among []string) (string, bool) {
	if slices.Contains(among, name) {
		return name, true
	}
	found, n := "", 0
	for _, have := range among {
		if strings.EqualFold(have, name) {
			found = have
			n++
		}
	}
	return found, n == 1
}

func (s *Server) schemasOf(ctx context.Context, in string) ([]string, error) {
	all, err := s.cat.Schemas(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, have := range all {
		if have.Catalog == in {
			names = append(names, have.Name)
		}
	}
	return names, nil
}

// set sets an option. Another catalog has other schemas.
func (x *session) set(name string, o sessionOption) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if name == optionCatalog && x.options[name].value != o.value {
		delete(x.options, optionSchema)
	}
	x.options[name] = o
}

func (x *session) unset(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if name == optionCatalog {
		delete(x.options, optionSchema)
	}
	delete(x.options, name)
}

// values are the options by name; nil for no session.
func (x *session) values() map[string]string {
	if x == nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	values := make(map[string]string, len(x.options))
	for name, o := range x.options {
		values[name] = o.value
	}
	return values
}

// getSessionOptions answers what is set, and where names are looked up.
func (s *Server) getSessionOptions(ctx context.Context, _ *flight.GetSessionOptionsRequest) (*flight.GetSessionOptionsResult, error) {
	x, err := s.session(ctx)
	if err != nil {
		return nil, err
	}
	text := func(v string) *flight.SessionOptionValue {
		return &flight.SessionOptionValue{OptionValue: &flightpb.SessionOptionValue_StringValue{StringValue: v}}
	}
	ns, err := s.namespaceOf(ctx, x)
	if err != nil {
		return nil, err
	}
	all := map[string]*flight.SessionOptionValue{optionCatalog: text(ns.Catalog), optionSchema: text(ns.Schema)}
	if x != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		for name, o := range x.options {
			if name != optionCatalog && name != optionSchema {
				all[o.name] = o.given
			}
		}
	}
	return &flight.GetSessionOptionsResult{SessionOptions: all}, nil
}

// closeSessionAction closes what there is; a client that set nothing has
// nothing left open either.
func (s *Server) closeSessionAction(ctx context.Context, _ *flight.CloseSessionRequest) (*flight.CloseSessionResult, error) {
	if err := s.closeSession(ctx); err != nil {
		return nil, err
	}
	return &flight.CloseSessionResult{Status: flight.CloseSessionResultClosed}, nil
}

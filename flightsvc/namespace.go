package flightsvc

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// Names without catalog or schema are looked up where the call's headers say,
// else its session, else in schema main of the first catalog.

// Headers that choose a namespace. What the JDBC driver finds as schema in its
// URL it sends under that name.
const (
	headerCatalog    = "flightblob-catalog"
	headerSchema     = "flightblob-schema"
	headerSchemaJDBC = "schema"
)

// namespace is where the texts of a call look up names.
func (s *Server) namespace(ctx context.Context) (Namespace, error) {
	x, err := s.session(ctx)
	if err != nil {
		return Namespace{}, err
	}
	return s.namespaceOf(ctx, x)
}

// namespaceOf is where a call of a session, which may be nil, looks up names. A
// header that names no catalog or schema is fault.Invalid.
func (s *Server) namespaceOf(ctx context.Context, x *session) (Namespace, error) {
	ns := s.sessionNamespace(x)
	md, _ := metadata.FromIncomingContext(ctx)
	if given := lastOf(md, headerCatalog); given != "" {
		known := s.cat.Catalogs()
		name, ok := matching(given, known)
		if !ok {
			return ns, unknownName(headerCatalog, given, known)
		}
		if name != ns.Catalog {
			ns.Catalog, ns.Schema = name, catalog.Main
		}
	}
	for _, header := range []string{headerSchema, headerSchemaJDBC} {
		given := lastOf(md, header)
		if given == "" {
			continue
		}
		known, err := s.schemasOf(ctx, ns.Catalog)
		if err != nil {
			return ns, err
		}
		name, ok := matching(given, known)
		if !ok {
			return ns, unknownName(header, given, known)
		}
		ns.Schema = name
		break
	}
	var err error
	ns.Branch, err = branchOf(md, x)
	return ns, err
}

// headerBranch names the branch that a call works on.
const headerBranch = "flightblob-branch"

// branchOf is the branch that a call of a session, which may be nil, works on
// where it names none itself: "" for main. A header that can name no branch is
// fault.Invalid.
func branchOf(md metadata.MD, x *session) (string, error) {
	name, from := sources{headers: md, session: x.values()}.pick("", headerBranch, optionBranch)
	if name == "" || name == manifest.MainBranch {
		return "", nil
	}
	if err := manifest.CheckBranchName(name); err != nil {
		return "", fault.New(fault.Invalid, "%s is %s: %w", from, quote(name), err)
	}
	return name, nil
}

// branch is the branch that a call works on where it names none itself.
func (s *Server) branch(ctx context.Context) (string, error) {
	x, err := s.session(ctx)
	if err != nil {
		return "", err
	}
	md, _ := metadata.FromIncomingContext(ctx)
	return branchOf(md, x)
}

// onBranch gives a reference that says no branch that of the call.
func (s *Server) onBranch(ctx context.Context, ref table.Ref) (table.Ref, error) {
	if ref.Branch != "" || ref.Tag != "" || manifest.IsDetached(ref.Version) {
		return ref, nil
	}
	var err error
	ref.Branch, err = s.branch(ctx)
	return ref, err
}

func unknownName(header, given string, known []string) error {
	return fault.New(fault.Invalid, "header %s is %s, there are %s", header, quote(given), shorten(strings.Join(known, ", "), 500))
}

// sessionNamespace is where a session looks up names.
func (s *Server) sessionNamespace(x *session) Namespace {
	ns := Namespace{Catalog: s.cat.Catalogs()[0], Schema: catalog.Main}
	values := x.values()
	if v := values[optionCatalog]; v != "" {
		ns.Catalog = v
	}
	if v := values[optionSchema]; v != "" {
		ns.Schema = v
	}
	return ns
}

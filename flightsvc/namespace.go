package flightsvc

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
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
			ns = Namespace{Catalog: name, Schema: catalog.Main}
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
	return ns, nil
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

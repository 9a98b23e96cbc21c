package flightsvc

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql/schema_ref"
	flightpb "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/catalog"
)

// metadataAnswer is the answer to a command about names and types: the
// protocol's schema, and rows in the protocol's order.
type metadataAnswer struct {
	schema *arrow.Schema
	rows   func(s *Server, ctx context.Context, set settings) (array.RecordReader, error)
}

// metadataOf knows all such commands.
func metadataOf(m proto.Message) (metadataAnswer, bool) {
	switch m := m.(type) {
	case *flightpb.CommandGetCatalogs:
		return metadataAnswer{schema_ref.Catalogs, func(s *Server, _ context.Context, _ settings) (array.RecordReader, error) {
			return s.catalogRows(), nil
		}}, true
	case *flightpb.CommandGetDbSchemas:
		return metadataAnswer{schema_ref.DBSchemas, func(s *Server, ctx context.Context, _ settings) (array.RecordReader, error) {
			return s.schemaRows(ctx, m)
		}}, true
	case *flightpb.CommandGetTables:
		sch := schema_ref.Tables
		if m.IncludeSchema {
			sch = schema_ref.TablesWithIncludedSchema
		}
		return metadataAnswer{sch, func(s *Server, ctx context.Context, set settings) (array.RecordReader, error) {
			return s.tableRows(ctx, m, set)
		}}, true
	case *flightpb.CommandGetTableTypes:
		return metadataAnswer{schema_ref.TableTypes, func(*Server, context.Context, settings) (array.RecordReader, error) {
			return oneBatch(schema_ref.TableTypes, func(b *array.RecordBuilder) { appendText(b, 0, tableType) }), nil
		}}, true
	case *flightpb.CommandGetXdbcTypeInfo:
		return metadataAnswer{schema_ref.XdbcTypeInfo, func(*Server, context.Context, settings) (array.RecordReader, error) {
			return typeInfoRows(m.DataType), nil
		}}, true
	case *flightpb.CommandGetSqlInfo:
		return metadataAnswer{schema_ref.SqlInfo, func(s *Server, _ context.Context, _ settings) (array.RecordReader, error) {
			return s.infoRows(m.Info), nil
		}}, true
	// Tables of this format have no keys.
	case *flightpb.CommandGetPrimaryKeys:
		return noRows(schema_ref.PrimaryKeys), true
	case *flightpb.CommandGetExportedKeys:
		return noRows(schema_ref.ExportedKeys), true
	case *flightpb.CommandGetImportedKeys:
		return noRows(schema_ref.ImportedKeys), true
	case *flightpb.CommandGetCrossReference:
		return noRows(schema_ref.CrossReference), true
	}
	return metadataAnswer{}, false
}

func noRows(sch *arrow.Schema) metadataAnswer {
	return metadataAnswer{sch, func(*Server, context.Context, settings) (array.RecordReader, error) {
		return oneBatch(sch, func(*array.RecordBuilder) {}), nil
	}}
}

// oneBatch is a reader of what fill appends.
func oneBatch(sch *arrow.Schema, fill func(*array.RecordBuilder)) array.RecordReader {
	done := false
	return newPull(sch, func() (arrow.RecordBatch, error) {
		if done {
			return nil, nil
		}
		done = true
		b := array.NewRecordBuilder(memory.DefaultAllocator, sch)
		defer b.Release()
		fill(b)
		return b.NewRecordBatch(), nil
	}, nil)
}

func appendText(b *array.RecordBuilder, column int, text string) {
	b.Field(column).(*array.StringBuilder).Append(text)
}

func (s *Server) catalogRows() array.RecordReader {
	names := s.cat.Catalogs()
	slices.Sort(names)
	return oneBatch(schema_ref.Catalogs, func(b *array.RecordBuilder) {
		for _, name := range names {
			appendText(b, 0, name)
		}
	})
}

func (s *Server) schemaRows(ctx context.Context, m *flightpb.CommandGetDbSchemas) (array.RecordReader, error) {
	found, err := s.schemas(ctx, m.Catalog, m.DbSchemaFilterPattern)
	if err != nil {
		return nil, err
	}
	return oneBatch(schema_ref.DBSchemas, func(b *array.RecordBuilder) {
		for _, x := range found {
			appendText(b, 0, x.Catalog)
			appendText(b, 1, x.Name)
		}
	}), nil
}

// schemas lists schemas by catalog and name. A catalog that is absent means
// any; the empty one means none, and there is no schema without a catalog.
func (s *Server) schemas(ctx context.Context, in, schemaPattern *string) ([]catalog.Schema, error) {
	all, err := s.cat.Schemas(ctx)
	if err != nil {
		return nil, err
	}
	like := patternOf(schemaPattern)
	all = slices.DeleteFunc(all, func(x catalog.Schema) bool {
		return in != nil && x.Catalog != *in || !like.matches(x.Name)
	})
	slices.SortFunc(all, func(a, b catalog.Schema) int {
		return cmp.Or(strings.Compare(a.Catalog, b.Catalog), strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

// tableType is the type of everything that there is.
const tableType = "TABLE"

// few is the number of schemas up to which a table's exact name is looked for
// in each, instead of listing them.
const few = 4

// tables lists the names of tables by catalog, schema and name. It opens none.
func (s *Server) tables(ctx context.Context, m *flightpb.CommandGetTables) ([]catalog.Name, error) {
	if len(m.TableTypes) > 0 && !slices.Contains(m.TableTypes, tableType) {
		return nil, nil
	}
	within, err := s.schemas(ctx, m.Catalog, m.DbSchemaFilterPattern)
	if err != nil || len(within) == 0 {
		return nil, err
	}
	like := patternOf(m.TableNameFilterPattern)
	if name, ok := like.exactly(); ok && len(within) <= few {
		return s.tablesCalled(ctx, name, within)
	}
	wanted := map[catalog.Schema]bool{}
	for _, x := range within {
		wanted[x] = true
	}
	var found []catalog.Name
	for name, err := range s.cat.Names(ctx) {
		if err != nil {
			return nil, err
		}
		if wanted[catalog.Schema{Catalog: name.Catalog, Name: name.Schema}] && like.matches(name.Table) {
			found = append(found, name)
		}
	}
	slices.SortFunc(found, func(a, b catalog.Name) int {
		return cmp.Or(strings.Compare(a.Catalog, b.Catalog), strings.Compare(a.Schema, b.Schema), strings.Compare(a.Table, b.Table))
	})
	return found, nil
}

// tablesCalled looks for one name in some schemas. Matching without case finds
// more than wanted, and lists each place once.
func (s *Server) tablesCalled(ctx context.Context, table string, within []catalog.Schema) ([]catalog.Name, error) {
	if table == "" {
		return nil, nil
	}
	var found []catalog.Name
	for _, x := range within {
		name := catalog.Name{Catalog: x.Catalog, Schema: x.Name, Table: table}
		matches, err := s.cat.Match(ctx, name)
		if err != nil {
			return nil, err
		}
		if slices.Contains(matches, name) {
			found = append(found, name)
		}
	}
	return found, nil
}

// pattern is a LIKE pattern: % is any text, _ any one character, \ takes the
// next character as it is. Nil matches everything.
type pattern []token

// token is one character of a pattern.
type token struct {
	char rune
	kind tokenKind
}

type tokenKind uint8

const (
	literal tokenKind = iota
	oneChar
	anyText
)

// patternOf reads a pattern; nil stands for no filter. Any text is a pattern: a
// \ at the end is itself.
func patternOf(text *string) pattern {
	if text == nil {
		return nil
	}
	p := pattern{}
	escaped := false
	for _, c := range *text {
		switch {
		case escaped:
			p, escaped = append(p, token{c, literal}), false
		case c == '\\':
			escaped = true
		case c == '%':
			if len(p) == 0 || p[len(p)-1].kind != anyText {
				p = append(p, token{kind: anyText})
			}
		case c == '_':
			p = append(p, token{kind: oneChar})
		default:
			p = append(p, token{c, literal})
		}
	}
	if escaped {
		p = append(p, token{'\\', literal})
	}
	return p
}

// exactly gives the one text that a pattern without wildcards matches.
func (p pattern) exactly() (string, bool) {
	if p == nil {
		return "", false
	}
	var b strings.Builder
	for _, t := range p {
		if t.kind != literal {
			return "", false
		}
		b.WriteRune(t.char)
	}
	return b.String(), true
}

// matches compares in time proportional to the lengths' product: after a
// mismatch only the last % takes more.
func (p pattern) matches(text string) bool {
	if p == nil {
		return true
	}
	chars := []rune(text)
	at, i := 0, 0
	star, retry := -1, 0
	for i < len(chars) {
		switch {
		case at < len(p) && p[at].kind == anyText:
			star, retry = at, i
			at++
		case at < len(p) && (p[at].kind == oneChar || p[at].char == chars[i]):
			at++
			i++
		case star >= 0:
			retry++
			at, i = star+1, retry
		default:
			return false
		}
	}
	for at < len(p) && p[at].kind == anyText {
		at++
	}
	return at == len(p)
}

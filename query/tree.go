package query

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/engine"
)

// tree is what a reading statement names, as the engine's parser sees it.
type tree struct {
	tables    [][]string      // names of one to three parts, each once
	described [][]string      // names behind DESCRIBE
	ctes      map[string]bool // names of its own, in small letters
	catalog   bool            // it lists tables or columns
	own       bool            // it calls a table function of this program
	rows      map[string]any  // the call of the table function that was seen last
	bound     bool            // it may read bound rows
	excerpts  bool            // it may read excerpts
	unsteady  string          // what gives other values each time it is run, "" for nothing
}

// unsteadyFunctions give other values each time.
var unsteadyFunctions = []string{"random", "uuid", "gen_random_uuid", "uuidv4", "uuidv7", "nextval"}

// allowedTables are the table functions that statements may call. All others
// are refused by name: many of them reach for files, settings or the engine's
// insides.
var allowedTables = []string{
	"lance_scan", "lance_versions", "lance_tags", "lance_branches", "lance_fragments", "lance_files", "lance_blobs",
	"range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree",
	"duckdb_columns", "duckdb_constraints", "duckdb_databases", "duckdb_functions", "duckdb_keywords", "duckdb_schemas",
	"duckdb_tables", "duckdb_types", "duckdb_views", "pragma_table_info", "pragma_version", "pragma_database_list",
	"pg_timezone_names", "icu_calendar_names",
}

// refusedFunctions are scalar functions that say where this server keeps things,
// that parse or run text, whose parser acts on some of it, or that only wait.
var refusedFunctions = []string{
	"current_setting", "getenv", "getvariable", "query", "query_table", "json_execute_serialized_sql", "json_serialize_sql",
	"json_serialize_plan", "json_deserialize_sql", "write_log", "parse_duckdb_log_message", "sleep_ms",
}

// refusedTables are lists of the engine that say how it is set up.
var refusedTables = []string{"pg_settings", "pg_prepared_statements", "duckdb_settings", "duckdb_logs", "duckdb_variables", "duckdb_secrets"}

// growth is a function that makes one value of a number: what the engine holds of
// it does not count against its limit, and no interrupt ends it.
type growth struct {
	argument int
	most     float64
}

// growing are limited where the number stands in the text, which is where
// mistakes happen.
var growing = map[string]growth{
	"range": {0, 1 << 24}, "generate_series": {0, 1 << 24}, "repeat": {1, 1 << 28}, "lpad": {1, 1 << 28}, "rpad": {1, 1 << 28},
	"list_resize": {1, 1 << 24}, "array_resize": {1, 1 << 24}, "bitstring": {1, 1 << 28},
}

// listings are table functions and schemas that show what tables there are.
var listings = []string{
	"duckdb_columns", "duckdb_constraints", "duckdb_tables", "duckdb_views", "duckdb_schemas", "pragma_table_info",
	"information_schema", "pg_catalog", "sqlite_master", "sqlite_schema", "sqlite_temp_master",
}

const treeSQL = "SELECT json_serialize_sql(?::VARCHAR, skip_null := true, skip_empty := true, skip_default := true)"

// parse asks the engine's parser for the tree of a query. Text that is no query,
// or several, is fault.Invalid.
func (r *run) parse(ctx context.Context, sql string) (*tree, error) {
	text, err := r.conn.Text(ctx, treeSQL, sql)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Error      bool   `json:"error"`
		Message    string `json:"error_message"`
		Position   string `json:"position"`
		Statements []any  `json:"statements"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return nil, fault.New(fault.Internal, "query: the parser's answer: %w", err)
	}
	switch {
	case answer.Error && strings.Contains(answer.Message, "Only SELECT statements"):
		return nil, fault.New(fault.Invalid, "query: this is no query; the statement must be one that reads")
	case answer.Error && strings.Contains(answer.Message, "NameListToString"): // what the engine has for more than three
		return nil, fault.New(fault.Invalid, "query: the name of a table has at most three parts: catalog, schema and table")
	case answer.Error:
		return nil, placed(answer.Position, fault.New(fault.Invalid, "Parser Error: %s", answer.Message))
	case len(answer.Statements) != 1:
		return nil, fault.New(fault.Invalid, "query: %d statements; send one at a time", len(answer.Statements))
	}
	t := &tree{ctes: map[string]bool{}, bound: r.session.gifts != nil && r.session.gifts.bound != nil, excerpts: len(r.session.excerpts) > 0}
	return t, t.walk(answer.Statements[0])
}

// placed puts an error where the engine says in digits.
func placed(position string, err error) error {
	if offset, bad := strconv.Atoi(position); bad == nil && offset >= 0 {
		return &engine.Placed{Offset: offset, Err: err}
	}
	return err
}

// here puts a refusal where a node of the tree stands.
func here(n map[string]any, format string, args ...any) error {
	err := fault.New(fault.Invalid, format, args...)
	if offset := location(n); offset >= 0 {
		return &engine.Placed{Offset: offset, Err: err}
	}
	return err
}

// walk collects names and refuses functions.
func (t *tree) walk(v any) error {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := t.walk(e); err != nil {
				return err
			}
		}
	case map[string]any:
		if described := describedTable(v); described != nil {
			t.described = append(t.described, nameOf(described))
			return nil
		}
		if err := t.node(v); err != nil {
			return err
		}
		for _, e := range v {
			if err := t.walk(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *tree) node(n map[string]any) error {
	if ctes, ok := n["cte_map"].(map[string]any); ok {
		for _, c := range objects(ctes["map"]) {
			t.ctes[strings.ToLower(text(c["key"]))] = true
		}
	}
	text := func(key string) string { s, _ := n[key].(string); return s }
	if n["sample"] != nil {
		t.unsteady = "a sample"
	}
	switch text("type") {
	case "BASE_TABLE":
		if n["at_clause"] != nil {
			return here(n, "query: AT stands behind a table here; write lance_scan('%s', version := …)", text("table_name"))
		}
		if name := strings.ToLower(text("table_name")); slices.Contains(refusedTables, name) {
			return here(n, "query: the list %q is not served", name)
		}
		t.add(nameOf(n))
	case "TABLE_FUNCTION":
		f, _ := n["function"].(map[string]any)
		name, _ := f["function_name"].(string)
		t.rows = f
		name = strings.ToLower(name)
		if !slices.Contains(allowedTables, name) && !(t.bound && name == boundFunction) && !(t.excerpts && name == excerptFunction) {
			return here(f, "query: the table function %q is not served; served are %s", name, strings.Join(allowedTables, ", "))
		}
		t.catalog = t.catalog || slices.Contains(listings, name)
		t.own = t.own || strings.HasPrefix(name, "lance_")
	case "SHOW_REF":
		switch text("show_type") {
		case "SUMMARY":
			return here(n, "query: SUMMARIZE is not served; write the aggregates that you need")
		case "SHOW_FROM", "SHOW_UNQUALIFIED":
			t.catalog = true
		}
	case "FUNCTION":
		name := strings.ToLower(text("function_name"))
		if slices.Contains(refusedFunctions, name) {
			return here(n, "query: the function %q is not served", name)
		}
		if slices.Contains(unsteadyFunctions, name) {
			t.unsteady = name
		}
		if limit, ok := growing[name]; ok && !sameNode(n, t.rows) {
			if v := constantArgument(n["children"], limit.argument); v > limit.most {
				return here(n, "query: %s makes a single value of %.0f here, and at most %.0f are served; %s", name, v, limit.most,
					"rows come from FROM range(…)")
			}
		}
	}
	return nil
}

// sameNode says that two nodes are one.
func sameNode(a, b map[string]any) bool {
	return a != nil && b != nil && reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// constantArgument is an argument that is a constant number, 0 if it is none. The last
// border of a range may come second.
func constantArgument(children any, at int) float64 {
	args := objects(children)
	if len(args) > at+1 && at == 0 {
		at++
	}
	if at >= len(args) {
		return 0
	}
	value, _ := args[at]["value"].(map[string]any)
	v, _ := value["value"].(float64)
	return v
}

func (t *tree) add(parts []string) {
	if len(parts) > 0 && !slices.ContainsFunc(t.tables, func(have []string) bool { return slices.Equal(have, parts) }) {
		t.tables = append(t.tables, parts)
	}
}

// nameOf is the name that a node has for a table.
func nameOf(n map[string]any) []string {
	var parts []string
	for _, key := range []string{"catalog_name", "schema_name", "table_name"} {
		if s, _ := n[key].(string); s != "" {
			parts = append(parts, s)
		}
	}
	return parts
}

// describedTable is the table of a DESCRIBE of one, nil for other nodes. The
// engine writes it as that of a query, whose * stands nowhere.
func describedTable(n map[string]any) map[string]any {
	query, _ := n["query"].(map[string]any)
	from, _ := query["from_table"].(map[string]any)
	if n["type"] != "SHOW_REF" || n["show_type"] != "DESCRIBE" || from["type"] != "BASE_TABLE" {
		return nil
	}
	if list, _ := query["select_list"].([]any); len(list) == 1 {
		if star, _ := list[0].(map[string]any); star["type"] == "STAR" && star["query_location"] == nil {
			return from
		}
	}
	return nil
}

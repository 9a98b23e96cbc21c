package query

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/query/engine"
	"github.com/flightblob/flightblob/query/reference"
	"github.com/flightblob/flightblob/schema"
)

// passed is a column that comes unchanged out of a table, or out of a struct or
// list in one.
type passed struct {
	field    *schema.Field
	nullable bool // beyond the field's own: a join or a null parent can make it null
	from     tableColumn
}

// analysis reads the engine's plan of a statement: which result columns are a
// table's own, whether blob columns are misused, and whether payload is read.
//
// The plan is the bound one, not optimised: columns are numbers into the output
// of the operator below.
type analysis struct {
	run     *run
	plan    object
	ctes    map[float64]outputs
	payload bool
	counted string // the call whose rows are counted, when the statement does nothing else
	first   first  // the rows that are enough for a LIMIT
	survey  survey
}

// outputs are the columns of an operator. known is false when not even their
// number is: then nothing above can be followed.
type outputs struct {
	columns []*passed
	known   bool
}

func (o outputs) at(i int) *passed {
	if !o.known || i < 0 || i >= len(o.columns) {
		return nil
	}
	return o.columns[i]
}

type object = map[string]any

const planSQL = "SELECT json_serialize_plan(?::VARCHAR, skip_null := true, skip_empty := false, skip_default := false, optimize := false)"

// analyse plans a query and looks at the plan. The answer has as many columns
// as the result, or none when the plan cannot be followed.
func (r *run) analyse(ctx context.Context, sql string) (*analysis, outputs, error) {
	text, err := r.conn.Text(ctx, planSQL, sql)
	if err != nil {
		return nil, outputs{}, err
	}
	var answer struct {
		Error    bool     `json:"error"`
		Message  string   `json:"error_message"`
		Position string   `json:"position"`
		Plans    []object `json:"plans"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return nil, outputs{}, fault.New(fault.Internal, "query: the planner's answer: %w", err)
	}
	if answer.Error {
		return nil, outputs{}, placed(answer.Position, fault.New(fault.Invalid, "%s", answer.Message))
	}
	a := &analysis{run: r, ctes: map[float64]outputs{}, survey: survey{used: map[tableColumn]bool{}}}
	if len(answer.Plans) != 1 {
		return a, outputs{}, fault.New(fault.Internal, "query: %d plans for one statement", len(answer.Plans))
	}
	a.plan = answer.Plans[0]
	if err := a.check(answer.Plans[0], -1); err != nil {
		return a, outputs{}, r.spotted(ctx, sql, err)
	}
	a.counted, a.first = countedCall(answer.Plans[0]), firstOf(answer.Plans[0])
	return a, a.operator(answer.Plans[0]), nil
}

func objects(v any) []object {
	list, _ := v.([]any)
	out := make([]object, 0, len(list))
	for _, e := range list {
		o, _ := e.(object)
		out = append(out, o)
	}
	return out
}

func integer(v any) int { n, _ := v.(float64); return int(n) }

func text(v any) string { s, _ := v.(string); return s }

// operator follows columns through one operator and those below it.
func (a *analysis) operator(n object) outputs {
	var below []outputs
	if text(n["type"]) == "LOGICAL_MATERIALIZED_CTE" {
		children := objects(n["children"])
		if len(children) == 2 {
			a.ctes[cteIndex(n)] = a.operator(children[0])
			a.survey.off = true
			return a.operator(children[1])
		}
	}
	for _, c := range objects(n["children"]) {
		below = append(below, a.operator(c))
	}
	a.survey.note(n, below)
	first := outputs{}
	if len(below) > 0 {
		first = below[0]
	}
	switch text(n["type"]) {
	case "LOGICAL_GET":
		return a.get(n)
	case "LOGICAL_PROJECTION":
		return outputs{a.expressions(n["expressions"], first), true}
	case "LOGICAL_FILTER", "LOGICAL_ORDER_BY", "LOGICAL_LIMIT", "LOGICAL_TOP_N", "LOGICAL_DISTINCT", "LOGICAL_SAMPLE":
		return first
	case "LOGICAL_CTE_REF":
		return a.ctes[cteIndex(n)]
	case "LOGICAL_COMPARISON_JOIN", "LOGICAL_ANY_JOIN", "LOGICAL_DELIM_JOIN", "LOGICAL_DEPENDENT_JOIN", "LOGICAL_ASOF_JOIN",
		"LOGICAL_CROSS_PRODUCT", "LOGICAL_POSITIONAL_JOIN":
		return join(n, below)
	case "LOGICAL_AGGREGATE_AND_GROUP_BY":
		groups := a.expressions(n["groups"], first)
		if sets, _ := n["grouping_sets"].([]any); len(sets) > 1 {
			groups = weaken(groups)
		}
		rest := len(objects(n["expressions"])) + len(listOf(n["grouping_functions"]))
		return outputs{append(groups, make([]*passed, rest)...), true}
	case "LOGICAL_WINDOW":
		if !first.known {
			return first
		}
		return outputs{append(slices.Clone(first.columns), make([]*passed, len(objects(n["expressions"])))...), true}
	case "LOGICAL_UNNEST":
		if !first.known {
			return first
		}
		return outputs{append(slices.Clone(first.columns), a.expressions(n["expressions"], first)...), true}
	case "LOGICAL_UNION", "LOGICAL_EXCEPT", "LOGICAL_INTERSECT":
		return union(below)
	}
	return outputs{}
}

func cteIndex(n object) float64 {
	for _, key := range []string{"cte_index", "table_index"} {
		if v, ok := n[key].(float64); ok {
			return v
		}
	}
	return -1
}

func listOf(v any) []any { l, _ := v.([]any); return l }

// get names the columns of a scan of this program.
func (a *analysis) get(n object) outputs {
	call := callOf(n)
	a.run.mu.Lock()
	rel := a.run.relations[call]
	a.run.mu.Unlock()
	ids := objects(n["column_indexes"])
	if len(listOf(n["projection_ids"])) > 0 {
		return outputs{}
	}
	out := outputs{make([]*passed, len(ids)), true}
	if rel == nil {
		return out
	}
	for i, id := range ids {
		if at := integer(id["index"]); at >= 0 && at < len(rel.columns) && rel.columns[at].field != nil {
			out.columns[i] = &passed{field: rel.columns[at].field, from: tableColumn{call, at}}
		}
	}
	return out
}

// callOf is the call that a scan is of.
func callOf(n object) string {
	args, named := []string{}, map[string]string{}
	for _, p := range objects(n["parameters"]) {
		args = append(args, valueText(p))
	}
	for _, p := range objects(n["named_parameters"]) {
		value, _ := p["value"].(object)
		named[text(p["key"])] = valueText(value)
	}
	return callKey(text(n["name"]), args, named)
}

func valueText(v object) string {
	switch value := v["value"].(type) {
	case string:
		return value
	case bool:
		return fmt.Sprint(value)
	case float64:
		return fmt.Sprintf("%.0f", value)
	case json.Number:
		return value.String()
	}
	return ""
}

func weaken(columns []*passed) []*passed {
	out := make([]*passed, len(columns))
	for i, c := range columns {
		if c != nil {
			out[i] = &passed{field: c.field, nullable: true}
		}
	}
	return out
}

func join(n object, below []outputs) outputs {
	if len(below) != 2 || !below[0].known {
		return outputs{}
	}
	left, right := below[0].columns, below[1].columns
	kind := text(n["join_type"])
	switch kind {
	case "SEMI", "ANTI":
		return below[0]
	case "MARK":
		return outputs{append(slices.Clone(left), nil), true}
	}
	if !below[1].known {
		return outputs{}
	}
	if len(listOf(n["left_projection_map"]))+len(listOf(n["right_projection_map"])) > 0 {
		return outputs{}
	}
	switch kind {
	case "RIGHT_SEMI", "RIGHT_ANTI":
		return below[1]
	case "LEFT", "SINGLE":
		right = weaken(right)
	case "RIGHT":
		left = weaken(left)
	case "INNER", "":
		if text(n["type"]) == "LOGICAL_POSITIONAL_JOIN" {
			left, right = weaken(left), weaken(right)
		}
	default:
		left, right = weaken(left), weaken(right)
	}
	return outputs{append(slices.Clone(left), right...), true}
}

// union keeps what all branches agree on.
func union(below []outputs) outputs {
	if len(below) == 0 || !below[0].known {
		return outputs{}
	}
	out := outputs{slices.Clone(below[0].columns), true}
	for _, b := range below[1:] {
		if !b.known || len(b.columns) != len(out.columns) {
			return outputs{}
		}
		for i, c := range b.columns {
			if out.columns[i] == nil || c == nil || !alike(out.columns[i].field, c.field) {
				out.columns[i] = nil
				continue
			}
			out.columns[i] = &passed{field: out.columns[i].field, nullable: out.columns[i].nullable || c.nullable || c.field.Nullable}
		}
	}
	return out
}

// alike says that two fields look the same in a result, names apart.
func alike(a, b *schema.Field) bool {
	if a == b {
		return true
	}
	x, err := a.Arrow(schema.Materialized)
	y, err2 := b.Arrow(schema.Materialized)
	x.Name, x.Nullable, y.Name, y.Nullable = "", true, "", true
	return err == nil && err2 == nil && x.Equal(y)
}

func (a *analysis) expressions(v any, in outputs) []*passed {
	list := objects(v)
	out := make([]*passed, len(list))
	for i, e := range list {
		out[i] = a.expression(e, in)
	}
	return out
}

// expression follows a column reference and the ways into structs and lists.
func (a *analysis) expression(e object, in outputs) *passed {
	switch text(e["expression_class"]) {
	case "BOUND_REF":
		return in.at(integer(e["index"]))
	case "BOUND_UNNEST":
		child, _ := e["child"].(object)
		return item(a.expression(child, in))
	case "BOUND_FUNCTION":
		children := objects(e["children"])
		if len(children) == 0 {
			return nil
		}
		switch text(e["name"]) {
		case "struct_extract", "struct_extract_at":
			if len(children) == 2 && text(children[1]["expression_class"]) == "BOUND_CONSTANT" {
				value, _ := children[1]["value"].(object)
				return member(a.expression(children[0], in), value["value"])
			}
		case "array_extract", "list_extract", "list_element":
			return item(a.expression(children[0], in))
		}
	}
	return nil
}

// member is a child of a struct, by name or by number from 1.
func member(p *passed, which any) *passed {
	if p == nil || p.field.Blob != schema.NotBlob || p.field.Logical != "struct" {
		return nil
	}
	for i, c := range p.field.Children {
		byName, isText := which.(string)
		if isText && strings.EqualFold(c.Name, byName) || !isText && integer(which) == i+1 {
			return &passed{field: c, nullable: p.nullable || p.field.Nullable}
		}
	}
	return nil
}

// item is an item of a list.
func item(p *passed) *passed {
	if p == nil || p.field.Shape != schema.List && p.field.Shape != schema.LargeList || len(p.field.Children) != 1 {
		return nil
	}
	return &passed{field: p.field.Children[0], nullable: true}
}

// check walks a plan for expressions that misuse references. near is where the
// nearest expression around stands, -1 if none does.
func (a *analysis) check(v any, near int) error {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := a.check(e, near); err != nil {
				return err
			}
		}
	case object:
		if err := a.judge(v); err != nil {
			offset := location(v)
			s, ok := err.(*spot) //nolint:errorlint // as judge made it
			switch {
			case ok && s.orders > 0:
				offset = location(objects(v["orders"])[s.item]) // v is all that is sorted, too
			case ok && s.function != "":
				s.within, offset = offset, own(v)
			case offset < 0:
				offset = near
			}
			if offset >= 0 {
				err = &engine.Placed{Offset: offset, Err: err}
			}
			return err
		}
		if at := own(v); at >= 0 {
			near = at
		}
		for _, e := range v {
			if err := a.check(e, near); err != nil {
				return err
			}
		}
	}
	return nil
}

// own is where an expression says that it stands, -1 if it does not.
func own(v object) int { return location(object{"query_location": v["query_location"]}) }

// location is where in the text an expression stands, by itself or else by the
// first of what it is made of; -1 if nobody says.
func location(v any) int {
	found := -1
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if at := location(e); at >= 0 && (found < 0 || at < found) {
				found = at
			}
		}
	case object:
		if at, ok := v["query_location"].(float64); ok && at >= 0 && at < 1<<52 {
			return int(at)
		}
		for _, e := range v {
			if at := location(e); at >= 0 && (found < 0 || at < found) {
				found = at
			}
		}
	}
	return found
}

// refers says that the type of an expression holds references.
func refers(v any) bool {
	e, _ := v.(object)
	return holds(e["return_type"])
}

func holds(v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, holds)
	case object:
		if v["alias"] == reference.TypeName {
			return true
		}
		for _, e := range v {
			if holds(e) {
				return true
			}
		}
	}
	return false
}

func misuse(format string, args ...any) error {
	return fault.New(fault.Invalid, "query: %s; %s", fmt.Sprintf(format, args...), engine.Advice)
}

// orderings are comparisons that need an order of values.
var orderings = []string{"COMPARE_LESSTHAN", "COMPARE_GREATERTHAN", "COMPARE_LESSTHANOREQUALTO", "COMPARE_GREATERTHANOREQUALTO"}

func (a *analysis) judge(n object) error {
	for i, orders := 0, objects(n["orders"]); i < len(orders); i++ {
		if refers(orders[i]["expression"]) {
			return unordered(orders, i)
		}
	}
	if slices.Contains(orderings, text(n["comparison"])) && (refers(n["left"]) || refers(n["right"])) {
		return incomparable(n)
	}
	switch text(n["expression_class"]) {
	case "BOUND_COMPARISON":
		if slices.Contains(orderings, text(n["type"])) && (refers(n["left"]) || refers(n["right"])) {
			return incomparable(n)
		}
	case "BOUND_BETWEEN":
		if refers(n["input"]) || refers(n["lower"]) || refers(n["upper"]) {
			return misuse("blob columns have no order, so BETWEEN cannot compare one")
		}
	case "BOUND_CAST":
		child, _ := n["child"].(object)
		if holds(child["return_type"]) || holds(n["return_type"]) {
			return a.cast(child["return_type"], n["return_type"])
		}
	case "BOUND_FUNCTION":
		return a.call(n, scalarFunctions)
	case "BOUND_AGGREGATE":
		return a.aggregate(n)
	case "BOUND_WINDOW":
		if _, isAggregate := n["aggregate"].(object); isAggregate || text(n["name"]) != "" {
			return a.aggregate(n)
		}
	}
	return nil
}

// cast allows a reference to become bytes, and nothing else to become or come
// from one.
func (a *analysis) cast(from, to any) error {
	f, t := typeOf(from), typeOf(to)
	switch {
	case f.reference && t.id == "BLOB":
		a.payload = true
		return nil
	case f.reference && t.reference || holds(to) && (f.id == "" || strings.Contains(f.id, "NULL")): // a null literal
		return nil
	case f.reference && t.id == "VARCHAR" || !f.reference && t.id == "VARCHAR":
		return misuse("a blob column has no text form")
	case f.reference:
		return misuse("a blob column cannot be cast to %s", strings.ToLower(t.id))
	case t.reference && f.id == "BLOB":
		return misuse("bytes and blob values do not mix in one expression or list; a write takes each kind in rows of VALUES, or statements, of their own")
	case t.reference:
		return misuse("%s cannot become a blob column", strings.ToLower(f.id))
	case len(f.children) != len(t.children):
		return misuse("a value with blob columns in it cannot be cast to %s", strings.ToLower(t.id))
	}
	for i := range f.children {
		if holds(f.children[i]) || holds(t.children[i]) {
			if err := a.cast(f.children[i], t.children[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// jsonType is a type in a plan.
type jsonType struct {
	id        string
	reference bool
	children  []any
}

func typeOf(v any) jsonType {
	o, _ := v.(object)
	t := jsonType{id: text(o["id"])}
	info, _ := o["type_info"].(object)
	t.reference = info["alias"] == reference.TypeName
	if c, ok := info["child_type"]; ok {
		t.children = append(t.children, c)
	}
	for _, c := range objects(info["child_types"]) {
		t.children = append(t.children, c["second"])
	}
	return t
}

// scalarFunctions take blob columns: they move values or look at whether they
// are null or the same. Any other function could look into the reference.
var scalarFunctions = append([]string{
	"struct_pack", "row", "struct_extract", "struct_extract_at", "struct_insert", "struct_concat", "struct_update", "remap_struct",
	"list_value", "list_pack", "array_value", "list_extract", "array_extract", "list_element", "list_slice", "array_slice",
	"list_concat", "list_cat", "array_concat", "array_cat", "list_append", "array_append", "list_prepend", "array_prepend",
	"array_push_back", "array_push_front", "array_pop_back", "array_pop_front",
	"list_resize", "array_resize", "list_zip", "array_zip", "list_select", "array_select", "list_where", "array_where",
	"flatten", "len", "array_length", "length", "list_contains", "array_contains", "list_has", "array_has", "list_position", "list_indexof",
	"array_position", "array_indexof", "list_reverse", "array_reverse", "list_filter", "array_filter", "filter", "list_transform",
	"array_transform", "list_apply", "array_apply", "apply", "list_distinct", "array_distinct", "list_unique", "array_unique", "list_any_value",
	"map", "map_extract", "map_extract_value", "element_at", "map_keys", "map_values", "map_entries", "map_from_entries", "map_concat",
	"map_contains", "cardinality", "constant_or_null", "if", "ifnull", "coalesce", "error", "union_value", "union_extract", "union_tag",
	"not_distinct_from", "nullif", "typeof", "pg_typeof", "try", "current_schema", "blob_ref",
}, engine.BlobFunctions()...)

// aggregates take blob columns as their first argument.
var aggregates = []string{
	"count", "count_star", "first", "last", "any_value", "arbitrary", "list", "array_agg", "mode",
	"arg_min", "arg_max", "argmin", "argmax", "min_by", "max_by", "arg_min_null", "arg_max_null", "arg_min_nulls_last", "arg_max_nulls_last",
	"approx_count_distinct", "lead", "lag", "first_value", "last_value", "nth_value", "ordered_first", "ordered_last",
}

func (a *analysis) call(n object, allowed []string) error {
	name := text(n["name"])
	switch name {
	case "blob_bytes", "blob_range":
		a.payload = true
	}
	for _, c := range objects(n["children"]) {
		if refers(c) && !slices.Contains(allowed, name) {
			return misuse("%s cannot take a blob column", name)
		}
		if slices.Contains(structFunctions, name) && typeOf(c["return_type"]).reference {
			return misuse("a blob column is no struct to SQL, so %s cannot look into it", name)
		}
	}
	return nil
}

// structFunctions look into a struct or make another of it. They take structs
// with blob columns in them, but no blob column: the engine has it as a struct.
var structFunctions = []string{"struct_extract", "struct_extract_at", "struct_insert", "struct_concat", "struct_update", "remap_struct"}

func (a *analysis) aggregate(n object) error {
	name := text(n["name"])
	if f, ok := n["aggregate"].(object); ok {
		name = text(f["name"])
	}
	for i, c := range objects(n["children"]) {
		if refers(c) && (i > 0 || !slices.Contains(aggregates, name)) {
			return &spot{err: misuse("%s cannot take a blob column here", name), function: name, alias: text(c["alias"])}
		}
	}
	return nil
}

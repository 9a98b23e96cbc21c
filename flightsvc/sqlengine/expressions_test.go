package sqlengine_test

import "fmt"

// expression writes one of a kind over the columns of a source, or of another
// kind where there is no column to begin with; it tells which.
func (p *planner) expression(from source, k kind, depth int) (string, kind) {
	if depth > 0 && p.IntN(3) > 0 {
		if e := p.computed(from, k, depth-1); e != "" {
			return e, k
		}
	}
	var fit []item
	for _, it := range from.items {
		if it.kind == k {
			fit = append(fit, it)
		}
	}
	if len(fit) > 0 {
		return pick(p, fit...).name, k
	}
	switch k {
	case number:
		return pick(p, "1", "42::UTINYINT", "1.25", "7::HUGEINT", "NULL::INTEGER", "1e3"), k
	case words:
		return pick(p, "'text'", "NULL::VARCHAR", "''"), k
	case bytes:
		return pick(p, `'\x00a'::BLOB`, "NULL::BLOB"), k
	case moment:
		return pick(p, "DATE '2026-01-31'", "TIMESTAMP '2026-01-31 12:00:00'", "NULL::TIMESTAMP"), k
	case truth:
		return pick(p, "true", "NULL::BOOLEAN"), k
	}
	it := pick(p, from.items...)
	return it.name, it.kind
}

// computed writes an expression that computes something, "" if there is none for
// the kind.
func (p *planner) computed(from source, k kind, depth int) string {
	of := func(k kind) string { e, _ := p.expression(from, k, depth); return e }
	exactly := func(k kind) string {
		e, got := p.expression(from, k, depth)
		if got != k {
			return ""
		}
		return e
	}
	if p.IntN(8) == 0 {
		return p.conditional(from, k, depth)
	}
	if p.bind && p.IntN(6) == 0 {
		return p.parameter(k)
	}
	switch k {
	case number:
		if b := exactly(payload); b != "" && p.IntN(3) == 0 {
			return pick(p, "blob_size(", "octet_length(") + b + ")"
		}
		if l := exactly(list); l != "" && p.IntN(4) == 0 {
			return "len(" + l + ")"
		}
		return pick(p,
			fmt.Sprintf("try_cast(%s AS %s)", of(number), pick(p, "SMALLINT", "UBIGINT", "DECIMAL(18, 3)", "DOUBLE", "FLOAT", "HUGEINT")),
			fmt.Sprintf("(%s)::DOUBLE + 1", of(number)),
			fmt.Sprintf("length(%s)", of(words)),
			fmt.Sprintf("coalesce(%s, %s)", of(number), of(number)),
			fmt.Sprintf("year(%s)", of(moment)),
			fmt.Sprintf("(SELECT count(*) FROM range(%d) r(i) WHERE i < 2)", p.IntN(9)),
		)
	case words:
		if b := exactly(payload); b != "" && p.IntN(3) == 0 {
			return pick(p, "blob_kind(", "blob_uri(", "md5(") + b + ")"
		}
		return pick(p,
			fmt.Sprintf("(%s)::VARCHAR", of(pick(p, number, moment, truth))),
			fmt.Sprintf("upper(%s)", of(words)),
			fmt.Sprintf("%s || 'x'", of(words)),
			fmt.Sprintf("hex(%s)", of(bytes)),
		)
	case bytes:
		if b := exactly(payload); b != "" {
			return pick(p, "blob_bytes("+b+")", b+"::BLOB")
		}
		return fmt.Sprintf("encode(%s)", of(words))
	case truth:
		return pick(p,
			fmt.Sprintf("(%s) IS NULL", of(kind(p.IntN(int(kinds))))),
			fmt.Sprintf("(%s)::DOUBLE > 3", of(number)),
			fmt.Sprintf("NOT (%s)", of(truth)),
		)
	case moment:
		return pick(p, fmt.Sprintf("(%s)::TIMESTAMP", of(moment)), fmt.Sprintf("coalesce(%s, NULL)", of(moment)))
	case list:
		e, f := of(kind(p.IntN(int(kinds)))), ""
		if f = pick(p, "[%s]", "[%s, NULL]", "list_value(%s)"); p.IntN(4) == 0 {
			f = "list_transform([%s], v -> v)"
		}
		return fmt.Sprintf(f, e)
	case record:
		if b := exactly(payload); b != "" && p.IntN(3) == 0 {
			return "blob_descriptor(" + b + ")"
		}
		return fmt.Sprintf("{'one': %s, 'Two': %s}", of(kind(p.IntN(int(kinds)))), of(kind(p.IntN(int(kinds)))))
	case other:
		if l := exactly(list); l != "" {
			return pick(p, "unnest("+l+")", l+"[1]")
		}
		return fmt.Sprintf("MAP {'a': %s}", of(pick(p, number, words)))
	}
	return ""
}

func (p *planner) conditional(from source, k kind, depth int) string {
	if k == other {
		return ""
	}
	when, _ := p.expression(from, truth, depth)
	a, got := p.expression(from, k, 0)
	if got != k {
		return ""
	}
	return pick(p, fmt.Sprintf("CASE WHEN %s THEN %s END", when, a), fmt.Sprintf("CASE WHEN %s THEN %s ELSE %s END", when, a, a), fmt.Sprintf("if(%s, %s, NULL)", when, a))
}

// parameter writes one that a value is bound to.
func (p *planner) parameter(k kind) string {
	switch k {
	case number:
		p.params = append(p.params, int64(p.IntN(100)))
		return pick(p, "?::BIGINT", "?::DOUBLE", "(?::INTEGER + 1)") // without a cast the values say of what type they are
	case words:
		p.params = append(p.params, "bound")
		return pick(p, "?::VARCHAR", "upper(?)")
	case truth:
		p.params = append(p.params, int64(p.IntN(100)))
		return "(? > 5)"
	}
	return ""
}

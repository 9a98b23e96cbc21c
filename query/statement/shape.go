package statement

import "strings"

// Shape is text with marks in the place of values that are compared with: whole
// numbers of at most nine digits, and plain strings, that stand right behind a
// comparison. Statements of one shape name the same tables, columns and
// functions, and pass on the same columns; only their values differ. A mark
// begins with a NUL, which no statement holds. Text that cannot be read is its
// own shape.
func Shape(text string) string {
	toks, err := lex(text)
	if err != nil {
		return text
	}
	var out strings.Builder
	at := 0
	for i, t := range toks {
		if i == 0 || !compares(text[toks[i-1].start:toks[i-1].end], toks[i-1].kind) {
			continue
		}
		value, mark := text[t.start:t.end], ""
		switch {
		case t.kind == tokNumber && len(value) <= 9 && strings.Trim(value, "0123456789") == "":
			mark = "\x00n"
		case t.kind == tokString && value[0] == '\'':
			mark = "\x00s"
		default:
			continue
		}
		out.WriteString(text[at:t.start])
		out.WriteString(mark)
		at = int(t.end)
	}
	if at == 0 {
		return text
	}
	out.WriteString(text[at:])
	return out.String()
}

// compares says that a token is a comparison.
func compares(token string, kind tokenKind) bool {
	if kind != tokOp {
		return false
	}
	switch token {
	case "=", "==", "<>", "!=", "<", "<=", ">", ">=":
		return true
	}
	return false
}

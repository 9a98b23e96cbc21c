package statement

import "strconv"

// maxParams is the highest parameter number, as in PostgreSQL's protocol.
const maxParams = 65535

// Param is one place where a value is bound.
type Param struct {
	Span Span
	// Index is the number of the value to bind, from 1: the number of ?1 and $1;
	// for ? one more than the highest before it in the text; for names their order
	// of first use in the text.
	//
	// DuckDB numbers ? in the order in which its parser walks, which is not the
	// order of the text: in WITH c AS (SELECT ?) SELECT ?, x FROM c the second is
	// its first. Clients count in the order of the text, so the engine must be
	// given explicit numbers, see Statement.Numbered.
	Index int
	Name  string // of $name, as first written; empty for the others
}

// collectParams reads the parameters of the tokens [from, to). Names match without case; names and numbers do not mix.
func (c *cursor) collectParams(from, to int) ([]Param, error) {
	var params []Param
	first := map[string]Param{} // by lower-case name
	highest, named, last := 0, false, 0
	used := map[int]bool{}
	for i := from; i < to; i++ {
		if c.toks[i].kind != tokParam {
			continue
		}
		p := Param{Span: c.spanOf(i)}
		s := c.str(i)
		digits := s[1:]
		byName := s[0] == '$' && !isDigit(s[1])
		if len(params) > 0 && byName != named {
			return nil, c.errorAt(i, "named and numbered parameters do not mix in one statement")
		}
		named = byName
		if byName {
			name := s[1:]
			if name[0] == '"' {
				name = unquoteName(name)
			}
			key := lowerWord(name)
			if _, ok := first[key]; !ok {
				first[key] = Param{Name: name, Index: len(first) + 1}
			}
			p.Name, p.Index = first[key].Name, first[key].Index
		} else {
			n := 0
			if digits != "" {
				var err error
				if n, err = strconv.Atoi(digits); err != nil {
					n = maxParams + 1
				}
			}
			if n == 0 {
				n = highest + 1
			}
			p.Index = n
		}
		if p.Index > maxParams {
			return nil, c.errorAt(i, "a parameter number is at most %d", maxParams)
		}
		if p.Index > highest {
			highest, last = p.Index, i
		}
		used[p.Index] = true
		params = append(params, p)
	}
	if len(used) < highest {
		gap := 1
		for used[gap] {
			gap++
		}
		return nil, c.errorAt(last, "there is parameter %d but no parameter %d: their numbers run from 1 without a gap", highest, gap)
	}
	return params, nil
}

// Numbered makes the edits that write every parameter as $n by its Index, names
// too, so that a slice of the text or a text in another order binds the same
// values.
func (s *Statement) Numbered() []Edit {
	edits := make([]Edit, len(s.Params))
	for n, p := range s.Params {
		text := "$" + strconv.Itoa(p.Index)
		// IN? and $"a"1 would run together with their neighbours.
		if at := p.Span.Start; at > 0 && identPart(s.Text[at-1]) {
			text = " " + text
		}
		if at := p.Span.End; at < len(s.Text) && identPart(s.Text[at]) {
			text += " "
		}
		edits[n] = Edit{Span: p.Span, Text: text}
	}
	return edits
}

package statement

// CallClauses describes CALL function(arguments).
type CallClauses struct {
	Function string     // without quotes, in lower case
	Args     []Argument // positional ones first
}

// Argument is one argument of CALL.
type Argument struct {
	Name  string // in lower case; empty for a positional one
	Value Literal
	Span  Span
}

// Positional gives the n-th positional argument, from 0.
func (c *CallClauses) Positional(n int) (Literal, bool) {
	if n < 0 || n >= len(c.Args) || c.Args[n].Name != "" {
		return Literal{}, false
	}
	return c.Args[n].Value, true
}

// Named gives the argument of a name in lower case.
func (c *CallClauses) Named(name string) (Literal, bool) {
	for _, a := range c.Args {
		if a.Name == name && name != "" {
			return a.Value, true
		}
	}
	return Literal{}, false
}

func (c *cursor) call(s *Statement) error {
	f := &CallClauses{}
	s.Kind, s.Call = Call, f
	c.at++
	if !c.name(c.at) {
		return c.expected(c.at, "the name of a function")
	}
	f.Function = lowerWord(c.part(c.at).Text)
	c.at++
	if c.op(c.at, ".") {
		return c.errorAt(c.at, "functions of CALL have no schema; put catalog and schema into the table's name: CALL compact('schema.t')")
	}
	if !c.op(c.at, "(") {
		return c.expected(c.at, "the arguments in brackets")
	}
	closing := int(c.toks[c.at].pair)
	parts, err := c.split(c.at+1, closing)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, p := range parts {
		a, err := c.argument(p[0], p[1], s.Params)
		if err != nil {
			return err
		}
		switch {
		case a.Name == "" && len(seen) > 0:
			return c.errorAt(p[0], "an argument without name stands in front of the named ones")
		case a.Name != "" && seen[a.Name]:
			return c.errorAt(p[0], "argument %s is given twice", shown(a.Name))
		case a.Name != "":
			seen[a.Name] = true
		}
		f.Args = append(f.Args, a)
	}
	c.at = closing + 1
	return c.finish()
}

// argument reads value, name := value or name => value.
func (c *cursor) argument(from, to int, params []Param) (Argument, error) {
	a := Argument{Span: c.span(from, to)}
	what := "an argument"
	if c.op(from+1, ":=") || c.op(from+1, "=>") {
		if k := c.toks[from].kind; k != tokWord && k != tokQuoted {
			return a, c.expected(from, "the name of an argument")
		}
		a.Name = lowerWord(c.part(from).Text)
		what = "argument " + shown(a.Name)
		from += 2
	} else if c.op(from+1, "=") {
		return a, c.errorAt(from+1, "a named argument is written name := value")
	}
	var ok bool
	if a.Value, ok = c.literal(from, to, params); !ok {
		return a, c.errorAt(min(from, to), "%s of CALL is a literal such as 't', 3, true or INTERVAL 7 DAY, or a parameter, not %s",
			what, shown(c.span(from, to).Of(c.text)))
	}
	return a, nil
}

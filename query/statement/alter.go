package statement

// AlterAction is what ALTER TABLE changes.
type AlterAction uint8

// The actions.
const (
	AddColumn    AlterAction = iota + 1 // Column, Definition, IfNotExists
	DropColumn                          // Column, ColumnIfExists
	RenameColumn                        // Column, NewName
	SetNotNull                          // Column
	DropNotNull                         // Column
	SetSettings                         // Settings
)

// String names the action as SQL does.
func (a AlterAction) String() string {
	return [...]string{"", "ADD COLUMN", "DROP COLUMN", "RENAME COLUMN", "SET NOT NULL", "DROP NOT NULL", "SET"}[min(a, SetSettings)]
}

// AlterClauses describes ALTER TABLE [IF EXISTS] Target action.
type AlterClauses struct {
	Action         AlterAction
	IfExists       bool // of the table
	ColumnIfExists bool // DROP COLUMN IF EXISTS
	IfNotExists    bool // ADD COLUMN IF NOT EXISTS
	// Column is the path of the column, more than one part for a struct field. A
	// path that walks through a list names the items "element", as in DuckDB.
	Column     Name
	NewName    Part
	Definition ColumnDef // its Name is the last part of Column
	Settings   []Setting
}

func (c *cursor) alter(s *Statement) error {
	a := &AlterClauses{}
	s.Kind, s.Alter = AlterTable, a
	start := c.at
	c.at++
	if !c.take("table") {
		if _, ok := c.otherObject(); ok || c.word(c.at, "schema") {
			return c.errorAt(start, "ALTER %s is refused: tables alone can be altered", c.words(c.at, 1))
		}
		return c.expected(c.at, "TABLE")
	}
	a.IfExists = c.takeAll("if", "exists")
	if err := c.writeTarget(s); err != nil {
		return err
	}
	at := c.at
	var err error
	switch {
	case c.take("add"):
		return c.addColumn(a)
	case c.take("drop"):
		c.take("column")
		if c.word(c.at, "constraint") || c.word(c.at, "primary") {
			return c.errorAt(c.at, "tables have no constraints beside NOT NULL; use ALTER COLUMN c DROP NOT NULL")
		}
		a.Action = DropColumn
		a.ColumnIfExists = c.takeAll("if", "exists")
		if a.Column, err = c.columnPath(); err != nil {
			return err
		}
		c.take("cascade", "restrict")
	case c.take("rename"):
		if c.word(c.at, "to") {
			return c.errorAt(at, "renaming a table is refused: the folder is its name; use CALL clone('t', 'new', deep := true) and DROP TABLE")
		}
		c.take("column")
		a.Action = RenameColumn
		if a.Column, err = c.columnPath(); err != nil {
			return err
		}
		if !c.take("to") {
			return c.expected(c.at, "TO")
		}
		if !c.name(c.at) {
			return c.expected(c.at, "the new name")
		}
		a.NewName = c.part(c.at)
		c.at++
	case c.take("alter"):
		if err := c.alterColumn(a); err != nil {
			return err
		}
	case c.take("set"):
		if c.word(c.at, "partitioned", "sorted", "schema") {
			return c.errorAt(at, "ALTER TABLE SET %s is refused; SET (key = value, …) changes settings", c.words(c.at, 1))
		}
		a.Action = SetSettings
		if a.Settings, err = c.settings(s.Params); err != nil {
			return err
		}
	case c.word(c.at, "reset"):
		return c.errorAt(at, "RESET is refused; SET (key = value, …) with the default value does the same")
	default:
		return c.expected(c.at, "ADD, DROP, RENAME, ALTER COLUMN or SET (…)")
	}
	return c.alterEnd()
}

// alterEnd says what to do about a second action.
func (c *cursor) alterEnd() error {
	if c.op(c.at, ",") {
		return c.errorAt(c.at, "ALTER TABLE takes one change at a time; each statement commits by itself")
	}
	return c.finish()
}

// columnPath reads a column or the path of a struct field.
func (c *cursor) columnPath() (Name, error) {
	return c.dotted("a column", MaxDepth, c.name)
}

func (c *cursor) addColumn(a *AlterClauses) error {
	a.Action = AddColumn
	if !c.take("column") && c.isConstraint(c.at) {
		return c.errorAt(c.at, "%s", constraints[lowerWord(c.str(c.at))])
	}
	a.IfNotExists = c.takeAll("if", "not", "exists")
	var err error
	if a.Column, err = c.columnPath(); err != nil {
		return err
	}
	to := c.find(c.at, c.end, func(i int) bool { return c.op(i, ",") })
	if a.Definition, err = c.columnType(a.Column[len(a.Column)-1], c.at, to, true); err != nil {
		return err
	}
	switch filled := !a.Definition.Default.Empty(); {
	case filled && len(a.Column) > 1:
		return c.errorAt(c.at, "DEFAULT fills whole columns only, not a struct field; add it without, then UPDATE t SET %s = struct_insert(…)", a.Column[0])
	case a.Definition.NotNull && !filled:
		return c.errorAt(c.at, "a column is added with nulls in it; give it a DEFAULT, or fill it and ALTER COLUMN %s SET NOT NULL", a.Column)
	}
	c.at = to
	return c.alterEnd()
}

// alterColumn reads [COLUMN] column SET NOT NULL | DROP NOT NULL.
func (c *cursor) alterColumn(a *AlterClauses) error {
	c.take("column")
	var err error
	if a.Column, err = c.columnPath(); err != nil {
		return err
	}
	switch {
	case c.takeAll("set", "not", "null"):
		a.Action = SetNotNull
	case c.takeAll("drop", "not", "null"):
		a.Action = DropNotNull
	case c.word(c.at, "type") || c.word(c.at, "set") && c.word(c.at+1, "type", "data"):
		return c.errorAt(c.at, "changing a type is refused; ADD COLUMN, UPDATE t SET new = old, DROP COLUMN and RENAME do it")
	case c.word(c.at+1, "default"):
		return c.errorAt(c.at, "%s", constraints["default"])
	default:
		return c.expected(c.at, "SET NOT NULL or DROP NOT NULL")
	}
	if len(a.Column) > 1 {
		return c.errorAt(c.at-1, "NOT NULL is changed of whole columns only, not of a struct field")
	}
	return nil
}

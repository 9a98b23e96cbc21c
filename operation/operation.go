package operation

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table"
)

// Operation is something that is done to one table.
type Operation struct {
	Name    string // of CALL and DoAction
	Command string // of the command line, one word or two; "" when it has none
	About   string // what it does, in sentences
	Notes   string // more for who runs it as a command, may be ""
	Example string // values of an action beside "table", as JSON without braces; may be ""

	// Params are what it takes beside the table. The first Positional of them
	// need no name in CALL, and are plain arguments of the command.
	Params     []Param
	Positional int

	// Answers are the columns of the answer behind table and version, in order.
	Answers []arrow.Field

	// Judge refuses values that are each right and do not go together; nil for
	// operations that take any.
	Judge func(Args) error

	// Run does it. Args are checked against Params.
	Run func(ctx context.Context, c *Call) (*Answer, error)
}

// Param is a value that an operation takes.
type Param struct {
	Name     string
	Kind     Kind
	Required bool
	About    string // for help: a noun, and the default when it is not the zero value
}

// Call is one run of an operation.
type Call struct {
	Catalog *catalog.Catalog
	Table   *table.Table
	Name    catalog.Name // of the table; the zero value for one that was given by its place
	Shown   string       // what the answer calls the table
	Args    Args
	// Folds says that names of new tables must differ from others by more than case,
	// as those of SQL do.
	Folds bool
	// Place finds the place of a new table that is given by a path or URI; nil
	// where only names are allowed.
	Place func(ctx context.Context, text string) (*table.Table, error)
	// Progress is told how far long work has come, from one goroutine at a time;
	// nil for nobody. Total is 0 while it is not known.
	Progress func(what string, done, total uint64)
}

// Tell reports progress, if somebody listens.
func (c *Call) Tell(what string, done, total uint64) {
	if c.Progress != nil {
		c.Progress(what, done, total)
	}
}

// Answer is what an operation did.
type Answer struct {
	Version uint64 // of the table afterwards
	// Values are those of Operation.Answers, in order: string, uint64, bool or
	// nil.
	Values []any
	// Report is text of several lines for a person, "" for none: what was done,
	// or would be.
	Report string
	// Notice is what whoever asked should know besides, "" for nothing.
	Notice string
}

// all is every operation, in the order of help.
var all = []*Operation{
	createTag, deleteTag, createBranch, deleteBranch, restore,
	addBase,
	compact,
	cleanup,
	clone,
}

// All lists the operations in the order in which help shows them.
func All() []*Operation { return slices.Clone(all) }

// Find gives the operation of a name, nil when there is none.
func Find(name string) *Operation {
	for _, o := range all {
		if o.Name == name {
			return o
		}
	}
	return nil
}

// Names lists the names of all operations.
func Names() []string {
	names := make([]string, len(all))
	for i, o := range all {
		names[i] = o.Name
	}
	return names
}

// Param gives a parameter by its name.
func (o *Operation) Param(name string) (*Param, bool) {
	i := slices.IndexFunc(o.Params, func(p Param) bool { return p.Name == name })
	if i < 0 {
		return nil, false
	}
	return &o.Params[i], true
}

// Check finds what is missing among the values given, or does not go together.
func (o *Operation) Check(a Args) error {
	for _, p := range o.Params {
		if p.Required && !a.Has(p.Name) {
			return fault.New(fault.Invalid, "%s: %s is missing, %s", o.Name, p.Name, p.About)
		}
	}
	if o.Judge != nil {
		return o.Judge(a)
	}
	return nil
}

// On has an operation that takes a branch work on a session's, or begin at it,
// unless another one is given, or a tag, which knows its own.
func (o *Operation) On(branch string, a Args) error {
	name := "branch"
	if _, ok := o.Param("from"); ok {
		name = "from"
	}
	p, ok := o.Param(name)
	if !ok || p.Required || branch == "" || a.Has(name) || a.Has("tag") && !o.takesTag() {
		return nil
	}
	return o.Set(a, name, branch)
}

// takesTag says that tag is a name that the operation gives, rather than one that
// it looks up.
func (o *Operation) takesTag() bool {
	p, ok := o.Param("tag")
	return ok && p.Required
}

// Do runs the operation after checking what it is given.
func (o *Operation) Do(ctx context.Context, c *Call) (*Answer, error) {
	if err := o.Check(c.Args); err != nil {
		return nil, err
	}
	a, err := o.Run(ctx, c)
	if err == nil && len(a.Values) != len(o.Answers) {
		return nil, fault.New(fault.Internal, "%s answers %d values for %d columns", o.Name, len(a.Values), len(o.Answers))
	}
	return a, err
}

package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/operation"
)

// maintenanceCommands are the operations that have a command, those of two words
// below one of the first word.
func maintenanceCommands() []*cobra.Command {
	var commands []*cobra.Command
	groups := map[string]*cobra.Command{}
	for _, o := range operation.All() {
		if o.Command == "" {
			continue
		}
		first, second, nested := strings.Cut(o.Command, " ")
		if !nested {
			commands = append(commands, operationCommand(o, first))
			continue
		}
		group := groups[first]
		if group == nil {
			group = referenceCommand(first)
			groups[first] = group
			commands = append(commands, group)
		}
		group.AddCommand(operationCommand(o, second))
	}
	return commands
}

// maintaining are the settings of a command that carries out an operation.
type maintaining struct {
	places
	logging
	op     *operation.Operation
	asJSON bool
}

// operationCommand makes the command of an operation: positional parameters are
// arguments, the others flags.
func operationCommand(o *operation.Operation, word string) *cobra.Command {
	m := &maintaining{op: o}
	names := []string{"TABLE"}
	for _, p := range o.Params[:o.Positional] {
		names = append(names, strings.ToUpper(p.Name))
	}
	short, _, _ := strings.Cut(o.About, ". ")
	cmd := &cobra.Command{
		Use:     strings.Join(append([]string{word}, names...), " "),
		Short:   strings.TrimSuffix(short, "."),
		Long:    wrapped(o.About+"\n\n"+o.Notes) + "\nTABLE is a name below --root (t, schema.t, catalog.schema.t) or a path or URI.",
		Example: "  " + commandExample(o),
		Args:    theArgs(names...),
		RunE:    func(cmd *cobra.Command, args []string) error { return m.run(cmd, args) },
	}
	f := cmd.Flags()
	m.flags(f)
	for _, p := range o.Params[o.Positional:] {
		flag := flagName(p.Name)
		about := strings.ReplaceAll(p.About, "`", "")
		if p.Kind == operation.Bool {
			f.Bool(flag, false, about)
		} else {
			f.Var(&given{kind: placeholders[p.Kind]}, flag, about)
		}
	}
	return cmd
}

func (m *maintaining) flags(f *pflag.FlagSet) {
	m.places.flags(f, []string{"*"})
	f.BoolVar(&m.asJSON, "json", false, "print JSON")
	m.logging.flags(f)
	m.level = "warn"
	f.Lookup("log-level").DefValue = m.level
}

// given is the text of a flag that the operation reads.
type given struct{ text, kind string }

// String implements pflag.Value.
func (g *given) String() string { return g.text }

// Set implements pflag.Value.
func (g *given) Set(s string) error { g.text = s; return nil }

// Type implements pflag.Value: what help shows for the value.
func (g *given) Type() string { return g.kind }

// open opens the roots.
func (m *maintaining) open(cmd *cobra.Command) (*house, error) {
	log, err := m.logger(cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	return openHouse(cmd.Context(), &m.places, log)
}

// placeholders stand for values in help.
var placeholders = map[operation.Kind]string{
	operation.Text: "TEXT", operation.Number: "N", operation.Version: "N", operation.Fraction: "X", operation.Duration: "TIME",
}

func flagName(param string) string { return strings.ReplaceAll(param, "_", "-") }

// commandExample shows the command with values.
func commandExample(o *operation.Operation) string {
	text := "flightblob " + o.Command + " media"
	for _, p := range o.Params[:o.Positional] {
		text += " " + strings.ToUpper(p.Name)
	}
	for _, p := range o.Params[o.Positional:] {
		if p.Name == "dry_run" {
			text += " --dry-run"
		}
	}
	return text
}

// wrapped breaks paragraphs into lines of a terminal.
func wrapped(text string) string {
	const width = 88
	var out strings.Builder
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		line := 0
		for _, word := range strings.Fields(paragraph) {
			if line > 0 && line+1+len(word) > width {
				out.WriteByte('\n')
				line = 0
			} else if line > 0 {
				out.WriteByte(' ')
				line++
			}
			out.WriteString(word)
			line += len(word)
		}
		out.WriteString("\n\n")
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func (m *maintaining) run(cmd *cobra.Command, args []string) (err error) {
	o := m.op
	call := &operation.Call{Shown: args[0], Args: operation.Args{}}
	for i, p := range o.Params {
		var value any
		if i < o.Positional {
			value = args[i+1]
		} else if f := cmd.Flags().Lookup(flagName(p.Name)); f.Changed {
			value = f.Value.String()
		} else {
			continue
		}
		if err := o.Set(call.Args, p.Name, value); err != nil {
			return usageError{err}
		}
	}
	if err := o.Check(call.Args); err != nil {
		return usageError{err}
	}
	h, err := m.open(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	call.Catalog = h.catalog
	if call.Table, call.Name, err = h.findNamed(cmd.Context(), args[0]); err != nil {
		return err
	}
	call.Place = h.newPlace
	bar := newSteps(cmd.ErrOrStderr())
	call.Progress = bar.tell
	done, err := o.Do(cmd.Context(), call)
	bar.done()
	if err != nil {
		if cmd.Context().Err() != nil {
			return fmt.Errorf("%s: interrupted", o.Command)
		}
		return err
	}
	if m.asJSON {
		body, err := o.JSON(call.Shown, done)
		if err != nil {
			return err
		}
		return printIndented(cmd.OutOrStdout(), body)
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), o.Lines(call.Shown, done))
	return err
}

// referenceCommand is "tag" or "branch", with the command that lists them.
func referenceCommand(word string) *cobra.Command {
	group := &cobra.Command{
		Use:     word,
		Short:   "Lists, makes and deletes " + map[string]string{"tag": "tags", "branch": "branches"}[word],
		Example: "  flightblob " + word + " list media\n  flightblob " + word + " create media NAME --version 3",
		Args:    func(_ *cobra.Command, args []string) error { return unknownBelow(word, args) },
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	m := &maintaining{}
	list := &cobra.Command{
		Use:     "list TABLE",
		Short:   "Lists them",
		Long:    "Lists them by name.\n\nTABLE is a name below --root (t, schema.t, catalog.schema.t) or a path or URI.",
		Example: "  flightblob " + word + " list media",
		Args:    oneArg("TABLE"),
		RunE:    func(cmd *cobra.Command, args []string) error { return m.list(cmd, word, args[0]) },
	}
	m.flags(list.Flags())
	group.AddCommand(list)
	return group
}

func unknownBelow(word string, args []string) error {
	if len(args) > 0 {
		return usagef("unknown command %q of %s", args[0], word)
	}
	return nil
}

// list prints the tags or branches of a table.
func (m *maintaining) list(cmd *cobra.Command, word, arg string) (err error) {
	h, err := m.open(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	t, err := h.findTable(cmd.Context(), arg)
	if err != nil {
		return err
	}
	var lines strings.Builder
	tags, branches := []tagInfo{}, []branchInfo{}
	if word == "tag" {
		have, err := t.Tags(cmd.Context())
		if err != nil {
			return err
		}
		for _, v := range have {
			tags = append(tags, tagInfo{v.Name, v.Version, v.Branch})
			fmt.Fprintf(&lines, "%s  version %d of %s\n", v.Name, v.Version, cmp.Or(v.Branch, catalog.Main))
		}
	} else {
		have, err := t.Branches(cmd.Context())
		if err != nil {
			return err
		}
		for _, v := range have {
			branches = append(branches, branchInfo{v.Name, v.ParentBranch, v.ParentVersion})
			fmt.Fprintf(&lines, "%s  from version %d of %s\n", v.Name, v.ParentVersion, cmp.Or(v.ParentBranch, catalog.Main))
		}
	}
	switch {
	case m.asJSON && word == "tag":
		return printIndented(cmd.OutOrStdout(), tags)
	case m.asJSON:
		return printIndented(cmd.OutOrStdout(), branches)
	case lines.Len() == 0:
		fmt.Fprintf(&lines, "%s has none\n", arg)
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), lines.String())
	return err
}

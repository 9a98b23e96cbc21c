package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flightblob/flightblob/query/statement"
)

// Prompts of the shell, for a new statement and for more of one.
const (
	promptNew  = "flightblob> "
	promptMore = "       ...> "
)

// shell runs statements as they are read. A person sees what is wrong and goes
// on; a script ends at its first failure.
type shell struct {
	*runner
	settings   *querying
	in         lines
	talk       io.Writer // prompts and errors
	person     bool
	interrupts <-chan os.Signal // nil for a script
	typed      string           // lines since the last statement was whole
	rest       string           // of them what was not run yet
	dropped    bool             // the last key was Ctrl-C
}

var errInterrupted = errors.New("query: interrupted")

// shell reads statements from where the command does.
func (q *querying) shell(cmd *cobra.Command, r *runner) error {
	in, talk, ctx := cmd.InOrStdin(), cmd.ErrOrStderr(), cmd.Context()
	s := &shell{runner: r, settings: q, talk: talk, person: isTerminal(in)}
	if !s.person {
		s.in = plainLines(ctx, in, talk, nil, false)
		return s.run(ctx)
	}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	s.interrupts, ctx = interrupts, withoutInterrupt(ctx)
	fmt.Fprintln(talk, "Statements end with a semicolon; .help lists commands, Ctrl-D leaves.")
	if editable(in, r.out) {
		s.in = editedLines(interrupts, q.history, talk)
	} else {
		s.in = plainLines(ctx, in, talk, interrupts, true)
	}
	defer s.in.close()
	return s.run(ctx)
}

func (s *shell) run(ctx context.Context) error {
	for {
		prompt := promptNew
		if s.rest != "" {
			prompt = promptMore
		}
		text, err := s.in.next(ctx, prompt)
		if errors.Is(err, errDropped) {
			s.drop()
			continue
		}
		s.dropped = false
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		end := err != nil
		if end && s.person {
			// What has no semicolon was not meant to run yet.
			fmt.Fprintln(s.talk)
			return nil
		}
		leave, err := s.line(ctx, text, end)
		switch {
		case err != nil && (!s.person || ctx.Err() != nil):
			return err
		case err != nil:
			fmt.Fprintln(s.talk, err)
		}
		if leave || end {
			return nil
		}
	}
}

// drop forgets the statement that is being typed. Who presses Ctrl-C where
// nothing is typed is told how to leave.
func (s *shell) drop() {
	if s.dropped && s.rest == "" {
		fmt.Fprintln(s.talk, "Ctrl-D or .quit leaves")
	}
	s.typed, s.rest, s.dropped = "", "", true
}

// line takes the next line and runs the statements that are whole now.
func (s *shell) line(ctx context.Context, text string, end bool) (leave bool, err error) {
	word := strings.TrimSpace(text)
	if word == `\q` {
		return true, nil
	}
	if s.rest == "" && strings.HasPrefix(word, ".") {
		s.keep(text)
		return s.command(ctx, word)
	}
	s.typed += text
	var ready []string
	ready, s.rest, err = s.complete(s.rest+text, end)
	if s.rest == "" {
		s.keep(s.typed)
		s.typed = ""
	}
	if err != nil {
		return false, err
	}
	for _, sql := range ready {
		if err := s.execute(ctx, sql); err != nil {
			return false, err
		}
	}
	return false, nil
}

// keep remembers what was typed, unless it begins with a blank.
func (s *shell) keep(text string) {
	if strings.TrimSpace(text) != "" && text[0] != ' ' && text[0] != '\t' {
		s.in.keep(text)
	}
}

// execute runs and prints a statement, which an interrupt stops. Who goes on to
// interrupt does not wait for that.
func (s *shell) execute(ctx context.Context, sql string) error {
	if s.interrupts == nil {
		return s.statement(ctx, sql)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	select {
	case <-s.interrupts: // meant for what ended meanwhile
	default:
	}
	done := make(chan error, 1)
	go func() { done <- s.statement(ctx, sql) }()
	for n := 1; ; n++ {
		select {
		case err := <-done:
			return err
		case <-s.interrupts:
			switch n {
			case 1:
				cancel()
			case 2:
				fmt.Fprintln(s.talk, "the statement is being stopped; Ctrl-C once more leaves without waiting")
			default:
				s.in.close()
				os.Exit(exitFailed)
			}
		}
	}
}

// complete takes the statements that have their semicolon from the front of a
// text, all of them at its end, and gives what is left.
func (r *runner) complete(text string, end bool) (ready []string, rest string, err error) {
	if !end && !strings.Contains(text, ";") {
		if strings.TrimSpace(text) == "" {
			text = ""
		}
		return nil, text, nil
	}
	spans, err := statement.Split(text)
	if !end && open(text, err) {
		return nil, text, nil // a string, name or comment goes on in the next line
	}
	if err != nil {
		return nil, "", r.pointed(text, err)
	}
	for i, s := range spans {
		if !end && i == len(spans)-1 && !closed(text[s.End:]) {
			return ready, text[s.Start:], nil
		}
		ready = append(ready, s.Of(text))
	}
	return ready, "", nil
}

// closed tells whether a semicolon follows a statement.
func closed(after string) bool {
	// Another statement behind a semicolon is there only if the comments before
	// it are; a word stands for it.
	spans, err := statement.Split("x" + after + "\nx")
	return err == nil && len(spans) > 1
}

// open tells an error that more text may mend: what is never closed would be by
// its own mark at the end.
func open(text string, err error) bool {
	var at *statement.Error
	return errors.As(err, &at) && strings.Contains(at.Error(), "never closed") && at.Offset < len(text)
}

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/flightblob/flightblob/query/statement"
)

// Prompts of the shell, for a new statement and for more of one.
const (
	promptNew  = "flightblob> "
	promptMore = "       ...> "
)

// shell runs statements as they are read. A person sees what is wrong and goes
// on; a script ends at its first failure.
func (r *runner) shell(ctx context.Context, in io.Reader, talk io.Writer) error {
	person := isTerminal(in)
	if person {
		fmt.Fprintln(talk, `Statements end with a semicolon; \q leaves.`)
	}
	say := func(text string) {
		if person {
			fmt.Fprint(talk, text)
		}
	}
	lines := readLines(ctx, in)
	buffer := ""
	for {
		if buffer == "" {
			say(promptNew)
		} else {
			say(promptMore)
		}
		var l line
		select {
		case l = <-lines:
		case <-ctx.Done():
			return errors.New("query: interrupted")
		}
		if l.err != nil && !errors.Is(l.err, io.EOF) {
			return fmt.Errorf("read statements: %w", l.err)
		}
		end := l.err != nil
		if strings.TrimSpace(l.text) == `\q` {
			end, l.text, buffer = true, "", ""
		}
		var ready []string
		var err error
		if ready, buffer, err = complete(buffer+l.text, end); err == nil {
			err = r.all(ctx, ready)
		}
		switch {
		case err != nil && (!person || ctx.Err() != nil):
			return err
		case err != nil:
			fmt.Fprintln(talk, err)
		}
		if end {
			if l.err != nil {
				say("\n")
			}
			return nil
		}
	}
}

func (r *runner) all(ctx context.Context, statements []string) error {
	for _, sql := range statements {
		if err := r.statement(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// complete takes the statements that have their semicolon from the front of a
// text, all of them at its end, and gives what is left.
func complete(text string, end bool) (ready []string, rest string, err error) {
	if !end && !strings.Contains(text, ";") {
		if strings.TrimSpace(text) == "" {
			text = ""
		}
		return nil, text, nil
	}
	spans, err := statement.Split(text)
	var at *statement.Error
	if !end && errors.As(err, &at) && open(text, at) {
		return nil, text, nil // a string, name or comment goes on in the next line
	}
	if err != nil {
		return nil, "", pointed(text, err)
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
func open(text string, at *statement.Error) bool {
	return strings.Contains(at.Error(), "never closed") && at.Offset < len(text)
}

type line struct {
	text string // with its end
	err  error
}

// readLines reads beside the caller, who can then be interrupted. It ends with
// the text or the context.
func readLines(ctx context.Context, in io.Reader) <-chan line {
	lines := make(chan line)
	go func() {
		b := bufio.NewReader(in)
		for {
			text, err := b.ReadString('\n')
			select {
			case lines <- line{text, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return lines
}

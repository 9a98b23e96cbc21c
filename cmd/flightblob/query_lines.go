package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/peterh/liner"
)

// lines are where a shell reads.
type lines interface {
	// next asks for a line and gives it with its end. At the end of all lines the
	// error is io.EOF, and the text may hold a line without end; errDropped
	// says that a person pressed Ctrl-C instead.
	next(ctx context.Context, prompt string) (string, error)
	// keep remembers a statement of one or several lines.
	keep(statement string)
	// close gives the terminal back as it was.
	close()
}

var errDropped = errors.New("query: dropped")

// line is one that was read.
type line struct {
	text string // with its end
	err  error
}

// plain are the lines of a file, a pipe, or a terminal that cannot do more.
type plain struct {
	lines      <-chan line
	talk       io.Writer
	interrupts <-chan os.Signal
	prompts    bool
}

// plainLines reads beside the caller, who can then be interrupted, until the
// lines or the context end.
func plainLines(ctx context.Context, in io.Reader, talk io.Writer, interrupts <-chan os.Signal, prompts bool) *plain {
	lines := make(chan line)
	go func() {
		b := bufio.NewReader(in)
		for {
			text, err := b.ReadString('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				err = fmt.Errorf("read statements: %w", err)
			}
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
	return &plain{lines: lines, talk: talk, interrupts: interrupts, prompts: prompts}
}

func (p *plain) next(ctx context.Context, prompt string) (string, error) {
	if p.prompts {
		fmt.Fprint(p.talk, prompt)
	}
	select {
	case l := <-p.lines:
		return l.text, l.err
	case <-p.interrupts:
		fmt.Fprintln(p.talk)
		return "", errDropped
	case <-ctx.Done():
		return "", errInterrupted
	}
}

func (p *plain) keep(string) {}
func (p *plain) close()      {}

// edited are lines that a person types, changes and finds again.
type edited struct {
	editor     *liner.State
	history    *history
	talk       io.Writer
	interrupts <-chan os.Signal
	asked      chan line // of a question without answer yet
}

// editable tells whether lines can be edited here: on a terminal that moves its
// cursor.
func editable(in io.Reader, out io.Writer) bool {
	return in == os.Stdin && isTerminal(in) && out == os.Stdout && isTerminal(out) && liner.TerminalSupported()
}

// editedLines takes the terminal. A history that cannot be kept is told of.
func editedLines(interrupts <-chan os.Signal, file string, talk io.Writer) *edited {
	e := &edited{talk: talk, interrupts: interrupts}
	var earlier []string
	var err error
	if e.history, earlier, err = openHistory(file); err != nil {
		fmt.Fprintf(talk, "no history: %v\n", err)
	}
	e.editor = liner.NewLiner()
	e.editor.SetCtrlCAborts(true)
	e.editor.SetMultiLineMode(true)
	e.editor.SetBeep(false)
	// A tab in pasted text parts words; there is nothing that it completes.
	e.editor.SetWordCompleter(func(line string, pos int) (string, []string, string) {
		runes := []rune(line)
		return string(runes[:pos]), []string{"  "}, string(runes[pos:])
	})
	for _, entry := range earlier {
		e.editor.AppendHistory(entry)
	}
	return e
}

func (e *edited) next(ctx context.Context, prompt string) (string, error) {
	if e.asked == nil {
		e.asked = make(chan line, 1)
		go func(asked chan<- line) {
			text, err := e.editor.Prompt(prompt)
			asked <- line{text + "\n", err}
		}(e.asked)
	} else {
		fmt.Fprint(e.talk, prompt)
	}
	select {
	case l := <-e.asked:
		e.asked = nil
		switch {
		case errors.Is(l.err, liner.ErrPromptAborted):
			return "", errDropped
		case l.err != nil && !errors.Is(l.err, io.EOF):
			return "", fmt.Errorf("read statements: %w", l.err)
		}
		return l.text, l.err
	case <-e.interrupts: // where the terminal is too narrow for the editor
		fmt.Fprintln(e.talk)
		return "", errDropped
	case <-ctx.Done():
		return "", errInterrupted
	}
}

func (e *edited) keep(text string) {
	for _, entry := range entries(text) {
		e.editor.AppendHistory(entry)
		if err := e.history.append(entry); err != nil {
			fmt.Fprintf(e.talk, "no history: %v\n", err)
			e.history = nil
		}
	}
}

func (e *edited) close() { _ = e.editor.Close() } // nothing can be done about a terminal that is gone

// entries are what a statement is in the history: one line, as long as its line
// ends stand for blanks.
func entries(text string) []string {
	text = strings.TrimRight(text, " \t\r\n")
	if !strings.Contains(text, "\n") {
		return []string{text}
	}
	var lines []string
	whole := len(text) < longestEntry
	at := 0
	for l := range strings.SplitSeq(text, "\n") {
		at += len(l) + 1
		l = strings.TrimRight(l, " \t\r")
		whole = whole && !strings.Contains(l, "--") && !inside(text[:min(at, len(text))])
		if strings.TrimSpace(l) != "" {
			lines = append(lines, l)
		}
	}
	if !whole {
		return lines
	}
	var joined strings.Builder
	for i, l := range lines {
		if l = strings.TrimLeft(l, " \t"); i > 0 && l[0] != ';' {
			joined.WriteByte(' ')
		}
		joined.WriteString(l)
	}
	return []string{joined.String()}
}

package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// progress shows how far a transfer has come: a line that is drawn anew on a
// terminal, a line now and then elsewhere.
type progress struct {
	out      io.Writer
	terminal bool
	what     string // "rows" or "files"
	total    int64  // rows to come; 0 = not known
	started  time.Time
	shown    time.Time
	now      func() time.Time
}

// How often a line is drawn, and written.
const (
	drawnEvery   = 100 * time.Millisecond
	writtenEvery = 5 * time.Second
	barWidth     = 24
)

func newProgress(out io.Writer, what string, total int64) *progress {
	p := &progress{out: out, terminal: screenOf(out).terminal, what: what, total: total, now: time.Now}
	p.started = p.now()
	p.shown = p.started
	return p
}

// tell takes what was moved so far.
func (p *progress) tell(rows, bytes int64) {
	every := writtenEvery
	if p.terminal {
		every = drawnEvery
	}
	if now := p.now(); now.Sub(p.shown) >= every {
		p.shown = now
		p.show(rows, bytes)
	}
}

// done says the end.
func (p *progress) done(rows, bytes int64) {
	p.show(rows, bytes)
	if p.terminal {
		fmt.Fprintln(p.out)
	}
}

func (p *progress) show(rows, bytes int64) {
	seconds := p.now().Sub(p.started).Seconds()
	text := fmt.Sprintf("%d %s, %s", rows, p.what, sizeText(uint64(bytes)))
	if seconds >= 1 {
		text += fmt.Sprintf(", %s/s", sizeText(uint64(float64(bytes)/seconds)))
	}
	if !p.terminal {
		fmt.Fprintln(p.out, text)
		return
	}
	if p.total > 0 {
		filled := int(min(rows, p.total) * barWidth / p.total)
		text = "[" + strings.Repeat("█", filled) + strings.Repeat("·", barWidth-filled) + "] " + text
	}
	fmt.Fprintf(p.out, "\r\x1b[K%s", text)
}

// steps shows how far an operation of several steps has come, on one line of a
// terminal and nowhere else.
type steps struct {
	out      io.Writer
	terminal bool
	what     string
	shown    time.Time
	drawn    bool
}

func newSteps(out io.Writer) *steps { return &steps{out: out, terminal: screenOf(out).terminal} }

// tell takes what is done at the moment, and how much of how much; a total of 0
// is not known.
func (s *steps) tell(what string, done, total uint64) {
	now := time.Now()
	if !s.terminal || what == s.what && now.Sub(s.shown) < drawnEvery {
		return
	}
	s.what, s.shown, s.drawn = what, now, true
	text := fmt.Sprintf("%s: %d", what, done)
	if total > 0 {
		filled := int(float64(min(done, total)) / float64(total) * barWidth)
		text = fmt.Sprintf("[%s%s] %s of %d", strings.Repeat("█", filled), strings.Repeat("·", barWidth-filled), text, total)
	}
	fmt.Fprintf(s.out, "\r\x1b[K%s", text)
}

// done takes the line away.
func (s *steps) done() {
	if s.drawn {
		fmt.Fprint(s.out, "\r\x1b[K")
	}
}

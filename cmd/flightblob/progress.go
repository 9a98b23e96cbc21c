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

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/internal/cells"
	"github.com/flightblob/flightblob/internal/spelling"
)

// Rows that decide how wide columns are: at least so many, and of the batch that
// they end in at most so many.
const (
	sampled     = 100
	mostSampled = 2000
)

// narrowest is the least width that a column is cut to before columns are left
// out.
const narrowest = 8

// between stands between two cells.
const between = " │ "

// tableWriter lays rows out under each other. The first rows wait until the
// widths are known; later cells that are longer widen their column from there on
// where the screen has room. Where it has none they are cut, but for numbers,
// which push the rest of their line.
type tableWriter struct {
	out     *bufio.Writer
	screen  screen
	fields  []arrow.Field
	right   []bool
	widths  []int // nil until known; fewer than fields when not all fit
	waiting [][]string
}

func printTable(rows array.RecordReader, w io.Writer, s screen) (int64, error) {
	t := &tableWriter{out: bufio.NewWriter(w), screen: s, fields: rows.Schema().Fields()}
	for _, f := range t.fields {
		t.right = append(t.right, isNumber(f.Type))
	}
	n, err := each(rows, t.batch)
	// What came before a failure is shown.
	if t.widths == nil && (err == nil || len(t.waiting) > 0) {
		t.begin()
	}
	return n, errors.Join(err, t.out.Flush())
}

// isNumber says which columns stand at the right.
func isNumber(t arrow.DataType) bool {
	return arrow.IsInteger(t.ID()) || arrow.IsFloating(t.ID()) || arrow.IsDecimal(t.ID())
}

func (t *tableWriter) batch(rec arrow.RecordBatch) error {
	for row := range int(rec.NumRows()) {
		texts := make([]string, len(t.fields))
		for c, f := range t.fields {
			text, err := t.cell(f, rec.Column(c), row)
			if err != nil {
				return err
			}
			texts[c] = text
		}
		if t.widths != nil {
			t.line(texts, between)
			continue
		}
		if t.waiting = append(t.waiting, texts); len(t.waiting) == mostSampled {
			t.begin()
		}
	}
	if t.widths == nil {
		if len(t.waiting) < sampled {
			return nil
		}
		t.begin()
	}
	return t.out.Flush()
}

func (t *tableWriter) cell(f arrow.Field, arr arrow.Array, row int) (string, error) {
	if arr.IsNull(row) {
		return "NULL", nil
	}
	text, err := style{short: true}.text(f, arr, row)
	if err != nil {
		return "", err
	}
	if text == "null" && isBlob(f) {
		return "NULL", nil
	}
	return printable(text), nil
}

// begin fixes the widths and writes the head and what waited.
func (t *tableWriter) begin() {
	head, rule := make([]string, len(t.fields)), make([]string, len(t.fields))
	t.widths = make([]int, len(t.fields))
	for c, f := range t.fields {
		head[c] = printable(f.Name)
		t.widths[c] = cells.Width(head[c])
		for _, texts := range t.waiting {
			t.widths[c] = max(t.widths[c], cells.Width(texts[c]))
		}
	}
	if t.screen.width > 0 {
		t.widths = fit(t.widths, t.right, t.screen.width)
	}
	for c := range t.widths {
		rule[c] = strings.Repeat("─", t.widths[c])
	}
	t.line(head, between)
	t.line(rule, "─┼─")
	for _, texts := range t.waiting {
		t.line(texts, between)
	}
	t.waiting = nil
	if hidden := t.fields[len(t.widths):]; len(hidden) > 0 {
		fmt.Fprintf(t.out, "… %s more for a wider screen or another --format\n", spelling.Count(len(hidden), "column"))
	}
}

// fit keeps the first columns that have room at their narrowest, and makes the
// widest of them narrower until a line fits. Columns of numbers keep their width.
func fit(widths []int, numbers []bool, width int) []int {
	gap := cells.Width(between)
	least, kept := 0, 0
	for c, w := range widths {
		if !numbers[c] {
			w = min(w, narrowest)
		}
		if least += w; c > 0 {
			least += gap
		}
		if least > width {
			break
		}
		kept++
	}
	widths = widths[:max(kept, min(1, len(widths)))]
	for lineWidth(widths) > width {
		widest := -1
		for c, w := range widths {
			if !numbers[c] && w > narrowest && (widest < 0 || w > widths[widest]) {
				widest = c
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return widths
}

// lineWidth is how many cells a line takes.
func lineWidth(widths []int) int {
	total := max(len(widths)-1, 0) * cells.Width(between)
	for _, w := range widths {
		total += w
	}
	return total
}

func (t *tableWriter) line(texts []string, gap string) {
	var b strings.Builder
	for c, w := range t.widths {
		if c > 0 {
			b.WriteString(gap)
		}
		text := texts[c]
		if room := t.screen.width; room > 0 && cells.Width(text) > w {
			grown := cells.Width(text) - w
			if more := room - lineWidth(t.widths); grown > more && !t.right[c] {
				grown = max(more, 0)
			}
			w += grown
			if lineWidth(t.widths)+grown <= room {
				t.widths[c] = w
			}
			text = cells.Cut(text, w)
		}
		pad := strings.Repeat(" ", max(w-cells.Width(text), 0))
		if t.right[c] {
			b.WriteString(pad + text)
		} else {
			b.WriteString(text + pad)
		}
	}
	t.out.WriteString(strings.TrimRight(b.String(), " ") + "\n") //nolint:errcheck // Flush tells
}

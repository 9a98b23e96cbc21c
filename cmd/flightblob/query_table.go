package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/flightblob/flightblob/internal/spelling"
)

// sampled is how many rows decide how wide columns are.
const sampled = 100

// narrowest is the least width that a column is cut to before columns are left
// out.
const narrowest = 8

// between stands between two cells.
const between = " │ "

// tableWriter lays rows out under each other. The first rows wait until the
// widths are known; later cells that are longer are cut on a screen and push
// the rest of their line elsewhere.
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
		cells := make([]string, len(t.fields))
		for c, f := range t.fields {
			text, err := t.cell(f, rec.Column(c), row)
			if err != nil {
				return err
			}
			cells[c] = text
		}
		if t.widths != nil {
			t.line(cells, between)
			continue
		}
		if t.waiting = append(t.waiting, cells); len(t.waiting) == sampled {
			t.begin()
		}
	}
	if t.widths == nil {
		return nil
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
		t.widths[c] = textWidth(head[c])
		for _, cells := range t.waiting {
			t.widths[c] = max(t.widths[c], textWidth(cells[c]))
		}
	}
	if t.screen.width > 0 {
		t.widths = fit(t.widths, t.screen.width)
	}
	for c := range t.widths {
		rule[c] = strings.Repeat("─", t.widths[c])
	}
	t.line(head, between)
	t.line(rule, "─┼─")
	for _, cells := range t.waiting {
		t.line(cells, between)
	}
	t.waiting = nil
	if hidden := t.fields[len(t.widths):]; len(hidden) > 0 {
		fmt.Fprintf(t.out, "… %s more for a wider screen or another --format\n", spelling.Count(len(hidden), "column"))
	}
}

// fit keeps the first columns that have room at their narrowest, and makes the
// widest of them narrower until a line fits.
func fit(widths []int, width int) []int {
	gap := textWidth(between)
	least, kept := 0, 0
	for c, w := range widths {
		least += min(w, narrowest)
		if c > 0 {
			least += gap
		}
		if least > width {
			break
		}
		kept++
	}
	widths = widths[:max(kept, min(1, len(widths)))]
	for {
		total, widest := (len(widths)-1)*gap, 0
		for c, w := range widths {
			total += w
			if w > widths[widest] {
				widest = c
			}
		}
		if total <= width || len(widths) == 0 || widths[widest] <= narrowest {
			return widths
		}
		widths[widest]--
	}
}

func (t *tableWriter) line(cells []string, gap string) {
	var b strings.Builder
	for c, w := range t.widths {
		if c > 0 {
			b.WriteString(gap)
		}
		text := cells[c]
		if t.screen.width > 0 {
			text = cut(text, w)
		}
		pad := strings.Repeat(" ", max(w-textWidth(text), 0))
		if t.right[c] {
			b.WriteString(pad + text)
		} else {
			b.WriteString(text + pad)
		}
	}
	t.out.WriteString(strings.TrimRight(b.String(), " ") + "\n") //nolint:errcheck // Flush tells
}

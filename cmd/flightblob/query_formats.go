package main

import (
	"bufio"
	"errors"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// printer writes rows as they come and counts them.
type printer func(rows array.RecordReader, w io.Writer, s screen) (int64, error)

func printerOf(format string) (printer, error) {
	switch format {
	case "table":
		return printTable, nil
	case "json":
		return printJSON, nil
	case "csv":
		return printCSV, nil
	case "arrow":
		return printArrow, nil
	}
	return nil, usagef("--format %q is not table, json, csv or arrow", format)
}

// each reads all batches and counts their rows.
func each(rows array.RecordReader, do func(arrow.RecordBatch) error) (n int64, err error) {
	for rows.Next() {
		rec := rows.RecordBatch()
		if err := do(rec); err != nil {
			return n, err
		}
		n += rec.NumRows()
	}
	return n, rows.Err()
}

// printJSON writes one object a line, keys in the order of the columns.
func printJSON(rows array.RecordReader, w io.Writer, _ screen) (int64, error) {
	out := bufio.NewWriter(w)
	fields := rows.Schema().Fields()
	keys := make([][]byte, len(fields))
	for c, f := range fields {
		key, err := appendText(nil, f.Name)
		if err != nil {
			return 0, err
		}
		keys[c] = append(key, ':')
	}
	var line []byte
	n, err := each(rows, func(rec arrow.RecordBatch) error {
		for row := range int(rec.NumRows()) {
			line = append(line[:0], '{')
			for c, f := range fields {
				if c > 0 {
					line = append(line, ',')
				}
				var err error
				if line, err = (style{}).append(append(line, keys[c]...), f, rec.Column(c), row); err != nil {
					return err
				}
			}
			if _, err := out.Write(append(line, '}', '\n')); err != nil {
				return err
			}
		}
		return out.Flush()
	})
	return n, errors.Join(err, out.Flush())
}

// printCSV writes a header and RFC 4180 records, lines ended as on Unix. NULL is
// an empty field, text without characters a pair of quotes.
func printCSV(rows array.RecordReader, w io.Writer, _ screen) (int64, error) {
	out := bufio.NewWriter(w)
	fields := rows.Schema().Fields()
	var line []byte
	for c, f := range fields {
		line = appendField(line, c, f.Name)
	}
	if _, err := out.Write(append(line, '\n')); err != nil {
		return 0, err
	}
	n, err := each(rows, func(rec arrow.RecordBatch) error {
		for row := range int(rec.NumRows()) {
			line = line[:0]
			for c, f := range fields {
				if rec.Column(c).IsNull(row) {
					line = appendComma(line, c)
					continue
				}
				text, err := style{}.text(f, rec.Column(c), row)
				if err != nil {
					return err
				}
				line = appendField(line, c, text)
			}
			if _, err := out.Write(append(line, '\n')); err != nil {
				return err
			}
		}
		return out.Flush()
	})
	return n, errors.Join(err, out.Flush())
}

// appendField adds the field of column c to a record.
func appendField(dst []byte, c int, text string) []byte {
	dst = appendComma(dst, c)
	if text != "" && text[0] != ' ' && !strings.ContainsAny(text, "\",\r\n") {
		return append(dst, text...)
	}
	return append(append(append(dst, '"'), strings.ReplaceAll(text, `"`, `""`)...), '"')
}

func appendComma(dst []byte, c int) []byte {
	if c > 0 {
		return append(dst, ',')
	}
	return dst
}

// printArrow writes an IPC stream.
func printArrow(rows array.RecordReader, w io.Writer, _ screen) (int64, error) {
	out := ipc.NewWriter(w, ipc.WithSchema(rows.Schema()))
	n, err := each(rows, out.Write)
	if err != nil {
		return n, err // without an end, so that readers see that it is cut
	}
	return n, out.Close()
}

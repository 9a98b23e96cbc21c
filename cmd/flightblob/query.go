package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/status"

	"github.com/flightblob/flightblob/internal/spelling"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/query"
	"github.com/flightblob/flightblob/query/statement"
	"github.com/flightblob/flightblob/schema"
)

// querying are the settings of the query command.
type querying struct {
	places
	logging
	connect string
	branch  string
	format  string
	blobs   string
	history string
	memory  byteSize
	sql     sqlSettings // endpointRows aside
}

func queryCommand() *cobra.Command {
	var q querying
	cmd := &cobra.Command{
		Use:   "query [SQL]",
		Short: "Runs SQL over the tables of a root or of a running server",
		Long: `Runs one statement, or several with semicolons between them, and prints what
comes out as it comes. Without SQL it reads statements from stdin, each up to its
semicolon, and ends at the first that fails.

On a terminal that is a shell: lines can be edited, Up and Ctrl-R find earlier
statements, Ctrl-C stops the one that runs or drops the one that is typed,
Ctrl-D leaves, .help says more. Statements are kept in --history, except those
that begin with a blank.

A table on the screen shows blobs as kind and size and reads no payload. The
other formats carry the bytes, or what --blobs says: json is one object a line
with bytes as base64, csv has base64 and JSON in its fields, arrow is an IPC
stream.`,
		Example: `  flightblob query "SELECT name, width, data FROM media ORDER BY blob_size(data) DESC LIMIT 5"
  flightblob query --connect grpc://127.0.0.1:31337 "SELECT count(*) FROM media"
  flightblob query --format csv "SELECT name, md5(data) AS md5 FROM media" > sums.csv
  flightblob query --format arrow "SELECT * FROM media" > media.arrows
  flightblob query < report.sql
  flightblob query`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("query takes one SQL text, got %d arguments; put it in quotes", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return q.run(cmd, args) },
	}
	f := cmd.Flags()
	q.places.flags(f, []string{"*"})
	f.StringVar(&q.connect, "connect", "", "`URI` of a running server, grpc://HOST:PORT, in the place of --root")
	f.StringVar(&q.branch, "branch", "", "`BRANCH` that statements read and write, main by default")
	f.StringVar(&q.format, "format", "table", "`FORMAT` to print: table, json, csv or arrow")
	f.StringVar(&q.blobs, "blobs", "", "`FACE` of blob columns: bytes, descriptor or logical (default bytes, and descriptor for a table)")
	f.StringVar(&q.history, "history", historyPath(os.Getenv), "`FILE` that the shell keeps statements in; empty keeps none")
	f.Lookup("history").DefValue = "$XDG_STATE_HOME/flightblob/history"
	q.memory = materialize.DefaultBudget
	f.Var(&q.memory, "memory", "bytes of payload that are held at a time")
	q.sql.memory = query.DefaultMemory
	f.Var(&q.sql.memory, "sql-memory", "bytes that the SQL engine holds, payload aside")
	f.StringVar(&q.sql.spill, "sql-spill", "", "`FOLDER` for what does not fit into --sql-memory; empty fails statements that need more")
	f.Var(&q.sql.spillBytes, "sql-spill-bytes", "bytes in the folder of --sql-spill at most; 0 for nearly all that its disk has free")
	f.DurationVar(&q.sql.timeout, "statement-timeout", 0, "how long a statement may run; 0 for ever")
	q.logging.flags(f)
	q.level = "warn"
	f.Lookup("log-level").DefValue = q.level
	return cmd
}

func (q *querying) run(cmd *cobra.Command, args []string) error {
	r := runner{out: cmd.OutOrStdout(), errs: screenOf(cmd.ErrOrStderr())}
	if err := q.choose(&r); err != nil {
		return err
	}
	src, err := q.open(cmd)
	if err != nil {
		return err
	}
	defer src.close()
	r.source = src
	if r.errs.terminal {
		r.notes = cmd.ErrOrStderr()
	}
	if len(args) == 1 {
		return r.text(cmd.Context(), args[0])
	}
	return q.shell(cmd, &r)
}

// choose makes a runner print in the format that is asked for.
func (q *querying) choose(r *runner) error {
	print, err := printerOf(q.format)
	if err != nil {
		return err
	}
	face, err := q.face()
	if err != nil {
		return err
	}
	if q.format == "arrow" && screenOf(r.out).terminal {
		return usagef("--format arrow is not for a terminal; send it to a file or another program")
	}
	r.print, r.face = print, face
	return nil
}

// faces are the names of --blobs.
var faces = map[string]schema.View{
	"bytes": schema.Materialized, "descriptor": schema.Descriptor, "logical": schema.Logical,
}

// face says how blob columns are wanted.
func (q *querying) face() (string, error) {
	if q.blobs == "" {
		if q.format == "table" {
			return "descriptor", nil
		}
		return "bytes", nil
	}
	if _, ok := faces[q.blobs]; !ok {
		return "", usagef("--blobs %q is not bytes, descriptor or logical", q.blobs)
	}
	if q.format == "table" && q.blobs != "descriptor" {
		return "", usagef("--format table shows blobs as kind and size; --blobs %s goes with json, csv or arrow", q.blobs)
	}
	return q.blobs, nil
}

// answer is what a statement gave: rows to read, or how many it changed.
type answer struct {
	rows    array.RecordReader // nil after an update
	changed int64              // -1 when unknown
	notice  string             // of an update, what to know besides; "" for nothing
}

// source runs statements. One that was cancelled answers the context's error.
type source interface {
	run(ctx context.Context, sql, face string) (answer, error)
	close()
}

// runner prints what statements give.
type runner struct {
	source source
	face   string
	print  printer
	out    io.Writer
	errs   screen    // where errors are shown
	notes  io.Writer // counts and times; nil for nobody
}

// text runs all statements of a text, up to the first that fails.
func (r *runner) text(ctx context.Context, text string) error {
	spans, err := statement.Split(text)
	if err != nil {
		return r.pointed(text, err)
	}
	if len(spans) == 0 {
		return usagef("the text holds no statement")
	}
	for _, s := range spans {
		if err := r.statement(ctx, s.Of(text)); err != nil {
			return err
		}
	}
	return nil
}

// statement runs and prints one.
func (r *runner) statement(ctx context.Context, sql string) error {
	start := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a, err := r.source.run(ctx, sql, r.face)
	if err != nil {
		return r.failure(ctx, sql, err)
	}
	if a.rows == nil {
		if a.changed >= 0 {
			r.note(spelling.Count(a.changed, "row")+" changed", start)
		}
		if a.notice != "" {
			fmt.Fprintln(os.Stderr, "notice:", a.notice)
		}
		return nil
	}
	defer a.rows.Release()
	n, err := r.print(a.rows, r.out, screenOf(r.out))
	if err != nil {
		return r.failure(ctx, sql, err)
	}
	r.note(spelling.Count(n, "row"), start)
	return nil
}

func (r *runner) note(text string, start time.Time) {
	if r.notes != nil {
		fmt.Fprintf(r.notes, "%s in %.3f s\n", text, time.Since(start).Seconds())
	}
}

// failure says why a statement failed, with a caret where that is known.
func (r *runner) failure(ctx context.Context, sql string, err error) error {
	if ctx.Err() != nil {
		return errors.New("query: interrupted")
	}
	return r.pointed(sql, err)
}

// placed is how package statement begins its messages; a server sends no more
// of an error than its message.
var placed = regexp.MustCompile(`statement: line (\d+), column (\d+): `)

// caretWidth is how many characters of a line are shown where there is no screen.
const caretWidth = 120

// pointed adds the line of the text that an error speaks of, and a caret. The
// engine's own messages have theirs.
func (r *runner) pointed(text string, err error) error {
	width := caretWidth
	if r.errs.width > 0 {
		width = r.errs.width
	}
	var at *statement.Error
	if errors.As(err, &at) {
		return fmt.Errorf("%w\n%s", err, at.Caret(text, width))
	}
	// Errors of the client are gRPC's, whose text begins with its code.
	if s, ok := status.FromError(err); ok {
		err = errors.New(s.Message())
	}
	if m := placed.FindStringSubmatch(err.Error()); m != nil {
		line, _ := strconv.Atoi(m[1])
		column, _ := strconv.Atoi(m[2])
		if offset, ok := offsetOf(text, line, column); ok {
			return fmt.Errorf("%w\n%s", err, (&statement.Error{Offset: offset}).Caret(text, width))
		}
	}
	return err
}

// offsetOf finds the byte of a line and a character in it, both from 1.
func offsetOf(text string, line, column int) (int, bool) {
	offset := 0
	for ; line > 1; line-- {
		i := strings.IndexByte(text[offset:], '\n')
		if i < 0 {
			return 0, false
		}
		offset += i + 1
	}
	for i := range text[offset:] {
		if column--; column == 0 {
			return offset + i, true
		}
	}
	return len(text), column == 1
}

// isTerminal tells a screen from a file or pipe.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	if !ok {
		return false
	}
	st, err := file.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0 && terminalWidth(file) > 0
}

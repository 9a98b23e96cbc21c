package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/spf13/cobra"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/spelling"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/transfer"
)

// exporting are the settings of the export command.
type exporting struct {
	places
	logging
	to      string
	ref     table.Ref
	columns []string
	name    string
	force   bool
	memory  byteSize
}

func exportCommand() *cobra.Command {
	var e exporting
	cmd := &cobra.Command{
		Use:   "export TABLE --to PATH",
		Short: "Writes a table as a Parquet file, or its blobs as files",
		Long: `Writes a version of a table. Where PATH ends in .parquet, that is one Parquet file
with blobs as binary columns. Any other PATH is a folder that gets a file for each
blob, numbered by row or called by a text column (--name).

TABLE is a name below --root (t, schema.t, catalog.schema.t) or a path or URI.`,
		Example: `  flightblob export media --to media.parquet
  flightblob export photos --to ./restored --name path
  flightblob export media --to sounds.parquet --columns name,seconds,data --tag v1`,
		Args: oneArg("TABLE"),
		RunE: func(cmd *cobra.Command, args []string) error { return e.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	e.places.flags(f, []string{"*"})
	f.StringVar(&e.to, "to", "", "`PATH` or URI: a file whose name ends in .parquet, or a folder")
	f.Uint64Var(&e.ref.Version, "version", 0, "export version `N` instead of the newest")
	f.StringVar(&e.ref.Tag, "tag", "", "export the version of a tag")
	f.StringVar(&e.ref.Branch, "branch", "", "export a branch")
	f.StringSliceVar(&e.columns, "columns", nil, "`COLUMNS` to export, dotted when nested; of a folder, its blob columns; all by default")
	f.StringVar(&e.name, "name", "", "text `COLUMN` that names the files of a folder")
	f.BoolVar(&e.force, "force", false, "replace a file that is there")
	e.memory = materialize.DefaultBudget
	f.Var(&e.memory, "memory", "bytes of payload that are held at a time")
	e.logging.flags(f)
	e.level = "warn"
	f.Lookup("log-level").DefValue = e.level
	return cmd
}

func (e *exporting) run(cmd *cobra.Command, name string) (err error) {
	parquet := strings.HasSuffix(e.to, ".parquet")
	switch {
	case e.to == "":
		return usagef("export needs --to, a file whose name ends in .parquet or a folder")
	case parquet && e.name != "":
		return usagef("--name goes with a folder")
	}
	boundHeap(int64(e.memory))
	log, err := e.logger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	h, err := openHouse(cmd.Context(), &e.places, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	t, err := h.findTable(cmd.Context(), name)
	if err != nil {
		return err
	}
	s, err := t.At(cmd.Context(), e.ref)
	if err != nil {
		return err
	}
	to, err := h.env.Locate(cmd.Context(), strings.TrimSuffix(e.to, "/"))
	if err != nil {
		return err
	}
	var n, bytes int64
	what := "rows"
	if !parquet {
		what = "files"
	}
	bar := newProgress(cmd.ErrOrStderr(), "rows", int64(s.Rows()))
	tell := func(rows, moved int64) {
		bytes = moved
		bar.tell(rows, moved)
	}
	if parquet {
		n, err = e.parquet(cmd.Context(), s, to, tell)
	} else {
		n, err = transfer.WriteFolder(cmd.Context(), s, to, transfer.FolderOptions{Columns: e.columns, Name: e.name, Progress: tell})
	}
	if err != nil {
		if cmd.Context().Err() != nil {
			return errors.New("export: interrupted")
		}
		return fmt.Errorf("export: %w", err)
	}
	bar.done(int64(s.Rows()), bytes)
	fmt.Fprintf(cmd.OutOrStdout(), "%s: version %d, %s in %s\n", name, s.Version(), spelling.Count(n, strings.TrimSuffix(what, "s")), e.to)
	return nil
}

// parquet writes one file, whole or not at all.
func (e *exporting) parquet(ctx context.Context, s *table.Snapshot, to objstore.Location, tell transfer.Progress) (int64, error) {
	if _, err := to.Size(ctx); err == nil && !e.force {
		return 0, fault.New(fault.Exists, "%s exists; --force replaces it", e.to)
	} else if err != nil && fault.KindOf(err) != fault.NotFound {
		return 0, err
	}
	rows, err := e.rows(ctx, s)
	if err != nil {
		return 0, err
	}
	defer rows.Release()
	out, err := to.Create(ctx)
	if err != nil {
		return 0, err
	}
	defer out.Abort()
	n, err := transfer.WriteParquet(ctx, rows, out, tell)
	if err != nil {
		return n, explainTooLarge(err)
	}
	return n, out.Commit(ctx)
}

// rows reads the columns with blobs as bytes.
func (e *exporting) rows(ctx context.Context, s *table.Snapshot) (array.RecordReader, error) {
	scan, err := s.Scan(ctx, table.ScanRequest{Columns: e.columns})
	if err != nil {
		return nil, err
	}
	defer scan.Release()
	as, err := scan.SchemaAs(schema.Materialized)
	if err != nil {
		return nil, err
	}
	return materialize.NewReader(ctx, scan, s.Resolver(), materialize.Options{
		Budget: materialize.NewBudget(int64(e.memory)), View: schema.Materialized, Schema: as, MaxValue: transfer.MaxParquetValue,
	})
}

// explainTooLarge says what to do with values that Parquet does not take.
func explainTooLarge(err error) error {
	var large *materialize.TooLargeError
	if errors.As(err, &large) {
		return fmt.Errorf("%w; export to a folder instead, which takes values of any size", err)
	}
	return err
}

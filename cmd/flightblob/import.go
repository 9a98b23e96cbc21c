package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/spf13/cobra"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/spelling"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/transfer"
)

// importing are the settings of the import command.
type importing struct {
	places
	logging
	table     string
	mode      string
	blobs     []string
	columns   []string
	reference bool
	managed   bool
	version   string
	target    string
}

func importCommand() *cobra.Command {
	var i importing
	cmd := &cobra.Command{
		Use:   "import PATH… --table T",
		Short: "Puts Parquet files or a folder of files into a table",
		Long: `Puts rows into a table, all of them in one version, or none.

A Parquet file's rows become rows; --blob makes binary columns of a new table blob
columns. Of a folder each file becomes a row: path, size, modified, media_type
and blob, which holds a copy of the file, or with --reference only its address.
Names that start with a dot are left out.

The table is created if it is not there. Ctrl-C leaves the table as it was.`,
		Example: `  flightblob import ./photos --table photos
  flightblob import part-1.parquet part-2.parquet --table images --blob image
  flightblob import s3://archive/scans --table scans --reference`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("import takes at least one PATH")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return i.run(cmd, args) },
	}
	f := cmd.Flags()
	i.places.flags(f, []string{"*"})
	f.StringVar(&i.table, "table", "", "`TABLE` to put the rows into: a name below --root")
	f.StringVar(&i.mode, "mode", "create_append", "`MODE`: create, append, create_append or overwrite")
	f.StringArrayVar(&i.blobs, "blob", nil, "binary `COLUMN` that becomes a blob column in a new table, dotted when nested; repeatable")
	f.StringSliceVar(&i.columns, "columns", nil, "`COLUMNS` of Parquet files to take; all by default")
	f.BoolVar(&i.reference, "reference", false, "store the addresses of a folder's files, not copies")
	f.BoolVar(&i.managed, "managed", false, "keep blobs of a new table in managed objects")
	f.StringVar(&i.version, "file-version", "", "`VERSION` of the data files: 2.2 or 2.3")
	f.StringVar(&i.target, "target-base", "", "`BASE` of the table, by name or path, that the files go to")
	i.logging.flags(f)
	i.level = "warn"
	f.Lookup("log-level").DefValue = i.level
	return cmd
}

// source of an import: its rows, all with one schema.
type importSource struct {
	folder bool
	total  int64 // rows, 0 = not known
	open   []func() (array.RecordReader, error)
}

// importBytes is what an import holds of its rows at a time, unless a page of its
// source is larger.
const importBytes = 64 << 20

func (i *importing) run(cmd *cobra.Command, args []string) (err error) {
	if i.table == "" {
		return usagef("import needs --table, the table to put the rows into")
	}
	boundHeap(importBytes)
	log, err := i.logger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if err := makeDefaultRoot(&i.places); err != nil {
		return err
	}
	h, err := openHouse(cmd.Context(), &i.places, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	if err := h.checkRoots(); err != nil {
		return err
	}
	src, err := i.sources(cmd.Context(), h, args)
	if err != nil {
		return err
	}
	what := "rows"
	if src.folder {
		what = "files"
	}
	bar := newProgress(cmd.ErrOrStderr(), what, src.total)
	s, rows, bytes, err := i.write(cmd.Context(), h, src, bar)
	if err != nil {
		if cmd.Context().Err() != nil {
			return errors.New("import: interrupted; the table is as it was")
		}
		return fmt.Errorf("import: %w", err)
	}
	bar.done(rows, bytes)
	fmt.Fprintf(cmd.OutOrStdout(), "%s: version %d, %s\n", i.table, s.Version(), spelling.Count(int64(s.Rows()), "row"))
	return nil
}

// sources looks at what is to be imported.
func (i *importing) sources(ctx context.Context, h *house, args []string) (*importSource, error) {
	src := &importSource{}
	for _, arg := range args {
		loc, err := h.env.Locate(ctx, strings.TrimSuffix(arg, "/"))
		if err != nil {
			return nil, err
		}
		if _, err := loc.Size(ctx); err != nil {
			if fault.KindOf(err) != fault.NotFound && !isFolder(ctx, loc) {
				return nil, err
			}
			if !isFolder(ctx, loc) {
				return nil, fault.New(fault.NotFound, "import: there is no file or folder %s", arg)
			}
			src.folder = true
			src.open = append(src.open, func() (array.RecordReader, error) {
				rows, _ := transfer.ReadFolder(ctx, loc)
				return rows, nil
			})
			continue
		}
		p, err := transfer.OpenParquet(ctx, loc, i.columns)
		if err != nil {
			return nil, err
		}
		src.total += p.Rows()
		p.Release()
		src.open = append(src.open, func() (array.RecordReader, error) { return transfer.OpenParquet(ctx, loc, i.columns) })
	}
	if src.folder {
		src.total = 0
	}
	if i.reference && !src.folder {
		return nil, usagef("--reference is about the files of a folder")
	}
	return src, nil
}

func isFolder(ctx context.Context, loc objstore.Location) bool {
	for _, err := range loc.List(ctx) {
		return err == nil
	}
	return false
}

// write puts the rows of all sources into one version.
func (i *importing) write(ctx context.Context, h *house, src *importSource, bar *progress) (s *table.Snapshot, rows, bytes int64, err error) {
	var a *table.Appender
	var schema *arrow.Schema
	for _, open := range src.open {
		r, err := open()
		if err != nil {
			return nil, rows, bytes, err
		}
		if a == nil {
			schema = r.Schema()
			if a, err = i.appender(ctx, h, schema); err != nil {
				r.Release()
				return nil, rows, bytes, err
			}
			defer a.Abort()
		} else if !r.Schema().Equal(schema) {
			r.Release()
			return nil, rows, bytes, fault.New(fault.Invalid, "the files have different columns; import them one after another")
		}
		for err == nil && r.Next() {
			batch := r.RecordBatch()
			err = a.Write(ctx, batch)
			rows += batch.NumRows()
			bytes += weight(batch, src.folder)
			bar.tell(rows, bytes)
		}
		if err == nil {
			err = r.Err()
		}
		r.Release()
		if err != nil {
			return nil, rows, bytes, err
		}
	}
	s, err = a.Commit(ctx)
	return s, rows, bytes, err
}

// weight is how many bytes a batch moves: of a folder, those of its files.
func weight(batch arrow.RecordBatch, folder bool) int64 {
	n := int64(0)
	if folder {
		sizes := batch.Column(1).(*array.Int64)
		for i := range sizes.Len() {
			n += sizes.Value(i)
		}
		return n
	}
	for _, c := range batch.Columns() {
		n += int64(c.Data().SizeInBytes())
	}
	return n
}

// appender opens the table, or begins a new one.
func (i *importing) appender(ctx context.Context, h *house, schema *arrow.Schema) (*table.Appender, error) {
	o := table.CreateOptions{BlobColumns: i.blobs, OrAppend: i.mode == "create_append"}
	o.FileVersion, o.TargetBase = i.version, i.target
	o.URIs, o.AllowOutsideBases = blob.Ingest, false
	if i.reference {
		o.URIs, o.AllowOutsideBases = blob.Reference, true
	}
	if i.managed {
		o.Settings = &table.Settings{Managed: &i.managed}
	}
	t, err := h.catalog.Table(ctx, tableName(i.table))
	switch i.mode {
	case "append":
		if err != nil {
			return nil, err
		}
		return t.Append(ctx, "", schema, o.WriteOptions)
	case "create_append", "overwrite":
		if err == nil && i.mode == "overwrite" {
			return t.Overwrite(ctx, "", schema, o)
		}
		if err == nil {
			return t.Append(ctx, "", schema, o.WriteOptions)
		}
		if fault.KindOf(err) != fault.NotFound {
			return nil, err
		}
	case "create":
	default:
		return nil, usagef("--mode %q is not create, append, create_append or overwrite", i.mode)
	}
	if t, err = h.catalog.NewTable(ctx, tableName(i.table)); err != nil {
		return nil, err
	}
	return t.Create(ctx, schema, o)
}

// tableName reads t, schema.t or catalog.schema.t.
func tableName(text string) catalog.Name {
	parts := strings.Split(text, ".")
	switch len(parts) {
	case 2:
		return catalog.Name{Schema: parts[0], Table: parts[1]}
	case 3:
		return catalog.Name{Catalog: parts[0], Schema: parts[1], Table: parts[2]}
	}
	return catalog.Name{Table: text}
}

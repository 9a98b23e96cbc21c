package transfer

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
)

// FolderOptions say which values become files and how these are called.
type FolderOptions struct {
	// Columns are the dotted names of blob columns; nil means all of the table.
	// With several, each has a folder of its name.
	Columns []string
	// Name is a text column that names the files, folders included. Empty numbers
	// them by position of the row and ends their names by what they hold.
	Name     string
	Progress Progress
}

// WriteFolder copies the values of blob columns into files, one each. Nulls make
// no file. Values inside lists get the position in their list appended. A file
// is there whole or not at all; what was written before a failure stays. It
// answers how many files were made.
//
// Two rows of one name, and names that lead out of the folder, are
// fault.Invalid with the row.
func WriteFolder(ctx context.Context, s *table.Snapshot, to objstore.Location, o FolderOptions) (int64, error) {
	columns, err := blobColumns(s.Schema(), o.Columns)
	if err != nil {
		return 0, err
	}
	if o.Name != "" {
		columns = append(columns, o.Name)
	}
	scan, err := s.Scan(ctx, table.ScanRequest{Columns: columns})
	if err != nil {
		return 0, err
	}
	defer scan.Release()
	w := &folderWriter{options: o, to: to, resolver: s.Resolver(), taken: map[string]uint64{}}
	if o.Name != "" {
		columns = columns[:len(columns)-1]
	}
	if len(columns) > 1 {
		w.folders = columns
	} else {
		w.folders = []string{""}
	}
	for scan.Next() {
		if err := w.batch(ctx, scan, len(columns)); err != nil {
			return w.files, err
		}
	}
	return w.files, scan.Err()
}

// blobColumns checks names, or finds all blob columns that lists allow.
func blobColumns(s *schema.Schema, named []string) ([]string, error) {
	var have []string
	for f := range s.Blobs() {
		have = append(have, columnName(f))
	}
	if len(have) == 0 {
		return nil, fault.New(fault.Precondition, "transfer: the table has no blob column")
	}
	have = slices.Compact(have) // a list of structs may have several
	if named == nil {
		return have, nil
	}
	for _, n := range named {
		if !slices.Contains(have, n) {
			return nil, fault.New(fault.Invalid, "transfer: there is no blob column %q; there is %s", n, strings.Join(have, ", "))
		}
	}
	return slices.Clone(named), nil
}

// columnName is the dotted name of the column that holds a blob field: through
// structs down to the field, or to the first list.
func columnName(f *schema.Field) string {
	name := ""
	for _, p := range f.Path() {
		if name != "" {
			name += "."
		}
		name += p.Name
		if p.Shape != schema.Struct {
			break
		}
	}
	return name
}

const (
	folderWriters = 8
	copyBytes     = 4 << 20
)

type folderWriter struct {
	options  FolderOptions
	to       objstore.Location
	folders  []string // by column
	resolver *blob.Resolver
	taken    map[string]uint64 // row by file name
	files    int64
	bytes    int64
	rows     int64
}

// element is one value of a column or of a list in it.
type element struct {
	row    int
	suffix string
	hidden bool // below a null, or below none of the rows
}

// outFile is one value on its way.
type outFile struct {
	extent blob.Extent
	name   string // without the extension where that is told by content
	ends   bool
}

// batch writes the files of a batch.
func (w *folderWriter) batch(ctx context.Context, scan *table.Scan, columns int) error {
	rec, owners := scan.RecordBatch(), scan.Owners()
	top := make([]element, rec.NumRows())
	for i := range top {
		top[i].row = i
	}
	var files []outFile
	for c := range columns {
		err := leaves(rec.Schema().Field(c), rec.Column(c), top, func(arr arrow.Array, values []element) error {
			owner := owners[0]
			owners = owners[1:]
			found, err := w.find(ctx, scan, arr, values, owner, w.folders[c])
			files = append(files, found...)
			return err
		})
		if err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(folderWriters)
	for _, f := range files {
		group.Go(func() (err error) {
			defer fault.Recover("transfer", &err)
			return w.copy(ctx, f)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, f := range files {
		w.bytes += int64(f.extent.Length)
	}
	w.files += int64(len(files))
	w.rows += rec.NumRows()
	w.options.Progress.tell(w.rows, w.bytes)
	return nil
}

// leaves visits the descriptor arrays of a column in the order of the fields.
func leaves(f arrow.Field, arr arrow.Array, values []element, visit func(arrow.Array, []element) error) error {
	if f.Metadata.FindKey(schema.KeyBlob) >= 0 {
		return visit(arr, values)
	}
	switch arr := arr.(type) {
	case *array.Struct:
		inside := slices.Clone(values)
		for i := range inside {
			inside[i].hidden = inside[i].hidden || arr.IsNull(i)
		}
		for i, child := range arr.DataType().(*arrow.StructType).Fields() {
			if err := leaves(child, arr.Field(i), inside, visit); err != nil {
				return err
			}
		}
	case array.ListLike:
		if arr.DataType().ID() != arrow.LIST && arr.DataType().ID() != arrow.LARGE_LIST {
			return nil // no blob lies in other lists
		}
		items := make([]element, arr.ListValues().Len())
		for i := range items {
			items[i].hidden = true
		}
		for i, v := range values {
			if v.hidden || arr.IsNull(i) {
				continue
			}
			start, end := arr.ValueOffsets(i)
			for k := start; k < end; k++ {
				items[k] = element{row: v.row, suffix: v.suffix + "-" + strconv.FormatInt(k-start, 10)}
			}
		}
		return leaves(arr.DataType().(arrow.ListLikeType).ElemField(), arr.ListValues(), items, visit)
	}
	return nil
}

// find names the values of one descriptor array and finds their bytes.
func (w *folderWriter) find(ctx context.Context, scan *table.Scan, arr arrow.Array, values []element, owner *blob.Owner, folder string) ([]outFile, error) {
	if owner == nil { // a column added later: all null
		return nil, nil
	}
	column, err := blob.AsColumn(arr)
	if err != nil {
		return nil, err
	}
	cursor := w.resolver.Cursor(owner)
	var files []outFile
	for i, v := range values {
		if v.hidden {
			continue
		}
		row := scan.RowPosition(v.row)
		d, null, err := column.At(i)
		if err == nil && null {
			continue
		}
		var f outFile
		if err == nil {
			f.extent, err = cursor.Resolve(ctx, d)
		}
		if err == nil && f.extent.Whole {
			var n uint64
			if n, err = blob.Length(ctx, f.extent); err == nil {
				f.extent = f.extent.Sized(n)
			}
		}
		if err == nil {
			err = w.name(&f, scan.RecordBatch(), v, row, folder)
		}
		if err != nil {
			return nil, fmt.Errorf("transfer: row %d: %w", row, err)
		}
		files = append(files, f)
	}
	return files, nil
}

// name says how the file of a value is called.
func (w *folderWriter) name(f *outFile, rec arrow.RecordBatch, v element, row uint64, folder string) error {
	if w.options.Name == "" {
		f.name = path.Join(folder, fmt.Sprintf("%08d%s", row, v.suffix))
		return nil
	}
	text, err := textAt(rec.Column(int(rec.NumCols())-1), v.row, w.options.Name)
	if err != nil {
		return err
	}
	if !fs.ValidPath(text) || text == "." || strings.ContainsAny(text, "\\\x00") {
		return fault.New(fault.Invalid, "column %s gives the name %q; a file below the folder is needed, without .. and without / at its ends", w.options.Name, text)
	}
	ext := path.Ext(text)
	f.name, f.ends = path.Join(folder, strings.TrimSuffix(text, ext)+v.suffix+ext), true
	if other, ok := w.taken[f.name]; ok {
		return fault.New(fault.Invalid, "column %s gives the name %q, as in row %d; leave --name out to number the files", w.options.Name, text, other)
	}
	w.taken[f.name] = row
	return nil
}

func textAt(arr arrow.Array, i int, column string) (string, error) {
	if arr.IsNull(i) {
		return "", fault.New(fault.Invalid, "column %s, which names the files, is null", column)
	}
	switch arr := arr.(type) {
	case *array.String:
		return arr.Value(i), nil
	case *array.LargeString:
		return arr.Value(i), nil
	}
	return "", fault.New(fault.Invalid, "column %s, which names the files, has type %s; it must be text", column, arr.DataType())
}

// copy writes one file, a piece at a time.
func (w *folderWriter) copy(ctx context.Context, f outFile) error {
	piece := make([]byte, min(f.extent.Length, copyBytes))
	if len(piece) > 0 { // an empty value may have no object
		if err := f.extent.Object.ReadAt(ctx, piece, int64(f.extent.Offset)); err != nil {
			return fmt.Errorf("transfer: %w", missing(f.extent, err))
		}
	}
	if !f.ends {
		f.name += extension(piece[:min(len(piece), sniffed)])
	}
	out, err := w.to.Join(f.name).Create(ctx)
	if err != nil {
		return fmt.Errorf("transfer: %w", err)
	}
	defer out.Abort()
	for at := uint64(0); ; {
		if _, err := out.Write(piece); err != nil {
			return fmt.Errorf("transfer: %w", err)
		}
		if at += uint64(len(piece)); at >= f.extent.Length {
			break
		}
		piece = piece[:min(f.extent.Length-at, copyBytes)]
		if err := f.extent.Object.ReadAt(ctx, piece, int64(f.extent.Offset+at)); err != nil {
			return fmt.Errorf("transfer: %w", missing(f.extent, err))
		}
	}
	if err := out.Commit(ctx); err != nil {
		return fmt.Errorf("transfer: %w", err)
	}
	return nil
}

// missing turns the absence of an object that is the table's own into damage.
func missing(e blob.Extent, err error) error {
	if e.Owned && fault.KindOf(err) == fault.NotFound {
		return fault.New(fault.Corrupt, "an object of the table is missing: %w", err)
	}
	return err
}

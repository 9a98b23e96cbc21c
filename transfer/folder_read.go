package transfer

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sync/errgroup"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/schema"
)

// FolderSchema is that of a table made from a folder: a row for each file.
//
//	path        its path below the folder
//	size        bytes
//	modified    null where the store does not say
//	media_type  told by content, and by name where content says nothing
//	blob        the file
var FolderSchema = arrow.NewSchema([]arrow.Field{
	{Name: "path", Type: arrow.BinaryTypes.String},
	{Name: "size", Type: arrow.PrimitiveTypes.Int64},
	{Name: "modified", Type: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, Nullable: true},
	{Name: "media_type", Type: arrow.BinaryTypes.String},
	{
		Name: "blob", Type: blobType, Nullable: true,
		Metadata: arrow.MetadataFrom(map[string]string{schema.KeyExtensionName: schema.ExtensionBlobV2}),
	},
}, nil)

// blobType is the minimal logical shape.
var blobType = arrow.StructOf(
	arrow.Field{Name: "data", Type: arrow.BinaryTypes.LargeBinary, Nullable: true},
	arrow.Field{Name: "uri", Type: arrow.BinaryTypes.String, Nullable: true},
)

const (
	folderBatch   = 1024
	folderReaders = 16
	folderDepth   = 64
)

// ReadFolder streams the files below a folder, at any depth, in the order of
// their paths, as rows of FolderSchema. The blobs are absolute URIs: whoever
// writes the rows decides whether the files are referenced or ingested. Of each
// file only the beginning is read. Names that start with a dot, and what lies
// below such folders, are left out; skipped counts them.
//
// The reader belongs to one goroutine; it lists and reads as rows are asked for.
func ReadFolder(ctx context.Context, folder objstore.Location) (rows array.RecordReader, skipped func() int64) {
	r := &folderReader{ctx: ctx, top: folder}
	r.references.Store(1)
	r.push(folder, "")
	return r, func() int64 { return r.hidden }
}

type folderReader struct {
	references atomic.Int64
	ctx        context.Context //nolint:containedctx // readers have no context
	top        objstore.Location
	pending    []foundFile // ordered: files and folders still to be visited, next last
	hidden     int64
	batch      arrow.RecordBatch
	err        error
}

type foundFile struct {
	path  string // below the top
	entry objstore.Entry
}

var _ array.RecordReader = (*folderReader)(nil)

// push lists a folder and puts its children in front of what is pending.
func (r *folderReader) push(dir objstore.Location, prefix string) {
	if strings.Count(prefix, "/") > folderDepth {
		r.err = fault.New(fault.Exhausted, "transfer: folder %s is more than %d levels deep", dir, folderDepth)
		return
	}
	var children []foundFile
	for e, err := range dir.List(r.ctx) {
		if err != nil {
			r.err = fmt.Errorf("transfer: list %s: %w", dir, err)
			return
		}
		if strings.HasPrefix(e.Name, ".") {
			r.hidden++
			continue
		}
		children = append(children, foundFile{path: path.Join(prefix, e.Name), entry: e})
	}
	for i := len(children) - 1; i >= 0; i-- {
		r.pending = append(r.pending, children[i])
	}
}

// Next implements array.RecordReader.
func (r *folderReader) Next() bool {
	if r.batch != nil {
		r.batch.Release()
		r.batch = nil
	}
	var files []foundFile
	for r.err == nil && len(r.pending) > 0 && len(files) < folderBatch {
		last := len(r.pending) - 1
		f := r.pending[last]
		r.pending = r.pending[:last]
		if f.entry.Dir {
			r.push(r.top.Join(f.path), f.path)
			continue
		}
		files = append(files, f)
	}
	if r.err != nil || len(files) == 0 {
		return false
	}
	r.batch, r.err = r.describe(files)
	return r.err == nil
}

// describe makes the rows of some files.
func (r *folderReader) describe(files []foundFile) (arrow.RecordBatch, error) {
	kinds := make([]string, len(files))
	group, ctx := errgroup.WithContext(r.ctx)
	group.SetLimit(folderReaders)
	for i, f := range files {
		group.Go(func() (err error) {
			defer fault.Recover("transfer", &err)
			head := make([]byte, min(f.entry.Size, sniffed))
			if err := r.top.Join(f.path).ReadAt(ctx, head, 0); err != nil {
				return fmt.Errorf("transfer: read %s: %w", r.top.Join(f.path), err)
			}
			kinds[i] = mediaType(head, f.path)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, FolderSchema)
	defer b.Release()
	for i, f := range files {
		if !utf8.ValidString(f.path) {
			return nil, fault.New(fault.Invalid, "transfer: the name of %s is not UTF-8; rename the file", r.top.Join(f.path))
		}
		b.Field(0).(*array.StringBuilder).Append(f.path)
		b.Field(1).(*array.Int64Builder).Append(f.entry.Size)
		if f.entry.Modified.IsZero() {
			b.Field(2).AppendNull()
		} else {
			b.Field(2).(*array.TimestampBuilder).Append(arrow.Timestamp(f.entry.Modified.UnixMicro()))
		}
		b.Field(3).(*array.StringBuilder).Append(kinds[i])
		blob := b.Field(4).(*array.StructBuilder)
		blob.Append(true)
		blob.FieldBuilder(0).AppendNull()
		blob.FieldBuilder(1).(*array.StringBuilder).Append(r.top.Join(f.path).AbsoluteURI())
	}
	return b.NewRecordBatch(), nil
}

// Schema implements array.RecordReader.
func (r *folderReader) Schema() *arrow.Schema { return FolderSchema }

// RecordBatch implements array.RecordReader.
func (r *folderReader) RecordBatch() arrow.RecordBatch { return r.batch }

// Record implements array.RecordReader.
//
// Deprecated: use RecordBatch.
func (r *folderReader) Record() arrow.RecordBatch { return r.batch }

// Err implements array.RecordReader.
func (r *folderReader) Err() error {
	if r.err == nil {
		return nil
	}
	if cause := r.ctx.Err(); cause != nil && errors.Is(r.err, cause) {
		return cause
	}
	return r.err
}

// Retain implements array.RecordReader.
func (r *folderReader) Retain() { r.references.Add(1) }

// Release implements array.RecordReader.
func (r *folderReader) Release() {
	if r.references.Add(-1) == 0 && r.batch != nil {
		r.batch.Release()
		r.batch = nil
	}
}

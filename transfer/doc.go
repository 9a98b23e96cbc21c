// Package transfer moves tables to and from Parquet files and folders of files.
//
//	Parquet → ReadParquet → record batches          a row is a row
//	folder  → ReadFolder  → record batches          a row is a file
//	record batches → WriteParquet → Parquet         blobs as binary columns
//	snapshot → WriteFolder → folder                 a file is a value
//
// Everything streams: memory is bounded by batches, pages and row groups, never
// by the size of a file, a folder or a table. Single values are the exception in
// Parquet, which has them whole.
package transfer

// Progress is called now and then with what was moved so far. It must be quick.
type Progress func(rows, bytes int64)

func (p Progress) tell(rows, bytes int64) {
	if p != nil {
		p(rows, bytes)
	}
}

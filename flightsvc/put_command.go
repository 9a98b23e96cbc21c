package flightsvc

import (
	"context"
	"encoding/json"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// putMode is what a put does with the table.
type putMode uint8

// The modes of a put.
const (
	putCreateAppend putMode = iota // creates the table when it is absent
	putAppend
	putCreate
	putOverwrite
	putReplace // overwrites, creates when absent; not by name: what ingest calls replace
	putValue   // one row with one huge value in pieces
	putMerge   // rows come in the place of those with the same key
)

var putModes = map[string]putMode{
	"append": putAppend, "create": putCreate, "overwrite": putOverwrite, "create_append": putCreateAppend, "value": putValue,
	"merge": putMerge,
}

// putCommand is a request to write rows: a path, a JSON command or an ingest.
type putCommand struct {
	name        catalog.Name
	branch      string // "" = that of the call
	mode        putMode
	bases       []manifest.Base
	options     table.WriteOptions
	managed     *bool
	blobColumns []string

	on    []string         // of putMerge
	value *putValueCommand // of putValue
}

// putValueCommand is a row whose value in column comes in pieces.
type putValueCommand struct {
	column string
	row    map[string]json.RawMessage // the other columns
	size   uint64
}

// headerBlobColumns names binary columns of a table to be created that become
// blob columns.
const headerBlobColumns = "flightblob-blob-columns"

// parsePut reads the JSON of a put, strictly.
func parsePut(b []byte) (*putCommand, error) {
	if len(b) > maxTicketBytes {
		return nil, fault.New(fault.Invalid, "put: a command of %d bytes is over the limit of %d", len(b), maxTicketBytes)
	}
	o, err := parseObject("put", b)
	if err != nil {
		return nil, err
	}
	c := &putCommand{mode: putAppend}
	o.name(&c.name)
	o.string("branch", &c.branch)
	mode := "append"
	o.string("mode", &mode)
	var ok bool
	if c.mode, ok = putModes[mode]; !ok {
		o.fail("mode is %s, it must be append, create, overwrite, create_append, merge or value", quote(mode))
	}
	o.bases("bases", &c.bases)
	o.string("target_base", &c.options.TargetBase)
	o.string("file_version", &c.options.FileVersion)
	if o.has("managed") {
		c.managed = new(bool)
		o.decode("managed", "true or false", c.managed)
	}
	o.blobs("blobs", &c.options)
	if o.strings("on", &c.on); ok && (c.mode == putMerge) != (len(c.on) > 0) {
		o.fail("mode merge needs on, a list of the key columns, and no other mode takes it")
	}
	if c.mode == putValue {
		c.value = &putValueCommand{}
		o.string("column", &c.value.column)
		if !o.has("size") {
			o.fail("mode value needs size, the number of bytes to come")
		}
		o.uint("size", &c.value.size)
		o.decode("row", "an object with the other columns", &c.value.row)
		if c.value.column == "" {
			o.fail("mode value needs column, the blob column that the bytes are for")
		}
	}
	if err := o.finish(); err != nil {
		return nil, err
	}
	creates := c.mode == putCreate || c.mode == putCreateAppend || c.mode == putOverwrite
	if !creates && (c.bases != nil || c.managed != nil) {
		return nil, fault.New(fault.Invalid, "put: bases and managed go with modes that create a table; use the actions add_base and set")
	}
	return c, nil
}

// bases reads a list of base paths.
func (o *object) bases(key string, into *[]manifest.Base) {
	var items []json.RawMessage
	if !o.decode(key, "a list of bases", &items) {
		return
	}
	for _, raw := range items {
		b, err := parseObject(o.what+": "+key, raw)
		if err != nil {
			o.err = err
			return
		}
		var base manifest.Base
		b.base(&base)
		if err := b.finish(); err != nil {
			o.err = err
			return
		}
		*into = append(*into, base)
	}
}

// base reads name, path and dataset_root.
func (o *object) base(into *manifest.Base) {
	o.string("name", &into.Name)
	o.string("path", &into.Path)
	o.decode("dataset_root", "true or false", &into.IsDatasetRoot)
	if into.Path == "" {
		o.fail("a base needs a path")
	}
}

// blobs reads {"external":"reference|ingest","allow_outside_bases":false}.
func (o *object) blobs(key string, into *table.WriteOptions) {
	var raw json.RawMessage
	if !o.decode(key, "an object", &raw) {
		return
	}
	b, err := parseObject(o.what+": "+key, raw)
	if err != nil {
		o.err = err
		return
	}
	mode := ""
	b.string("external", &mode)
	b.decode("allow_outside_bases", "true or false", &into.AllowOutsideBases)
	if err = b.finish(); err == nil {
		into.URIs, err = blob.ParseMode(mode)
	}
	if err != nil && o.err == nil {
		o.err = err
	}
}

// blobColumnsOf reads the header; empty entries are left out.
func blobColumnsOf(ctx context.Context) []string {
	md, _ := metadata.FromIncomingContext(ctx)
	var names []string
	for _, v := range md.Get(headerBlobColumns) {
		for name := range strings.SplitSeq(v, ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

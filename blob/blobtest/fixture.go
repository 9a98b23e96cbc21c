// Package blobtest gives tests the golden fixtures as snapshots of values: what
// the reference recorded as descriptors, whose data files they belong to, and
// what their bytes must be. It reads expected.json and resolves against the
// fixture's own folder, so it needs neither a table reader nor the place where
// the fixtures were written.
package blobtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table/manifest"
)

// Field is one entry of a version's flat field list.
type Field struct {
	ID       int               `json:"id"`
	Parent   int               `json:"parent_id"`
	Name     string            `json:"name"`
	Logical  string            `json:"logical_type"`
	Nullable bool              `json:"nullable"`
	Metadata map[string]string `json:"metadata"`
}

// Blob tells whether the field is a blob column of either generation.
func (f Field) Blob() bool {
	_, legacy := f.Metadata["lance-encoding:blob"]
	return legacy || f.Metadata["ARROW:extension:name"] == "lance.blob.v2"
}

type dataFile struct {
	Path   string  `json:"path"`
	Fields []int   `json:"fields"`
	BaseID *uint32 `json:"base_id"`
}

type version struct {
	Version uint64  `json:"version"`
	Fields  []Field `json:"fields"`
	Bases   []struct {
		ID   uint32 `json:"id"`
		Root bool   `json:"is_dataset_root"`
		Path string `json:"path"`
	} `json:"base_paths"`
	Fragments []struct {
		ID    uint64     `json:"id"`
		Files []dataFile `json:"files"`
	} `json:"fragments"`
}

type snapshot struct {
	Rows        []map[string]any `json:"rows"`
	Descriptors []map[string]any `json:"descriptors"`
	Addresses   []uint64         `json:"row_addresses"`
}

type line struct {
	Versions  []version           `json:"versions"`
	Snapshots map[string]snapshot `json:"snapshots"`
	Branches  map[string]line     `json:"branches"`
}

// Snapshot is one version of one table of a fixture.
type Snapshot struct {
	Name     string // fixture/table@version
	Fields   []Field
	Resolver *blob.Resolver
	snapshot
	version version
	root    objstore.Location
	store   *Files
}

// Open gives every snapshot of a fixture, in order of name. dir is the folder
// that holds all fixtures.
func Open(tb testing.TB, dir, fixture string) []*Snapshot {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join(dir, fixture, "expected.json"))
	if err != nil {
		tb.Fatalf("golden fixture: %v", err)
	}
	var file struct {
		Tables map[string]line `json:"tables"`
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber() // positions need all 64 bits
	if err := decoder.Decode(&file); err != nil {
		tb.Fatalf("golden fixture %s: %v", fixture, err)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		tb.Fatal(err)
	}
	store := &Files{Dir: abs}
	var all []*Snapshot
	for name, t := range file.Tables {
		folder := fixture + "/" + name
		all = append(all, t.open(folder, folder, store)...)
		for branch, b := range t.Branches {
			all = append(all, b.open(folder+"/tree/"+branch, folder+"/tree/"+branch, store)...)
		}
	}
	if len(all) == 0 {
		tb.Fatalf("golden fixture %s holds no snapshot", fixture)
	}
	slices.SortFunc(all, func(a, b *Snapshot) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (l line) open(name, folder string, store *Files) []*Snapshot {
	var all []*Snapshot
	for _, v := range l.Versions {
		s, ok := l.Snapshots[strconv.FormatUint(v.Version, 10)]
		if !ok {
			continue
		}
		bases := make(map[uint32]manifest.Base)
		for _, b := range v.Bases {
			bases[b.ID] = manifest.Base{ID: b.ID, IsDatasetRoot: b.Root, Path: b.Path}
		}
		all = append(all, &Snapshot{
			Name:     fmt.Sprintf("%s@%d", name, v.Version),
			Fields:   v.Fields,
			Resolver: blob.NewResolver(bases, store.Locate),
			snapshot: s,
			version:  v,
			root:     objstore.Location{Store: store, Path: folder},
			store:    store,
		})
	}
	return all
}

// Fragment is the fragment of row i of the snapshot.
func (s *Snapshot) Fragment(i int) uint64 { return s.Addresses[i] >> 32 }

// Owner is the data file that holds a field of a fragment, or nil (RES-1).
func (s *Snapshot) Owner(fragment uint64, field int) *blob.Owner {
	for _, f := range s.version.Fragments {
		if f.ID != fragment {
			continue
		}
		for _, file := range f.Files {
			if slices.Contains(file.Fields, field) {
				return s.owner(file)
			}
		}
	}
	return nil
}

// owner applies RES-2 and RES-12.
func (s *Snapshot) owner(file dataFile) *blob.Owner {
	base, dir := s.root, s.root.Join("data")
	if file.BaseID != nil {
		for _, b := range s.version.Bases {
			if b.ID != *file.BaseID {
				continue
			}
			base = s.store.at(b.Path)
			dir = base
			if b.Root {
				dir = base.Join("data")
			}
		}
	}
	key := file.Path[strings.LastIndexByte(file.Path, '/')+1:]
	return &blob.Owner{
		File:      dir.Join(file.Path),
		Key:       strings.TrimSuffix(key, ".lance"),
		Dir:       dir,
		Base:      base,
		Immutable: true,
	}
}

// Descriptor reads a recorded descriptor. Those of the legacy layout become
// kind 0, null by LEG-9.
func Descriptor(v any) (d blob.Descriptor, null bool) {
	m, ok := v.(map[string]any)
	if !ok {
		return d, true
	}
	number := func(key string) uint64 {
		n, err := strconv.ParseUint(fmt.Sprint(m[key]), 10, 64)
		if err != nil {
			panic(fmt.Sprintf("blobtest: descriptor %v: %v", m, err))
		}
		return n
	}
	d.Position, d.Size = number("position"), number("size")
	if _, five := m["kind"]; !five {
		return d, d.Size == 0 && d.Position != 0
	}
	d.Kind, d.ID = blob.Kind(number("kind")), uint32(number("blob_id"))
	d.URI, _ = m["blob_uri"].(string)
	return d, false
}

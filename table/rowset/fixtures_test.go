package rowset

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/lancepb"
)

const fixtures = "../../conformance/fixtures/tables"

// fixtureManifests reads the manifests of a fixture's table by version.
func fixtureManifests(t testing.TB, fixture string) map[uint64]*lancepb.Manifest {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(fixtures, fixture, "table.lance/_versions/*.manifest"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests of %s: %v", fixture, err)
	}
	out := make(map[uint64]*lancepb.Manifest, len(files))
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		position := binary.LittleEndian.Uint64(data[len(data)-16:])
		m := new(lancepb.Manifest)
		if err := proto.Unmarshal(data[position+4:len(data)-16], m); err != nil {
			t.Fatal(err)
		}
		out[m.GetVersion()] = m
	}
	return out
}

// TestReferenceRows compares row ids and addresses of whole tables, deletions
// applied, with those that the reference reports.
func TestReferenceRows(t *testing.T) {
	t.Parallel()
	for _, fixture := range []string{"stable_row_ids", "fragments_and_deletions", "deletion_bitmap", "compaction_unmanaged", "merge_insert_update"} {
		t.Run(fixture, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(filepath.Join(fixtures, fixture, "expected.json"))
			if err != nil {
				t.Fatal(err)
			}
			var expected struct {
				Tables map[string]struct {
					Snapshots map[string]struct {
						RowCount     uint64   `json:"row_count"`
						RowIDs       []uint64 `json:"row_ids"`
						RowAddresses []uint64 `json:"row_addresses"`
					} `json:"snapshots"`
				} `json:"tables"`
			}
			if err := json.Unmarshal(data, &expected); err != nil {
				t.Fatal(err)
			}
			snapshots := expected.Tables["table.lance"].Snapshots
			if len(snapshots) == 0 {
				t.Fatal("no snapshots are expected")
			}
			for version, m := range fixtureManifests(t, fixture) {
				want, ok := snapshots[fmt.Sprint(version)]
				if !ok {
					continue
				}
				ids, addresses := rowsOf(t, fixture, m)
				if uint64(len(addresses)) != want.RowCount {
					t.Errorf("version %d: %d rows, want %d", version, len(addresses), want.RowCount)
				}
				if want.RowAddresses != nil {
					if diff := cmp.Diff(want.RowAddresses, addresses); diff != "" {
						t.Errorf("version %d: addresses: %s", version, diff)
					}
				}
				if want.RowIDs != nil {
					if diff := cmp.Diff(want.RowIDs, ids); diff != "" {
						t.Errorf("version %d: ids: %s", version, diff)
					}
				}
			}
		})
	}
}

func rowsOf(t *testing.T, fixture string, m *lancepb.Manifest) (ids, addresses []uint64) {
	t.Helper()
	for _, f := range m.GetFragments() {
		rows := f.GetPhysicalRows()
		deletions := None(rows)
		if d := f.GetDeletionFile(); d != nil {
			bitmap := d.GetFileType() == lancepb.DeletionFile_BITMAP
			name := fmt.Sprintf("%d-%d-%d.arrow", f.GetId(), d.GetReadVersion(), d.GetId())
			if bitmap {
				name = fmt.Sprintf("%d-%d-%d.bin", f.GetId(), d.GetReadVersion(), d.GetId())
			}
			data, err := os.ReadFile(filepath.Join(fixtures, fixture, "table.lance/_deletions", name))
			if err != nil {
				t.Fatal(err)
			}
			if deletions, err = DecodeDeletions(data, bitmap, rows); err != nil {
				t.Fatal(err)
			}
			if deletions.Count() != d.GetNumDeletedRows() {
				t.Errorf("%s deletes %d rows, the manifest says %d", name, deletions.Count(), d.GetNumDeletedRows())
			}
		}
		var stable *IDs
		if b := f.GetInlineRowIds(); b != nil {
			var err error
			if stable, err = DecodeRowIDs(b, rows); err != nil {
				t.Fatal(err)
			}
			for _, b := range [][]byte{f.GetInlineCreatedAtVersions(), f.GetInlineLastUpdatedAtVersions()} {
				if _, err := DecodeVersions(b, rows); err != nil {
					t.Fatal(err)
				}
			}
		}
		for r := range deletions.LiveRanges(0, deletions.Live()) {
			if stable != nil {
				ids = stable.AppendRange(ids, r.Start, r.End)
			}
			for at := r.Start; at < r.End; at++ {
				address := f.GetId()<<32 | at
				addresses = append(addresses, address)
				if stable == nil {
					ids = append(ids, address)
				}
			}
		}
	}
	return ids, addresses
}

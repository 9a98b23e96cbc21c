package flightsvc

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table"
)

func ptr[T any](v T) *T { return &v }

func TestParseTicket(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		json string
		want Ticket
	}{
		{`{"table":"t"}`, Ticket{Name: catalog.Name{Table: "t"}}},
		{`{"table":"t","catalog":"c"}`, Ticket{Name: catalog.Name{Catalog: "c", Table: "t"}}},
		{
			` {"table":"t","schema":"s","catalog":"c","columns":["id","s.img","_rowid","_rowaddr"]}`[1:],
			Ticket{Name: catalog.Name{Catalog: "c", Schema: "s", Table: "t"}, Columns: []string{"id", "s.img", "_rowid", "_rowaddr"}},
		},
		{
			`{"table":"t","version":3,"branch":"b","blobs":"descriptor","limit":0,"offset":7}`,
			Ticket{
				Name: catalog.Name{Table: "t"}, Ref: table.Ref{Version: 3, Branch: "b"},
				Blobs: "descriptor", Limit: ptr(uint64(0)), Offset: 7,
			},
		},
		{`{"table":"t","tag":"x","rows":[5,3,3]}`, Ticket{Name: catalog.Name{Table: "t"}, Ref: table.Ref{Tag: "x"}, Rows: []uint64{5, 3, 3}}},
		{`{"table":"t","rows":[]}`, Ticket{Name: catalog.Name{Table: "t"}, Rows: []uint64{}}},
		{
			`{"table":"t","timestamp":"2026-01-31T12:00:00+02:00","batch_bytes":8388608,"max_message_bytes":0}`,
			Ticket{
				Name: catalog.Name{Table: "t"}, BatchBytes: 8388608,
				Ref: table.Ref{Timestamp: time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC)},
			},
		},
		{
			`{"table":"t","timestamp":"2026-01-31"}`,
			Ticket{Name: catalog.Name{Table: "t"}, Ref: table.Ref{Timestamp: time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)}},
		},
		{
			`{"table":"t","column":"s.img","ranges":[[1,2,3],[18446744073709551615,0,0]]}`,
			Ticket{Name: catalog.Name{Table: "t"}, Column: "s.img", Ranges: []Range{{1, 2, 3}, {1<<64 - 1, 0, 0}}},
		},
	} {
		got, err := ParseTicket([]byte(tc.json))
		if err != nil {
			t.Errorf("%s: %v", tc.json, err)
			continue
		}
		if diff := cmp.Diff(&tc.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tc.json, diff)
		}
		minted, err := got.Append(nil)
		if err != nil {
			t.Errorf("%s: mint: %v", tc.json, err)
			continue
		}
		if minted[0] != 0 {
			t.Errorf("%s: minted ticket starts with %#x", tc.json, minted[0])
		}
		again, err := ParseTicket(minted)
		if err != nil {
			t.Errorf("%s: read the minted ticket: %v", tc.json, err)
			continue
		}
		if !again.Minted {
			t.Errorf("%s: the minted ticket does not say so", tc.json)
		}
		again.Minted = false
		if diff := cmp.Diff(got, again, cmpopts.EquateEmpty()); diff != "" || (got.Rows == nil) != (again.Rows == nil) {
			t.Errorf("%s: minted and read (-want +got)\n%s", tc.json, diff)
		}
	}
}

// Every refusal names the key.
func TestParseTicketRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ json, names string }{
		{``, "give one from GetFlightInfo"},
		{`[1]`, "give one from GetFlightInfo"},
		{"\x00", "not one of this server's tickets"},
		{"\x00\x02{}", "not one of this server's tickets"},
		{"\x00\x01", "not a JSON object"},
		{`{`, "not a JSON object"},
		{`{"table":"t"} x`, "not a JSON object"},
		{`{"table":"t"}{}`, "something follows"},
		{`{"table":"t","table":"u"}`, `"table" is given twice`},
		{"{\"table\":\"\xff\"}", "UTF-8"},
		{`{}`, "table is missing"},
		{`{"table":""}`, "table is empty"},
		{`{"table":7}`, "table is 7, it must be a string"},
		{`{"table":null}`, "table is null"},
		{`{"table":"t","tabel":"u"}`, `unknown key "tabel"`},
		{`{"table":7,"tabel":"u"}`, `unknown key "tabel"`},
		{`{"table":"t","profile":"bi"}`, `unknown key "profile"`},
		{`{"table":"t","columns":"a"}`, "columns is \"a\""},
		{`{"table":"t","columns":[]}`, "columns is an empty list"},
		{`{"table":"t","columns":["a",null]}`, "columns holds an empty name"},
		{`{"table":"t","blobs":"raw"}`, `blobs is "raw"`},
		{`{"table":"t","version":0}`, "version is 0"},
		{`{"table":"t","version":-1}`, "version is -1"},
		{`{"table":"t","version":1.5}`, "version is 1.5"},
		{`{"table":"t","version":18446744073709551616}`, "version is 18446744073709551616"},
		{`{"table":"t","version":"1"}`, `version is "1"`},
		{`{"table":"t","version":1,"tag":"x"}`, "tag and version"},
		{`{"table":"t","tag":"x","branch":"b"}`, "tag and branch"},
		{`{"table":"t","tag":"x","timestamp":"2026-01-31"}`, "tag and timestamp"},
		{`{"table":"t","version":1,"timestamp":"2026-01-31"}`, "timestamp and version"},
		{`{"table":"t","branch":"b","timestamp":"2026-01-31"}`, "timestamp and branch"},
		{`{"table":"t","timestamp":"yesterday"}`, `timestamp "yesterday"`},
		{`{"table":"t","limit":"5"}`, `limit is "5"`},
		{`{"table":"t","rows":[1],"limit":5}`, "rows and limit"},
		{`{"table":"t","rows":[1],"offset":5}`, "rows and offset"},
		{`{"table":"t","rows":[-1]}`, "rows is [-1]"},
		{`{"table":"t","rows":[null]}`, "rows holds null"},
		{`{"table":"t","column":"img"}`, "column is given without ranges"},
		{`{"table":"t","ranges":[]}`, "ranges is given without column"},
		{`{"table":"t","column":"img","ranges":[[1,2]]}`, "ranges, entry 0"},
		{`{"table":"t","column":"img","ranges":[[1,2,null]]}`, "ranges, entry 0"},
		{`{"table":"t","column":"img","ranges":[[1,2,3]],"rows":[1]}`, "ranges and rows"},
		{`{"table":"t","column":"img","ranges":[[1,2,3]],"blobs":"bytes"}`, "ranges and blobs"},
		{`{"table":"t","column":"img","ranges":[[1,2,3]],"columns":["a"]}`, "ranges and columns"},
		{`{"table":"t","batch_bytes":-5}`, "batch_bytes is -5"},
	} {
		_, err := ParseTicket([]byte(tc.json))
		if err == nil {
			t.Errorf("%s: taken", tc.json)
			continue
		}
		if kind := fault.KindOf(err); kind != fault.Invalid {
			t.Errorf("%s: %v error: %v", tc.json, kind, err)
		}
		if !strings.Contains(err.Error(), tc.names) {
			t.Errorf("%s: %v; want it to say %q", tc.json, err, tc.names)
		}
	}
	if _, err := ParseTicket([]byte(`{"table":"t","filter":"id > 3","rows":[1]}`)); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "filter") {
		t.Errorf("filter beside rows: %v", err)
	}
	if _, err := ParseTicket([]byte(`{"table":"` + strings.Repeat("x", maxTicketBytes) + `"}`)); fault.KindOf(err) != fault.Invalid {
		t.Errorf("oversized ticket: %v", err)
	}
}

func TestMintedTicketIsBounded(t *testing.T) {
	t.Parallel()
	big := &Ticket{Name: catalog.Name{Table: "t"}, Rows: make([]uint64, maxMintedBytes/2+1)}
	if _, err := big.Append(nil); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "DoGet ticket") {
		t.Errorf("a ticket of %d rows: %v", len(big.Rows), err)
	}
}

func FuzzParseTicket(f *testing.F) {
	for _, seed := range []string{
		`{"table":"t"}`, "\x00\x01{\"table\":\"t\",\"version\":3,\"profile\":\"bi\"}", `{"table":"t","rows":[1,2]}`,
		`{"table":"t","column":"img","ranges":[[1,2,3]]}`, `{"table":"t","timestamp":"2026-01-31T12:00:00Z","blobs":"logical"}`,
		`{"table":"\u0000","columns":["a.b"],"limit":1,"offset":18446744073709551615}`, "\x00", "{", `{"table":{}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ParseTicket(b)
		if err != nil {
			if k := fault.KindOf(err); k != fault.Invalid && k != fault.Unsupported {
				t.Fatalf("%v error: %v", k, err)
			}
			return
		}
		minted, err := got.Append(nil)
		if err != nil {
			if len(b) > maxMintedBytes/2 {
				return
			}
			t.Fatal(err)
		}
		again, err := ParseTicket(minted)
		if err != nil {
			t.Fatalf("minted %q: %v", minted, err)
		}
		got.Minted = true
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", again) && cmp.Diff(got, again) != "" {
			t.Fatalf("minted and read: %s", cmp.Diff(got, again))
		}
	})
}

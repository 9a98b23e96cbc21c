package main

import (
	"database/sql"
	"strings"
	"testing"

	// The driver named flightsql.
	_ "github.com/apache/arrow-go/v18/arrow/flight/flightsql/driver"
)

// Go's database/sql: what docs/clients.md says of it. Its driver knows binary,
// not large_binary, so that bytes travel as text.
func TestDatabaseSQL(t *testing.T) {
	t.Parallel()
	server := start(t, t.TempDir(), nil, "serve", "--root", fixture(t, "kinds_basic_v22"), "--listen", "127.0.0.1:0")
	db, err := sql.Open("flightsql", strings.Replace(server.uri, "grpc://", "flightsql://", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()

	var id int64
	var text string
	row := db.QueryRow(`SELECT id, base64(blob_bytes(img)) FROM "table" WHERE id > ? ORDER BY id LIMIT 1`, int64(4))
	if err := row.Scan(&id, &text); err != nil {
		t.Fatal(err)
	}
	if id != 5 || len(text) != 400 {
		t.Errorf("row %d with %d characters, want 5 with 400", id, len(text))
	}
	rows, err := db.Query(`SELECT img FROM "table"`)
	if err == nil {
		for rows.Next() {
			var b []byte
			if err = rows.Scan(&b); err != nil {
				break
			}
		}
		if err == nil {
			err = rows.Err()
		}
		_ = rows.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "LargeBinary") {
		t.Errorf("the driver takes large_binary now (%v): tell the readers of docs/clients.md", err)
	}
	if err := db.QueryRow(`SELECT absent FROM "table"`).Scan(&id); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("error %v", err)
	}
}

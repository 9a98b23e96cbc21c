package cloud_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// rangeServer serves one body at every path, ranges included, and records.
func rangeServer(t *testing.T, body string) (*recorder, string) {
	t.Helper()
	rec := &recorder{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec.mu.Lock()
		rec.requests = append(rec.requests, r)
		rec.mu.Unlock()
		from, to := 0, len(body)-1
		ranged := r.Header.Get("x-ms-range")
		if ranged == "" {
			ranged = r.Header.Get("Range")
		}
		if ranged != "" {
			first, last, _ := strings.Cut(strings.TrimPrefix(ranged, "bytes="), "-")
			from, _ = strconv.Atoi(first)
			if n, err := strconv.Atoi(last); err == nil {
				to = min(n, to)
			}
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, len(body)))
		}
		w.Header().Set("Last-Modified", time.Unix(1e9, 0).UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Length", strconv.Itoa(to+1-from))
		w.Header().Set("ETag", `"e"`)
		w.Header().Set("x-goog-generation", "1")
		if ranged != "" {
			w.WriteHeader(http.StatusPartialContent)
		}
		_, _ = w.Write([]byte(body[from : to+1]))
	}))
	t.Cleanup(server.Close)
	return rec, server.URL
}

func TestGS(t *testing.T) {
	t.Parallel()
	rec, endpoint := rangeServer(t, "0123456789")
	c := storage(t, "[\"gs://b\"]\nendpoint=\"%s\"\nanonymous=true", endpoint)
	loc, err := registry(t, objstore.Options{Storage: c}).Locate(t.Context(), "gs://b/k/a%20b")
	if err != nil {
		t.Fatal(err)
	}
	if rec.count() != 0 {
		t.Error("opening asked the service")
	}
	p := make([]byte, 3)
	if err := loc.ReadAt(t.Context(), p, 4); err != nil || string(p) != "456" {
		t.Errorf("read %q, %v", p, err)
	}
	if last := rec.last(); last == nil || !strings.HasSuffix(last.URL.Path, "/b/k/a b") || last.Header.Get("Authorization") != "" {
		t.Errorf("asked for %+v", last)
	}
	if loc.String() != "gs://b/k/a%20b" {
		t.Errorf("prints as %s", loc)
	}
}

func TestGSCredentials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, test := range map[string]struct {
		text string
		kind fault.Kind
	}{
		"absent":      {"", fault.Precondition},
		"no JSON":     {`{"private_key": hunter2`, fault.Invalid},
		"no key type": {`{"private_key": "hunter2"}`, fault.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
			if test.text != "" {
				if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c := storage(t, "[\"gs://b\"]\ncredentials_file=\"%s\"", file)
			_, err := registry(t, objstore.Options{Storage: c}).Locate(t.Context(), "gs://b/x")
			if fault.KindOf(err) != test.kind || !strings.Contains(fmt.Sprint(err), file) {
				t.Errorf("%v, want %s naming the file", err, test.kind)
			}
			checkNoSecret(t, err, "hunter2")
		})
	}
}

func TestAZ(t *testing.T) {
	t.Parallel()
	secret := base64.StdEncoding.EncodeToString([]byte("hunter2"))
	for _, test := range []struct{ name, options, auth, query string }{
		{"shared key", `account="acct"` + "\nkey=\"" + secret + `"`, "SharedKey acct:", ""},
		{"sas", `account="acct"` + "\nsas=\"?sv=2024-01-01&sig=aHVudGVy%3D\"", "", "sig=aHVudGVy%3D"},
		{"anonymous", "anonymous=true", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			rec, endpoint := rangeServer(t, "0123456789")
			c := storage(t, "[\"az://b\"]\nendpoint=\"%s/acct\"\n%s", endpoint, test.options)
			r := registry(t, objstore.Options{Storage: c})
			loc, err := r.Locate(t.Context(), "az://b/k/a%20b")
			if err != nil {
				t.Fatal(err)
			}
			if rec.count() != 0 {
				t.Error("opening asked the service")
			}
			p := make([]byte, 3)
			if err := loc.ReadAt(t.Context(), p, 4); err != nil || string(p) != "456" {
				t.Errorf("read %q, %v", p, err)
			}
			last := rec.last()
			if last == nil || last.URL.Path != "/acct/b/k/a b" {
				t.Fatalf("asked for %+v", last)
			}
			auth := last.Header.Get("Authorization")
			if test.auth == "" && auth != "" || !strings.HasPrefix(auth, test.auth) || !strings.Contains(last.URL.RawQuery, test.query) {
				t.Errorf("signed with %q, query %q", auth, last.URL.RawQuery)
			}
			for _, name := range []string{"a%25b", "a%23b", "a%3Fb", "a%22b", "a%5Cb"} {
				loc, err := r.Locate(t.Context(), "az://b/"+name)
				if err != nil {
					t.Fatal(err)
				}
				before := rec.count()
				if _, err := loc.Size(t.Context()); fault.KindOf(err) != fault.Unsupported || rec.count() != before {
					t.Errorf("%s: %v, want unsupported without a request", loc, err)
				}
			}
		})
	}
}

func TestAZErrorsHideTheSignature(t *testing.T) {
	t.Parallel()
	service := &recorder{status: http.StatusForbidden, body: "<Error><Code>AuthenticationFailed</Code><Message>sig=aHVudGVy</Message></Error>"}
	server := httptest.NewServer(service)
	defer server.Close()
	c := storage(t, "[\"az://b\"]\nendpoint=\"%s\"\nsas=\"sv=2024-01-01&se=2030&sig=aHVudGVy%%3D\"", server.URL)
	loc, err := registry(t, objstore.Options{Storage: c}).Locate(t.Context(), "az://b/x")
	if err != nil {
		t.Fatal(err)
	}
	err = loc.ReadAt(t.Context(), make([]byte, 1), 0)
	if err == nil {
		t.Fatal("a refused read succeeded")
	}
	checkNoSecret(t, err, "aHVudGVy", "se=2030", "sig=aH")
	for name, err := range refusedWrites(t, loc) {
		if fault.KindOf(err) != fault.Denied {
			t.Errorf("a refused %s: %v, want denied", name, err)
		}
		checkNoSecret(t, err, "aHVudGVy", "se=2030", "sig=aH")
	}
}

func TestAZAccount(t *testing.T) {
	for _, name := range []string{"AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN"} {
		t.Setenv(name, "")
	}
	r := registry(t, objstore.Options{})
	if _, err := r.Locate(t.Context(), "az://b/x"); fault.KindOf(err) != fault.Precondition || !strings.Contains(fmt.Sprint(err), "account") {
		t.Errorf("%v, want a precondition naming the account", err)
	}
	t.Setenv("AZURE_STORAGE_ACCOUNT", "evil.example/")
	if _, err := r.Locate(t.Context(), "az://b/x"); fault.KindOf(err) != fault.Invalid {
		t.Errorf("%v, want invalid", err)
	}
	t.Setenv("AZURE_STORAGE_ACCOUNT", "acct")
	t.Setenv("AZURE_STORAGE_KEY", "no base64!")
	_, err := r.Locate(t.Context(), "az://b/x")
	if fault.KindOf(err) != fault.Invalid {
		t.Errorf("%v, want invalid", err)
	}
	checkNoSecret(t, err, "no base64!")
	t.Setenv("AZURE_STORAGE_KEY", base64.StdEncoding.EncodeToString([]byte("k")))
	if loc, err := r.Locate(t.Context(), "az://b/x"); err != nil || loc.String() != "az://b/x" {
		t.Errorf("%v, %v", loc, err)
	}
}

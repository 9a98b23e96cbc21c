package cloud_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/objstore/cloud"
	"github.com/flightblob/flightblob/objstore/storetest"
)

func storage(t *testing.T, text string, args ...any) *objstore.StorageConfig {
	t.Helper()
	c, err := objstore.ParseStorage("storage.toml", fmt.Appendf(nil, text, args...), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func registry(t *testing.T, o objstore.Options) *objstore.Registry {
	t.Helper()
	o.Schemes = cloud.Schemes()
	r := objstore.NewRegistry(o)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

const s3Section = `
["s3://%[2]s"]
endpoint = "%[1]s"
region = "us-east-1"
access_key_id = "test-id"
secret_access_key = "test-secret"
`

func TestS3(t *testing.T) {
	t.Parallel()
	emulator := storetest.StartS3(t)
	emulator.Put(t, "suite", "", nil)
	counter := objstore.NewCounter(objstore.CounterOptions{})
	plain := registry(t, objstore.Options{Storage: storage(t, s3Section, emulator.Endpoint, "")})
	counted := registry(t, objstore.Options{Storage: storage(t, s3Section, emulator.Endpoint, "suite"), Counter: counter})
	t.Run("plain", func(t *testing.T) { storetest.Run(t, emulator.Seed(plain, "suite")) })
	t.Run("counted and guarded", func(t *testing.T) {
		seed := emulator.Seed(counted, "suite")
		storetest.Run(t, func(t *testing.T, objects map[string][]byte) objstore.Location {
			return objstore.Guard(seed(t, objects), objstore.NewAccess("s3://suite/"))
		})
		if counter.Total().Bytes == 0 {
			t.Error("nothing was counted")
		}
	})
	t.Run("absent bucket", func(t *testing.T) {
		loc, err := plain.Locate(t.Context(), "s3://nobody-made-this/x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := loc.Size(t.Context()); fault.KindOf(err) != fault.NotFound {
			t.Errorf("size: %v, want not found", err)
		}
		for _, err := range loc.List(t.Context()) {
			if fault.KindOf(err) != fault.NotFound {
				t.Errorf("list: %v, want not found", err)
			}
		}
	})
	t.Run("many pages", func(t *testing.T) {
		for i := range 1005 {
			emulator.Put(t, "suite", fmt.Sprintf("pages/%04d", i), []byte{1})
		}
		loc, err := plain.Locate(t.Context(), "s3://suite/pages")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for e, err := range loc.List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("%04d", n); e.Name != want {
				t.Fatalf("entry %d is %q, want %q", n, e.Name, want)
			}
			n++
		}
		if n != 1005 {
			t.Errorf("%d entries, want 1005", n)
		}
	})
}

// recorder answers every request with one status and keeps what was asked.
type recorder struct {
	mu       sync.Mutex
	requests []*http.Request
	status   int
	body     string
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, req)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(r.status)
	_, _ = w.Write([]byte(r.body))
}

func (r *recorder) last() *http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.requests) == 0 {
		return nil
	}
	return r.requests[len(r.requests)-1]
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.requests)
}

func TestS3Options(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, options string
		signed        string
		secrets       []string
	}{
		{"keys", "access_key_id=\"AKIDEXAMPLE\"\nsecret_access_key=\"c2VjcmV0\"\nregion=\"eu-north-1\"", "Credential=AKIDEXAMPLE/", []string{"AKIDEXAMPLE", "c2VjcmV0"}},
		{"session", "access_key_id=\"AKIDEXAMPLE\"\nsecret_access_key=\"c2VjcmV0\"\nsession_token=\"dG9rZW4\"", "x-amz-security-token", []string{"AKIDEXAMPLE", "c2VjcmV0", "dG9rZW4"}},
		{"anonymous", "anonymous=true", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			// The message repeats everything secret, as real services do.
			service := &recorder{status: http.StatusForbidden, body: `<Error><Code>SignatureDoesNotMatch</Code>
<Message>key AKIDEXAMPLE secret c2VjcmV0 token dG9rZW4 https://h/b?X-Amz-Signature=abcdef&amp;X-Amz-Credential=cred Signature=abcdef</Message></Error>`}
			server := httptest.NewServer(service)
			defer server.Close()
			c := storage(t, "[\"s3://b\"]\nendpoint=\"%s\"\n%s", server.URL, test.options)
			loc, err := registry(t, objstore.Options{Storage: c}).Locate(t.Context(), "s3://b/k/x")
			if err != nil {
				t.Fatal(err)
			}
			if service.count() != 0 {
				t.Error("opening asked the service")
			}
			err = loc.ReadAt(t.Context(), make([]byte, 5), 7)
			if fault.KindOf(err) != fault.Denied {
				t.Fatalf("a refused read: %v, want denied", err)
			}
			checkNoSecret(t, err, append(test.secrets, "abcdef", "=cred")...)
			for name, err := range refusedWrites(t, loc) {
				if fault.KindOf(err) != fault.Denied {
					t.Errorf("a refused %s: %v, want denied", name, err)
				}
				checkNoSecret(t, err, append(test.secrets, "abcdef", "=cred")...)
			}
			service.mu.Lock()
			first := service.requests[0]
			service.mu.Unlock()
			if first.URL.Path != "/b/k/x" || first.Header.Get("Range") != "bytes=7-11" {
				t.Errorf("asked for %s, %s", first.URL.Path, first.Header.Get("Range"))
			}
			auth := first.Header.Get("Authorization")
			if test.signed == "" && auth != "" || !strings.Contains(auth, test.signed) {
				t.Errorf("authorization %q, want one with %q", auth, test.signed)
			}
			if test.name == "keys" && !strings.Contains(auth, "/eu-north-1/s3/") {
				t.Errorf("authorization %q is for another region", auth)
			}
		})
	}
}

func TestS3PathStyle(t *testing.T) {
	t.Parallel()
	service := &recorder{status: http.StatusNotFound}
	server := httptest.NewServer(service)
	defer server.Close()
	// A bucket host name below localhost resolves to the loopback.
	endpoint := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	c := storage(t, "[\"s3://bkt\"]\nendpoint=\"%s\"\npath_style=false\nanonymous=true", endpoint)
	loc, err := registry(t, objstore.Options{Storage: c}).Locate(t.Context(), "s3://bkt/k/x")
	if err != nil {
		t.Fatal(err)
	}
	_, err = loc.Size(t.Context())
	if last := service.last(); last == nil {
		// No resolver for names below localhost: the failure names the host.
		if err == nil || !strings.Contains(err.Error(), "bkt.localhost") {
			t.Errorf("size: %v, want an attempt to reach bkt.localhost", err)
		}
	} else if last.URL.Path != "/k/x" || !strings.HasPrefix(last.Host, "bkt.localhost") {
		t.Errorf("asked %s for %s", last.Host, last.URL.Path)
	}
}

// refusedWrites tries all kinds of writes.
func refusedWrites(t *testing.T, at objstore.Location) map[string]error {
	t.Helper()
	w, err := at.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	p := make([]byte, 9<<20) // more than one part
	_, err = w.Write(p)
	if err == nil {
		_, err = w.Write(p)
	}
	if err == nil {
		err = w.Commit(t.Context())
	}
	return map[string]error{
		"stream": err, "put": at.Put(t.Context(), p[:9]), "put if absent": at.PutIfAbsent(t.Context(), p[:9]),
		"deletion": at.Delete(t.Context()), "copy": objstore.Copy(t.Context(), at.Join("from"), at),
	}
}

func checkNoSecret(t *testing.T, err error, secrets ...string) {
	t.Helper()
	for e := err; e != nil; {
		for _, s := range secrets {
			for _, text := range []string{e.Error(), fmt.Sprintf("%v", e), fmt.Sprintf("%+v", e), fmt.Sprintf("%#v", e)} {
				if strings.Contains(text, s) {
					t.Errorf("the error shows %q: %s", s, text)
				}
			}
		}
		u, ok := e.(interface{ Unwrap() error })
		if !ok {
			return
		}
		e = u.Unwrap()
	}
}

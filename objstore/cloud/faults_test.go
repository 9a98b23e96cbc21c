package cloud_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/objstore/storetest"
)

// service is one kind of bucket behind answers that can be lost.
type service struct {
	*storetest.Service
	at objstore.Location
}

// TestFaults breaks each kind of bucket in all ways, one after the other.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) service{
		"s3": func(t *testing.T) service {
			emulator := storetest.StartS3(t)
			emulator.Put(t, "bkt", "", nil)
			s := emulator.Flaky(t)
			return service{s, locate(t, storage(t, s3Section, s.Endpoint, "bkt"), "s3://bkt/d")}
		},
		"gs": func(t *testing.T) service {
			s := storetest.StartGCS(t)
			return service{s, locate(t, storage(t, "[\"gs://b\"]\nendpoint=\"%s\"\nanonymous=true", s.Endpoint), "gs://b/d")}
		},
		"az": func(t *testing.T) service {
			s := storetest.StartAzure(t)
			return service{s, locate(t, storage(t, "[\"az://b\"]\nendpoint=\"%s\"\nanonymous=true", s.Endpoint), "az://b/d")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			t.Run("conditional puts", func(t *testing.T) { testAmbiguousPuts(t, s) })
			t.Run("cancelled puts", func(t *testing.T) { testCancelledPuts(t, s) })
			t.Run("deletions", func(t *testing.T) { testRepeatedDeletes(t, s) })
			t.Run("large uploads", func(t *testing.T) { testLargeUploads(t, s) })
		})
	}
}

func locate(t *testing.T, c *objstore.StorageConfig, uri string) objstore.Location {
	t.Helper()
	loc, err := registry(t, objstore.Options{Storage: c}).Locate(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func isPut(r *http.Request) bool { return r.Method == http.MethodPut || r.Method == http.MethodPost }

// plan answers requests; see storetest.Service.
type plan = func(r *http.Request) storetest.Answer

// first gives one answer to the first n puts and passes the rest.
func first(n int64, a storetest.Answer) plan {
	var count atomic.Int64
	return func(r *http.Request) storetest.Answer {
		if isPut(r) && count.Add(1) <= n {
			return a
		}
		return storetest.Answer{}
	}
}

// then answers puts that the plan passes.
func then(plan plan, a storetest.Answer) plan {
	return func(r *http.Request) storetest.Answer {
		if planned := plan(r); planned != (storetest.Answer{}) || !isPut(r) {
			return planned
		}
		return a
	}
}

// testAmbiguousPuts loses, delays and repeats answers to conditional puts.
func testAmbiguousPuts(t *testing.T, s service) {
	t.Helper()
	tests := []struct {
		name      string
		plan      func() plan
		rival     string // what is there before
		kind      fault.Kind
		uncertain bool
		fails     bool
		want      string // what is there afterwards; "" is absent
		puts      int    // requests made
	}{
		{name: "nobody answers twice", plan: func() plan { return first(2, storetest.Answer{Drop: true}) }, want: "mine", puts: 3},
		{name: "the answer to a success is lost", plan: func() plan { return first(1, storetest.Answer{Drop: true, Handle: true}) }, want: "mine", puts: 2},
		{name: "a success is reported as 500", plan: func() plan { return first(1, storetest.Answer{Status: 500, Code: "InternalError", Handle: true}) }, want: "mine", puts: 2},
		{name: "too many requests", plan: func() plan { return first(2, storetest.Answer{Status: 429, Code: "SlowDown"}) }, want: "mine", puts: 3},
		{name: "unavailable for a while", plan: func() plan { return first(2, storetest.Answer{Status: 503, Code: "SlowDown"}) }, want: "mine", puts: 3},
		{name: "a rival's put is under way", plan: func() plan { return first(2, storetest.Answer{Status: 409, Code: "ConditionalRequestConflict"}) }, want: "mine", puts: 3},
		{name: "the object is there", rival: "rival", kind: fault.Exists, fails: true, want: "rival", puts: 1},
		{name: "equal bytes are there", rival: "mine", kind: fault.Exists, fails: true, want: "mine", puts: 1},
		{name: "no answer, and a rival of the same length", plan: func() plan { return first(1, storetest.Answer{Drop: true}) }, rival: "fine", kind: fault.Exists, fails: true, want: "fine", puts: 2},
		{name: "no answer, and a rival of another length", plan: func() plan { return first(1, storetest.Answer{Drop: true}) }, rival: "a rival's", kind: fault.Exists, fails: true, want: "a rival's", puts: 2},
		{name: "never an answer", plan: func() plan { return first(100, storetest.Answer{Drop: true}) }, kind: fault.Unavailable, uncertain: true, fails: true, puts: 5},
		{name: "never an answer to a success", plan: func() plan { return first(100, storetest.Answer{Drop: true, Handle: true}) }, want: "mine", puts: 5},
		{name: "always 503", plan: func() plan { return first(100, storetest.Answer{Status: 503, Code: "SlowDown"}) }, kind: fault.Unavailable, uncertain: true, fails: true, puts: 5},
		{name: "always 429", plan: func() plan { return first(100, storetest.Answer{Status: 429, Code: "SlowDown"}) }, kind: fault.Exhausted, fails: true, puts: 5},
		{name: "forbidden", plan: func() plan { return first(100, storetest.Answer{Status: 403, Code: "AccessDenied"}) }, kind: fault.Denied, fails: true, puts: 1},
		{name: "unauthorized", plan: func() plan { return first(100, storetest.Answer{Status: 401, Code: "AuthenticationFailed"}) }, kind: fault.Denied, fails: true, puts: 1},
		{name: "no such bucket", plan: func() plan { return first(100, storetest.Answer{Status: 404, Code: "NoSuchBucket"}) }, kind: fault.NotFound, fails: true, puts: 1},
		{name: "bad request", plan: func() plan { return first(100, storetest.Answer{Status: 400, Code: "InvalidArgument"}) }, kind: fault.Invalid, fails: true, puts: 1},
		{name: "lost, then forbidden", plan: func() plan {
			return then(first(1, storetest.Answer{Drop: true}), storetest.Answer{Status: 403, Code: "AccessDenied"})
		}, kind: fault.Unavailable, uncertain: true, fails: true, puts: 2},
		{name: "nothing can be read back", plan: func() plan {
			return func(r *http.Request) storetest.Answer {
				if isPut(r) {
					return storetest.Answer{Drop: true, Handle: true}
				}
				return storetest.Answer{Status: 403, Code: "AccessDenied"}
			}
		}, kind: fault.Unavailable, uncertain: true, fails: true, want: "mine", puts: 5},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			at := s.at.Join(fmt.Sprint(i))
			s.Plan(nil)
			if test.rival != "" {
				if err := at.Put(t.Context(), []byte(test.rival)); err != nil {
					t.Fatal(err)
				}
			}
			s.Plan(nil)
			if test.plan != nil {
				s.Plan(test.plan())
			}
			err := at.PutIfAbsent(t.Context(), []byte("mine"))
			puts := s.Writes()
			s.Plan(nil)
			switch {
			case !test.fails && err != nil:
				t.Errorf("put: %v", err)
			case test.fails && (err == nil || fault.KindOf(err) != test.kind || errors.Is(err, objstore.ErrUncertain) != test.uncertain):
				t.Errorf("put: %v; want %s, uncertain %v", err, test.kind, test.uncertain)
			}
			if err != nil && !strings.Contains(err.Error(), at.String()) {
				t.Errorf("the error does not name the object: %v", err)
			}
			if len(puts) != test.puts {
				t.Errorf("%d puts, want %d: %q", len(puts), test.puts, puts)
			}
			wantBytes(t, at, test.want)
		})
	}
}

func wantBytes(t *testing.T, at objstore.Location, want string) {
	t.Helper()
	got, err := objstore.ReadAll(t.Context(), at, 1<<30)
	switch {
	case want == "" && fault.KindOf(err) != fault.NotFound:
		t.Errorf("%s: %v, want not found", at, err)
	case want != "" && (err != nil || string(got) != want):
		t.Errorf("%s holds %d bytes %.20q, %v; want %d bytes %.20q", at, len(got), got, err, len(want), want)
	}
}

func TestPutsWithoutConnection(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	endpoint := "http://" + listener.Addr().String()
	listener.Close()
	for uri, c := range map[string]*objstore.StorageConfig{
		"s3://b/x": storage(t, s3Section, endpoint, "b"),
		"gs://b/x": storage(t, "[\"gs://b\"]\nendpoint=\"%s\"\nanonymous=true", endpoint),
		"az://b/x": storage(t, "[\"az://b\"]\nendpoint=\"%s\"\nanonymous=true", endpoint),
	} {
		t.Run(uri[:2], func(t *testing.T) {
			t.Parallel()
			at := locate(t, c, uri)
			for name, err := range map[string]error{"put if absent": at.PutIfAbsent(t.Context(), nil), "put": at.Put(t.Context(), nil)} {
				if fault.KindOf(err) != fault.Unavailable || errors.Is(err, objstore.ErrUncertain) {
					t.Errorf("%s: %v, want unavailable: nothing was sent", name, err)
				}
			}
		})
	}
}

// testCancelledPuts cancels while the answer is awaited.
func testCancelledPuts(t *testing.T, s service) {
	t.Helper()
	for name, put := range map[string]func(ctx context.Context, at objstore.Location) error{
		"put":           func(ctx context.Context, at objstore.Location) error { return at.Put(ctx, []byte("x")) },
		"put if absent": func(ctx context.Context, at objstore.Location) error { return at.PutIfAbsent(ctx, []byte("x")) },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		s.Plan(func(r *http.Request) storetest.Answer {
			if isPut(r) {
				cancel()
				time.Sleep(50 * time.Millisecond)
			}
			return storetest.Answer{}
		})
		err := put(ctx, s.at.Join(name))
		cancel()
		if !errors.Is(err, context.Canceled) || !errors.Is(err, objstore.ErrUncertain) {
			t.Errorf("%s: %v, want cancelled and uncertain", name, err)
		}
	}
}

func testRepeatedDeletes(t *testing.T, s service) {
	t.Helper()
	for name, a := range map[string]storetest.Answer{
		"lost": {Drop: true}, "answer lost": {Drop: true, Handle: true}, "503": {Status: 503, Code: "SlowDown"},
	} {
		s.Plan(nil)
		at := s.at.Join(name)
		if err := at.Put(t.Context(), []byte("x")); err != nil {
			t.Fatal(err)
		}
		var n atomic.Int64
		s.Plan(func(r *http.Request) storetest.Answer {
			if r.Method == http.MethodDelete && n.Add(1) == 1 {
				return a
			}
			return storetest.Answer{}
		})
		if err := at.Delete(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s.Plan(nil)
		wantBytes(t, at, "")
	}
	s.Plan(func(*http.Request) storetest.Answer { return storetest.Answer{Status: 403, Code: "AccessDenied"} })
	if err := s.at.Join("x").Delete(t.Context()); fault.KindOf(err) != fault.Denied {
		t.Errorf("forbidden: %v, want denied", err)
	}
}

// testLargeUploads breaks uploads in parts.
func testLargeUploads(t *testing.T, s service) {
	t.Helper()
	data := storetest.Bytes(20<<20+1, 1)
	upload := func(t *testing.T, at objstore.Location) error {
		w, err := at.Create(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		for rest := data; len(rest) > 0; {
			n := min(len(rest), 1<<20)
			if _, err := w.Write(rest[:n]); err != nil {
				return err
			}
			rest = rest[n:]
		}
		return w.Commit(t.Context())
	}
	t.Run("some answers are lost", func(t *testing.T) {
		var n atomic.Int64
		s.Plan(func(r *http.Request) storetest.Answer {
			if i := n.Add(1); isPut(r) && r.ContentLength > 1<<20 && i%2 == 0 && i < 6 {
				return storetest.Answer{Drop: true, Handle: true}
			}
			return storetest.Answer{}
		})
		at := s.at.Join("lossy")
		if err := upload(t, at); err != nil {
			t.Fatal(err)
		}
		wantBytes(t, at, string(data))
	})
	t.Run("parts are refused", func(t *testing.T) {
		s.Plan(func(r *http.Request) storetest.Answer {
			if isPut(r) && r.ContentLength > 1<<20 {
				return storetest.Answer{Status: 403, Code: "AccessDenied"}
			}
			return storetest.Answer{}
		})
		at := s.at.Join("refused")
		if err := upload(t, at); fault.KindOf(err) != fault.Denied || errors.Is(err, objstore.ErrUncertain) {
			t.Errorf("%v, want denied", err)
		}
		s.Plan(nil)
		wantBytes(t, at, "")
	})
	t.Run("the last answer is lost", func(t *testing.T) {
		var once sync.Once
		s.Plan(func(r *http.Request) (a storetest.Answer) {
			if q := r.URL.Query(); isPut(r) && (r.Method == http.MethodPost && q.Has("uploadId") || q.Get("comp") == "blocklist") {
				once.Do(func() { a = storetest.Answer{Drop: true, Handle: true} })
			}
			return a
		})
		at := s.at.Join("last")
		err := upload(t, at)
		s.Plan(nil)
		if err != nil && !errors.Is(err, objstore.ErrUncertain) {
			t.Errorf("%v; the object may be there", err)
		}
		wantBytes(t, at, string(data))
	})
	if s.at.Store.URI("") == "s3://bkt/" {
		t.Run("nothing is pending", func(t *testing.T) {
			for _, abort := range []bool{true, false} {
				ctx, cancel := context.WithCancel(t.Context())
				w, err := s.at.Join("given up").Create(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := w.Write(data); err != nil {
					t.Error(err)
				}
				if !abort {
					cancel() // the clean-up has a context of its own
				}
				w.Abort()
				cancel()
			}
			if got := pendingS3(t, s.Endpoint+"/bkt"); strings.Contains(got, "<UploadId>") {
				t.Errorf("uploads are pending: %s", got)
			}
		})
	}
}

func pendingS3(t *testing.T, bucket string) string {
	t.Helper()
	resp, err := http.Get(bucket + "?uploads")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("list of uploads: %s, %v", resp.Status, err)
	}
	return string(body)
}

// TestUploadMemory streams far more than it may keep. It runs alone.
func TestUploadMemory(t *testing.T) {
	const much, most = 512 << 20, 80 << 20
	s3 := storetest.StartS3(t)
	s3.Put(t, "bkt", "", nil)
	flaky, az := s3.Flaky(t), storetest.StartAzure(t)
	discard := func(r *http.Request) storetest.Answer {
		if isPut(r) && r.ContentLength > 1<<20 {
			return storetest.Answer{Status: 201, Code: "OK"}
		}
		return storetest.Answer{}
	}
	flaky.Plan(discard)
	az.Plan(discard)
	for name, at := range map[string]objstore.Location{
		"s3": locate(t, storage(t, s3Section, flaky.Endpoint, "bkt"), "s3://bkt/x"),
		"az": locate(t, storage(t, "[\"az://b\"]\nendpoint=\"%s\"\nanonymous=true", az.Endpoint), "az://b/x"),
	} {
		t.Run(name, func(t *testing.T) {
			runtime.GC()
			before := heapBytes()
			var peak uint64
			w, err := at.Create(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer w.Abort()
			p := storetest.Bytes(1<<20, 1)
			for n := 0; n < much; n += len(p) {
				if _, err := w.Write(p); err != nil {
					t.Fatal(err)
				}
				peak = max(peak, heapBytes())
			}
			if grown := peak - min(peak, before); grown > most {
				t.Errorf("the heap grew by %d MiB, more than %d", grown>>20, most>>20)
			}
		})
	}
}

func heapBytes() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

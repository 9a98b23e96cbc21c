package storetest

import (
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flightblob/flightblob/objstore"
)

// Service is an object service on the loopback whose answers a test can lose,
// replace or delay.
type Service struct {
	Endpoint string // base URL

	handler http.Handler
	objects *objects // nil for those that another process keeps

	mu       sync.Mutex
	plan     func(r *http.Request) Answer
	requests []string
}

// Answer says what becomes of a request.
type Answer struct {
	// Drop closes the connection instead of answering.
	Drop bool
	// Status, if set, answers instead of the service; Code goes with it.
	Status int
	Code   string
	// Handle lets the service carry out the request anyway, before the answer
	// above.
	Handle bool
}

// newService serves h for the time of the test.
func newService(t *testing.T, h http.Handler) *Service {
	t.Helper()
	s := &Service{handler: h}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.Endpoint = server.URL
	return s
}

// Plan decides about all requests from now on; nil passes them. Requests that
// were noted before are forgotten.
func (s *Service) Plan(plan func(r *http.Request) Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan, s.requests = plan, nil
}

// Requests lists the requests since the last Plan, as "PUT /bucket/key?query".
func (s *Service) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Writes is Requests without those that only read.
func (s *Service) Writes() []string {
	return slices.DeleteFunc(s.Requests(), func(r string) bool {
		return strings.HasPrefix(r, "GET ") || strings.HasPrefix(r, "HEAD ")
	})
}

// ServeHTTP implements http.Handler.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
	plan := s.plan
	s.mu.Unlock()
	var a Answer
	if plan != nil {
		a = plan(r)
	}
	if !a.Drop && a.Status == 0 {
		s.handler.ServeHTTP(w, r)
		return
	}
	if a.Handle {
		s.handler.ServeHTTP(httptest.NewRecorder(), r)
	} else {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	if a.Drop {
		panic(http.ErrAbortHandler)
	}
	if a.Status < 300 {
		w.WriteHeader(a.Status)
		return
	}
	w.Header().Set("x-ms-error-code", a.Code)
	if strings.Contains(r.URL.Path, "/storage/v1/") {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.Status)
		fmt.Fprintf(w, `{"error": {"code": %d, "message": %q}}`, a.Status, a.Code)
		return
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(a.Status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>planned</Message></Error>", a.Code)
}

// Flaky puts a Service before the emulator.
func (s *S3) Flaky(t *testing.T) *Service {
	t.Helper()
	to, err := url.Parse(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	return newService(t, proxy)
}

// Seed gives a Seed that puts objects straight into folders of a bucket and
// finds them through r. Only for services of this package.
func (s *Service) Seed(r *objstore.Registry, bucketURI string) Seed {
	return func(t *testing.T, objects map[string][]byte) objstore.Location {
		t.Helper()
		dir := fmt.Sprintf("seed-%d", s.objects.folders())
		for path, data := range objects {
			s.objects.put(dir+"/"+path, data, false)
		}
		loc, err := r.Locate(t.Context(), bucketURI+"/"+dir)
		if err != nil {
			t.Fatal(err)
		}
		return loc
	}
}

// Object gives the bytes of an object, past all plans.
func (s *Service) Object(path string) (data []byte, ok bool) {
	o, ok := s.objects.get(path)
	return o.data, ok
}

// SetObject stores an object, past all plans.
func (s *Service) SetObject(path string, data []byte) { s.objects.put(path, data, false) }

// Pending counts uploads that were begun and neither completed nor given up.
func (s *Service) Pending() int {
	s.objects.mu.Lock()
	defer s.objects.mu.Unlock()
	return len(s.objects.pending)
}

// objects is the one bucket of an emulated service.
type objects struct {
	mu      sync.Mutex
	byKey   map[string]object
	changes int64
	folder  int64
	pending map[string]map[string][]byte // upload → part → bytes
}

type object struct {
	data       []byte
	generation int64
	modified   time.Time
}

func newObjects() *objects {
	return &objects{byKey: make(map[string]object), pending: make(map[string]map[string][]byte)}
}

func (o *objects) folders() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.folder++
	return o.folder
}

func (o *objects) get(key string) (object, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	have, ok := o.byKey[key]
	return have, ok
}

// put stores an object; false when it is there and must not be.
func (o *objects) put(key string, data []byte, ifAbsent bool) (object, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if have, there := o.byKey[key]; there && ifAbsent {
		return have, false
	}
	o.changes++
	made := object{data: slices.Clone(data), generation: o.changes, modified: time.Now()}
	o.byKey[key] = made
	return made, true
}

func (o *objects) remove(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, there := o.byKey[key]
	delete(o.byKey, key)
	return there
}

// part keeps a part of an upload.
func (o *objects) part(upload, name string, data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pending[upload] == nil {
		o.pending[upload] = make(map[string][]byte)
	}
	o.pending[upload][name] = data
}

// joined joins parts of an upload.
func (o *objects) joined(upload string, names []string) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []byte
	for _, n := range names {
		all = append(all, o.pending[upload][n]...)
	}
	return all
}

// end forgets an upload.
func (o *objects) end(upload string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.pending, upload)
}

// list gives a page of the keys and folders below a prefix, and where the next
// page starts.
func (o *objects) list(prefix, delimiter, from string, most int) (keys, folders []string, next string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := make(map[string]bool)
	var names []string
	for key := range o.byKey {
		rest, ok := strings.CutPrefix(key, prefix)
		if !ok {
			continue
		}
		if i := strings.Index(rest, delimiter); delimiter != "" && i >= 0 {
			key = prefix + rest[:i+len(delimiter)]
		}
		if key >= from && !seen[key] {
			seen[key] = true
			names = append(names, key)
		}
	}
	slices.Sort(names)
	if most > 0 && len(names) > most {
		next, names = names[most], names[:most]
	}
	for _, n := range names {
		if delimiter != "" && strings.HasSuffix(n, delimiter) && n != prefix {
			folders = append(folders, n)
		} else {
			keys = append(keys, n)
		}
	}
	return keys, folders, next
}

// serve answers a read of the whole object or the range asked for.
func (have object) serve(w http.ResponseWriter, r *http.Request) {
	size := len(have.data)
	h := w.Header()
	h.Set("Last-Modified", have.modified.UTC().Format(http.TimeFormat))
	h.Set("ETag", fmt.Sprintf(`"%d"`, have.generation))
	h.Set("Content-Type", "application/octet-stream")
	first, last := 0, size-1
	asked := r.Header.Get("x-ms-range")
	if asked == "" {
		asked = r.Header.Get("Range")
	}
	if asked != "" {
		from, to, _ := strings.Cut(strings.TrimPrefix(asked, "bytes="), "-")
		first, _ = strconv.Atoi(from)
		if n, err := strconv.Atoi(to); err == nil {
			last = min(n, last)
		}
		if first >= size {
			h.Set("x-ms-error-code", "InvalidRange")
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, size))
	} else {
		h.Set("x-goog-hash", "crc32c="+base64Of(crc32.Checksum(have.data, castagnoli)))
	}
	h.Set("Content-Length", strconv.Itoa(last+1-first))
	if asked != "" {
		w.WriteHeader(http.StatusPartialContent)
	}
	if r.Method != http.MethodHead {
		_, _ = w.Write(have.data[first : last+1])
	}
}

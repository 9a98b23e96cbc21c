package storetest

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flightblob/flightblob/objstore"
)

// motoServer prints its address and ends when its standard input does, so that
// it never outlives the test process.
//
// The emulator looks whether an object is there and stores it in two steps, in
// a thread for each request: without the lock, two conditional puts could both
// win, which the service rules out. A listing must not see keys come and go.
const motoServer = `
import functools, logging, sys, threading
from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer

one_at_a_time = threading.Lock()

def locked(method):
    @functools.wraps(method)
    def call(*args, **kwargs):
        with one_at_a_time:
            return method(*args, **kwargs)
    return call

for name in ("put_object", "_key_response_post", "_key_response_delete", "_bucket_response_get"):
    setattr(S3Response, name, locked(getattr(S3Response, name)))
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
server.start()
print("address %s:%d" % server.get_host_and_port(), flush=True)
sys.stdin.read()
server.stop()
`

// Python finds the project's interpreter: FLIGHTBLOB_PYTHON, or .venv at the
// root of the repository. Without one, or without the module, the test is
// skipped; where CI or FLIGHTBLOB_REQUIRE_PYTHON is set, it fails.
func Python(t *testing.T, module string) string {
	t.Helper()
	python := os.Getenv("FLIGHTBLOB_PYTHON")
	if python == "" {
		python = filepath.Join(repositoryRoot(t), ".venv", "bin", "python")
	}
	missing := t.Skipf
	if os.Getenv("CI") != "" || os.Getenv("FLIGHTBLOB_REQUIRE_PYTHON") != "" {
		missing = t.Fatalf
	}
	if _, err := exec.LookPath(python); err != nil {
		missing("no Python at %s: run make, or set FLIGHTBLOB_PYTHON", python)
	}
	if out, err := exec.Command(python, "-c", "import "+module).CombinedOutput(); err != nil {
		missing("%s cannot import %s: %v\n%s", python, module, err, out)
	}
	return python
}

func repositoryRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the working directory")
		}
		dir = parent
	}
}

// S3 is an emulated S3 service on the loopback.
type S3 struct {
	Endpoint string // base URL

	folders atomic.Int64 // seeded so far
}

// StartS3 starts moto's S3 emulator for the time of the test; see Python for
// what happens without it.
func StartS3(t *testing.T) *S3 {
	t.Helper()
	cmd := exec.Command(Python(t, "moto.server"), "-c", motoServer)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		stop := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		defer stop.Stop()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if address, ok := strings.CutPrefix(lines.Text(), "address "); ok {
			return &S3{Endpoint: "http://" + address}
		}
	}
	t.Fatalf("the S3 emulator does not start: %v", lines.Err())
	return nil
}

// Put stores an object; an empty path makes the bucket.
func (s *S3) Put(t *testing.T, bucket, path string, data []byte) {
	t.Helper()
	url := s.Endpoint + "/" + bucket
	if path != "" {
		url += "/" + objstore.EscapePath(path)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	// The emulator wants a signature to be there, but does not check it.
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		t.Fatalf("put %s: %s", url, resp.Status)
	}
}

// Seed gives a Seed that puts objects into folders of a bucket, which must
// exist, and finds them through r.
func (s *S3) Seed(r *objstore.Registry, bucket string) Seed {
	return func(t *testing.T, objects map[string][]byte) objstore.Location {
		t.Helper()
		dir := fmt.Sprintf("seed-%d", s.folders.Add(1))
		for path, data := range objects {
			s.Put(t, bucket, dir+"/"+path, data)
		}
		loc, err := r.Locate(t.Context(), "s3://"+bucket+"/"+dir)
		if err != nil {
			t.Fatal(err)
		}
		return loc
	}
}

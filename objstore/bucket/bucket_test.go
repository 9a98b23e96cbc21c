package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/blob/memblob"
	"gocloud.dev/gcerrors"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/objstore/storetest"
)

func TestMemblob(t *testing.T) {
	t.Parallel()
	b := memblob.OpenBucket(nil)
	s := New(b, Options{Prefix: "s3://m/"})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	var folders atomic.Int64
	storetest.Run(t, func(t *testing.T, objects map[string][]byte) objstore.Location {
		t.Helper()
		dir := fmt.Sprintf("seed-%d", folders.Add(1))
		for path, data := range objects {
			if err := b.WriteAll(t.Context(), dir+"/"+path, data, nil); err != nil {
				t.Fatal(err)
			}
		}
		return objstore.Location{Store: s, Path: dir}
	})
	t.Run("marker objects are no children", func(t *testing.T) {
		for _, key := range []string{"marked/", "marked/x"} {
			if err := b.WriteAll(t.Context(), key, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for e, err := range s.List(t.Context(), "marked") {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Name)
		}
		if len(got) != 1 || got[0] != "x" {
			t.Errorf("children %q, want only x", got)
		}
	})
	t.Run("unaddressable keys", func(t *testing.T) {
		for _, key := range []string{"a/../b", "a\nb", "x\x00"} {
			if _, err := s.Size(t.Context(), key); fault.KindOf(err) != fault.Unsupported {
				t.Errorf("%q: %v, want unsupported", key, err)
			}
		}
	})
}

// broken is a service that plays a script: one answer per request.
type broken struct {
	driver.Bucket // nil: everything else would panic
	answers       []answer
	asked         []string
}

type answer struct {
	body     string
	fail     error // after the body, instead of its end
	size     int64
	modified int64
	refused  error // instead of an answer
}

func (b *broken) NewRangeReader(_ context.Context, _ string, off, n int64, _ *driver.ReaderOptions) (driver.Reader, error) {
	b.asked = append(b.asked, fmt.Sprintf("%d+%d", off, n))
	a := b.answers[0]
	b.answers = b.answers[1:]
	if a.refused != nil {
		return nil, a.refused
	}
	return &brokenReader{Reader: strings.NewReader(a.body), answer: a}, nil
}

func (b *broken) Attributes(context.Context, string) (*driver.Attributes, error) {
	return &driver.Attributes{Size: 10}, nil
}

func (b *broken) ErrorCode(error) gcerrors.ErrorCode { return gcerrors.Unknown }
func (b *broken) Close() error                       { return nil }

type brokenReader struct {
	*strings.Reader
	answer answer
}

func (r *brokenReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if errors.Is(err, io.EOF) && r.answer.fail != nil {
		err = r.answer.fail
	}
	return n, err
}
func (r *brokenReader) Close() error { return nil }
func (r *brokenReader) As(any) bool  { return false }
func (r *brokenReader) Attributes() *driver.ReaderAttributes {
	return &driver.ReaderAttributes{Size: r.answer.size, ModTime: time.Unix(r.answer.modified, 0)}
}

func TestBrokenAnswers(t *testing.T) {
	t.Parallel()
	reset := errors.New("connection reset")
	refused := errors.New("get https://user:pass@h/x?sig=abc: 416 InvalidRange")
	for name, test := range map[string]struct {
		answers []answer
		off     int64
		want    string // bytes, or
		kind    fault.Kind
		asked   string
	}{
		"taken up where it broke": {[]answer{{body: "23", fail: reset, size: 10}, {body: "4", size: 10}, {body: "56", size: 10}}, 2, "23456", 0, "2+5 4+3 5+2"},
		"replaced meanwhile":      {[]answer{{body: "23", fail: reset, size: 10}, {body: "456", size: 10, modified: 1}}, 2, "", fault.Conflict, "2+5 4+3"},
		"grown meanwhile":         {[]answer{{body: "23", fail: reset, size: 10}, {body: "456", size: 11}}, 2, "", fault.Conflict, "2+5 4+3"},
		"cut short meanwhile":     {[]answer{{body: "23", fail: reset, size: 10}, {body: "456", size: 5}}, 2, "", fault.Corrupt, "2+5 4+3"},
		"always short":            {[]answer{{body: "2", size: 10}, {body: "3", size: 10}, {size: 10}, {size: 10}}, 2, "", fault.Corrupt, "2+5 3+4 4+3 4+3"},
		"always broken":           {[]answer{{fail: reset, size: 10}, {fail: reset, size: 10}, {fail: reset, size: 10}, {fail: reset, size: 10}}, 2, "", fault.Internal, "2+5 2+5 2+5 2+5"},
		"range ignored":           {[]answer{{body: "0123456789", size: 10}}, 2, "", fault.Corrupt, "2+5"},
		"cut at the end":          {[]answer{{body: "789", size: 10}}, 7, "", fault.Corrupt, "7+5"},
		"refused past the end":    {[]answer{{refused: refused}}, 10, "", fault.Corrupt, "10+5"},
		"refused inside":          {[]answer{{refused: refused}}, 2, "", fault.Internal, "2+5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := &broken{answers: test.answers}
			s := New(blob.NewBucket(service), Options{Prefix: "s3://b/"})
			p := make([]byte, 5)
			err := s.ReadAt(t.Context(), "x", p, test.off)
			if test.want != "" {
				if err != nil || string(p) != test.want {
					t.Errorf("read %q, %v; want %q", p, err, test.want)
				}
			} else if err == nil || fault.KindOf(err) != test.kind {
				t.Errorf("error %v, want %s", err, test.kind)
			}
			if asked := strings.Join(service.asked, " "); asked != test.asked {
				t.Errorf("asked for %s, want %s", asked, test.asked)
			}
			if err != nil && (strings.Contains(err.Error(), "pass") || strings.Contains(err.Error(), "abc")) {
				t.Errorf("the error shows a credential: %v", err)
			}
		})
	}
}

func TestCancelWhileWaiting(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	service := &broken{answers: []answer{{fail: errors.New("reset"), size: 10}}}
	s := New(blob.NewBucket(service), Options{Prefix: "s3://b/"})
	s.readPause = time.Hour
	time.AfterFunc(10*time.Millisecond, cancel)
	if err := s.ReadAt(ctx, "x", make([]byte, 5), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context canceled", err)
	}
}

func TestScrub(t *testing.T) {
	t.Parallel()
	s := newScrubber([]objstore.Secret{objstore.NewSecret("se+cr/et"), objstore.NewSecret("plain-one")})
	for in, want := range map[string]string{
		"no such host":                   "no such host",
		"with se+cr/et and se%2Bcr%2Fet": "with [redacted] and [redacted]",
		"plain-one":                      "[redacted]",
		"GET https://u:p@h:1/a/b?sig=x&y=1#z failed":                               "GET https://h:1/a/b failed",
		"Authorization: AWS4-HMAC-SHA256 Credential=AK/2020, Signature=ff":         "Authorization: [redacted] Credential=[redacted], Signature=[redacted]",
		"header Bearer abc.def":                                                    "header Bearer [redacted]",
		"X-Amz-Security-Token=abc&X-Amz-Signature=def":                             "X-Amz-Security-Token=[redacted]&X-Amz-Signature=[redacted]",
		`{"private_key": "----", "access_key_id":"AK", "other": "kept"}`:           `{"private_key": "[redacted]", "access_key_id":"[redacted]", "other": "kept"}`,
		"two\n  lines\tand tabs":                                                   "two lines and tabs",
		strings.Repeat("é", mostText):                                              strings.Repeat("é", mostText/2) + "…",
		"AccountKey=c2VjcmV0==;EndpointSuffix=core":                                "AccountKey=[redacted];EndpointSuffix=core",
		"SharedKey acct:c2ln and basic dXNlcg==":                                   "SharedKey [redacted] and basic [redacted]",
		"https://acct.blob.core.windows.net/c/b?sv=2020&se=2030&sr=b&sig=a%2Bb%3D": "https://acct.blob.core.windows.net/c/b",
	} {
		if got := s.text(errors.New(in)); got != want {
			t.Errorf("%q\n got %q\nwant %q", in, got, want)
		}
	}
}

package flightsvc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table/manifest"
)

func TestCodes(t *testing.T) {
	t.Parallel()
	for kind, want := range map[fault.Kind]codes.Code{
		fault.Internal:     codes.Internal,
		fault.Invalid:      codes.InvalidArgument,
		fault.NotFound:     codes.NotFound,
		fault.Exists:       codes.AlreadyExists,
		fault.Precondition: codes.FailedPrecondition,
		fault.Conflict:     codes.Aborted,
		fault.Exhausted:    codes.ResourceExhausted,
		fault.Denied:       codes.PermissionDenied,
		fault.Corrupt:      codes.DataLoss,
		fault.Unsupported:  codes.Unimplemented,
		fault.Unavailable:  codes.Unavailable,
	} {
		if got := code(fmt.Errorf("x: %w", fault.New(kind, "y"))); got != want {
			t.Errorf("%v is %v, want %v", kind, got, want)
		}
	}
	// A kind that this table forgot would be OK.
	for k := fault.Internal; !strings.HasPrefix(k.String(), "kind "); k++ {
		if _, ok := statusCodes[k]; !ok {
			t.Errorf("%v has no code", k)
		}
	}
	for _, tc := range []struct {
		err  error
		want codes.Code
	}{
		{nil, codes.OK},
		{errors.New("x"), codes.Internal},
		{fmt.Errorf("x: %w", context.Canceled), codes.Canceled},
		{fault.New(fault.Internal, "read: %w", context.DeadlineExceeded), codes.DeadlineExceeded},
		{status.Error(codes.Unauthenticated, "x"), codes.Unauthenticated},
		{fmt.Errorf("x: %w", status.Error(codes.Unavailable, "x")), codes.Unavailable},
	} {
		if got := code(tc.err); got != tc.want {
			t.Errorf("%v is %v, want %v", tc.err, got, tc.want)
		}
	}
}

func TestErrorTexts(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "root")
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(root, 0o755), os.Symlink(root, link)); err != nil {
		t.Fatal(err)
	}
	s := &Server{redact: newRedactor([]string{link, "s3://bucket/tables"})}
	for _, tc := range []struct{ name, in, want string }{
		{"root", "open " + root + "/t.lance/data/x.lance: gone", "open t.lance/data/x.lance: gone"},
		{"root by its link", "open " + link + "/t.lance: gone", "open t.lance: gone"},
		{"root as URI", "open file://" + root + "/t.lance: gone", "open t.lance: gone"},
		{"quoted", `object "` + root + `/t.lance/x"`, `object "t.lance/x"`},
		{"twice", root + "/a and " + root + "/b", "a and b"},
		{"another folder that ends the same", "/backup" + root + "/a", "/backup" + root + "/a"},
		{"a longer name", root + "er/a", root + "er/a"},
		{"signed URL", "get https://h/b/k?X-Amz-Signature=abc&y=1: 403", "get https://h/b/k?… 403"},
		{"user in a URL", "dial ftp://me:secret@host/x", "dial ftp://host/x"},
		{"bucket", "get s3://bucket/tables/t.lance: gone", "get s3://bucket/tables/t.lance: gone"},
		{"stack", "arrow: panic\ngoroutine 7 [running]:\nmain.main()", "arrow: panic"},
		{"not UTF-8", "name \xff\xfe", "name \uFFFD"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := status.Convert(s.status(fault.New(fault.Invalid, "%s", tc.in))).Message()
			if got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
	t.Run("a long name", func(t *testing.T) {
		in := fault.New(fault.Invalid, "column %q does not exist; ask for another", strings.Repeat("ä", 4000))
		got := status.Convert(s.status(in)).Message()
		if len(got) > 2*maxRun || !strings.Contains(got, "ää… does not exist; ask for another") || !utf8.ValidString(got) {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	})
	t.Run("long", func(t *testing.T) {
		got := status.Convert(s.status(fault.New(fault.Invalid, "%s", strings.Repeat("ä€ ", 4000)))).Message()
		if len(got) > maxErrorText || len(got) < maxErrorText-8 || !utf8.ValidString(got) {
			t.Errorf("%d bytes, valid UTF-8: %t", len(got), utf8.ValidString(got))
		}
	})
}

// Bases lie where the operator put them; clients see their ids.
func TestBasesInErrorTexts(t *testing.T) {
	t.Parallel()
	r := baseRedactor(map[uint32]manifest.Base{
		1: {ID: 1, Path: "/srv/media"}, 7: {ID: 7, Path: "file:///srv/more%20media"},
		9: {ID: 9, Path: "s3://bucket/x"}, 4: {ID: 4, Path: "/srv/media/deep"},
	})
	for in, want := range map[string]string{
		"/srv/media/data/a.blob: missing":         "base 1/data/a.blob: missing",
		"/srv/media/deep/a.blob: missing":         "base 4/a.blob: missing",
		"/srv/more media/a.blob: missing":         "base 7/a.blob: missing",
		"file:///srv/media/a.blob: missing":       "base 1/a.blob: missing",
		"s3://bucket/x/a.blob: missing":           "s3://bucket/x/a.blob: missing",
		"/srv/media2/a.blob and /x/srv/media/a":   "/srv/media2/a.blob and /x/srv/media/a",
		"objstore: \"/srv/media/a\" is not there": "objstore: \"base 1/a\" is not there",
	} {
		if got := r.paths(in); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

package bucket

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"gocloud.dev/gcerrors"

	"github.com/flightblob/flightblob/internal/fault"
)

// writeAttempts is how often a change is asked for before it fails.
const writeAttempts = 5

// verdict is what a failed attempt says about a change.
type verdict uint8

const (
	refused  verdict = iota // nothing happened, and asking again will not help
	deferred                // nothing happened, but it may when asked again
	unknown                 // it may have happened
	present                 // nothing happened, because the object is there
)

// attempt makes one request and judges its failure. A change whose request
// never reached a connection cannot have happened.
func (s *Store) attempt(ctx context.Context, call func(ctx context.Context) error) (verdict, error) {
	var sent atomic.Bool
	err := call(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { sent.Store(true) },
	}))
	if err == nil {
		return refused, nil
	}
	return s.judge(err, sent.Load()), err
}

func (s *Store) judge(err error, sent bool) verdict {
	status := s.options.Status(err)
	switch code := gcerrors.Code(err); {
	case code == gcerrors.FailedPrecondition, code == gcerrors.AlreadyExists, status == http.StatusPreconditionFailed:
		return present
	case status == http.StatusConflict, status == http.StatusTooManyRequests:
		// S3 answers ConditionalRequestConflict while another conditional put
		// of the same key is under way: neither of the two is decided by that.
		return deferred
	case status >= 300 && status < 500 && status != http.StatusRequestTimeout:
		return refused
	case status != 0, sent:
		return unknown
	}
	if wire := net.Error(nil); errors.As(err, &wire) {
		return deferred
	}
	return refused
}

// httpStatus is the default of Options.Status.
func httpStatus(err error) int {
	var answer interface{ HTTPStatusCode() int }
	if errors.As(err, &answer) {
		return answer.HTTPStatusCode()
	}
	return 0
}

// pause waits longer after each attempt, and never as long as others do.
func (s *Store) pause(ctx context.Context, attempt int) error {
	d := s.writePause << (attempt - 1)
	return wait(ctx, d/2+rand.N(d/2+1))
}

// repeat makes an idempotent change. It fails with objstore.ErrUncertain when
// some attempt may have had its effect.
func (s *Store) repeat(ctx context.Context, op, path string, call func(ctx context.Context) error) error {
	maybe := false
	for n := 1; ; n++ {
		v, err := s.attempt(ctx, call)
		if err == nil {
			return nil
		}
		maybe = maybe || v == unknown
		if v == refused || v == present || n == writeAttempts || s.pause(ctx, n) != nil {
			return s.writeFailure(ctx, op, path, err, maybe)
		}
	}
}

// writeFailure is failure for changes.
func (s *Store) writeFailure(ctx context.Context, op, path string, err error, maybe bool) error {
	failed := s.failure(ctx, op, path, err)
	if ctx.Err() == nil {
		// A driver may call a refusal "not found", and what is not found by a
		// write is the bucket or the upload.
		kind := fault.KindOf(failed)
		switch s.options.Status(err) {
		case http.StatusUnauthorized, http.StatusForbidden:
			kind = fault.Denied
		case http.StatusNotFound:
			kind = fault.NotFound
		case http.StatusBadRequest:
			kind = fault.Invalid
		}
		failed = fault.New(kind, "objstore: %s %s: %s", op, s.URI(path), s.scrub.text(err))
	}
	if maybe {
		return uncertain(s.URI(path), failed)
	}
	return failed
}

// firstWritePause is the wait before a change is asked for again.
const firstWritePause = 100 * time.Millisecond

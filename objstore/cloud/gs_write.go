package cloud

import (
	"context"
	"errors"
	"io"

	"cloud.google.com/go/storage"
	"gocloud.dev/blob"
	"gocloud.dev/blob/gcsblob"
	"google.golang.org/api/googleapi"
)

func statusGS(err error) int {
	var answer *googleapi.Error
	if errors.As(err, &answer) {
		return answer.Code
	}
	return 0
}

// retryGS sets when the client repeats the requests of a write.
func retryGS(as func(any) bool, policy storage.RetryPolicy) error {
	var object **storage.ObjectHandle
	if as(&object) {
		*object = (*object).Retryer(storage.WithPolicy(policy), storage.WithErrorFunc(transientGS))
	}
	return nil
}

// transientGS adds connections that end without an answer.
func transientGS(err error) bool { return storage.ShouldRetry(err) || errors.Is(err, io.EOF) }

// alwaysRetryGS is for streams: they replace whatever is there, which the
// client does not know to be idempotent.
func alwaysRetryGS(as func(any) bool) error { return retryGS(as, storage.RetryAlways) }

func putGS(b *blob.Bucket) func(ctx context.Context, path string, data []byte, ifAbsent bool) error {
	return func(ctx context.Context, path string, data []byte, ifAbsent bool) error {
		return b.WriteAll(ctx, path, data, &blob.WriterOptions{
			ContentType: contentType, IfNotExist: ifAbsent,
			BufferSize:  -1, // one request
			BeforeWrite: func(as func(any) bool) error { return retryGS(as, storage.RetryNever) },
		})
	}
}

func copyGS(b *blob.Bucket) func(ctx context.Context, from, to string) error {
	return func(ctx context.Context, from, to string) error {
		return b.Copy(ctx, to, from, &blob.CopyOptions{BeforeCopy: func(as func(any) bool) error {
			var handles *gcsblob.CopyObjectHandles
			if as(&handles) {
				handles.Dst = handles.Dst.Retryer(storage.WithPolicy(storage.RetryAlways))
			}
			return nil
		}})
	}
}

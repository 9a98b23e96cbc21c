package cloud

import (
	"context"
	"errors"

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
		*object = (*object).Retryer(storage.WithPolicy(policy))
	}
	return nil
}

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

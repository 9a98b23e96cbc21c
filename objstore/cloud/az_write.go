package cloud

import (
	"context"
	"errors"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"gocloud.dev/blob"
)

func statusAZ(err error) int {
	var answer *azcore.ResponseError
	if errors.As(err, &answer) {
		return answer.StatusCode
	}
	return 0
}

func putAZ(b *blob.Bucket) func(ctx context.Context, path string, data []byte, ifAbsent bool) error {
	return func(ctx context.Context, path string, data []byte, ifAbsent bool) error {
		ctx = policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: -1})
		return b.WriteAll(ctx, path, data, &blob.WriterOptions{
			ContentType: contentType, IfNotExist: ifAbsent,
			BufferSize: len(data) + 1, // one request
		})
	}
}

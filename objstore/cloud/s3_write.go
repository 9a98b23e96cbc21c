package cloud

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"
)

const (
	// mostCopiedS3 is the longest object that one request copies, in bytes.
	mostCopiedS3 = 5 << 30
	// copiesAtOnceS3 is how many parts of a longer one are copied at a time.
	copiesAtOnceS3 = 8
)

// driverS3 is what gocloud's driver does not offer, or does worse: its uploads
// print to the process's log when they fail, hold 50 GiB at most and repeat
// conditional puts.
type driverS3 struct {
	client     *s3.Client
	bucket     string
	mostCopied int64
}

func onceS3(o *s3.Options) { o.Retryer = aws.NopRetryer{} }

func (d driverS3) put(ctx context.Context, path string, data []byte, ifAbsent bool) error {
	in := &s3.PutObjectInput{
		Bucket: &d.bucket, Key: &path, Body: bytes.NewReader(data), ContentType: aws.String(contentType),
	}
	if ifAbsent {
		in.IfNoneMatch = aws.String("*")
	}
	_, err := d.client.PutObject(ctx, in, onceS3)
	return err
}

// Begin implements bucket.Parts.
func (d driverS3) Begin(ctx context.Context, path string) (string, error) {
	out, err := d.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
		Bucket: &d.bucket, Key: &path, ContentType: aws.String(contentType),
	})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.UploadId), nil
}

// Send implements bucket.Parts.
func (d driverS3) Send(ctx context.Context, path, upload string, number int, data []byte) (string, error) {
	out, err := d.client.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: &d.bucket, Key: &path, UploadId: &upload, PartNumber: aws.Int32(int32(number)), Body: bytes.NewReader(data),
	})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.ETag), nil
}

// Complete implements bucket.Parts.
func (d driverS3) Complete(ctx context.Context, path, upload string, tags []string) error {
	parts := make([]types.CompletedPart, len(tags))
	for i := range tags {
		parts[i] = types.CompletedPart{ETag: &tags[i], PartNumber: aws.Int32(int32(i + 1))}
	}
	_, err := d.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &d.bucket, Key: &path, UploadId: &upload, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	})
	return err
}

// Abort implements bucket.Parts.
func (d driverS3) Abort(ctx context.Context, path, upload string) error {
	_, err := d.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
		Bucket: &d.bucket, Key: &path, UploadId: &upload,
	})
	return err
}

// copy copies inside the bucket: by one request, or in parts what is longer
// than one request takes.
func (d driverS3) copy(ctx context.Context, from, to string) error {
	head, err := d.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &d.bucket, Key: &from})
	if err != nil {
		return err
	}
	source := aws.String(sourceS3(d.bucket + "/" + from))
	size := aws.ToInt64(head.ContentLength)
	if size <= d.mostCopied {
		_, err := d.client.CopyObject(ctx, &s3.CopyObjectInput{
			Bucket: &d.bucket, Key: &to, CopySource: source, CopySourceIfMatch: head.ETag,
		})
		return err
	}
	upload, err := d.Begin(ctx, to)
	if err != nil {
		return err
	}
	tags := make([]string, (size+d.mostCopied-1)/d.mostCopied)
	parts, partCtx := errgroup.WithContext(ctx)
	parts.SetLimit(copiesAtOnceS3)
	for i := range tags {
		parts.Go(func() error {
			first := int64(i) * d.mostCopied
			out, err := d.client.UploadPartCopy(partCtx, &s3.UploadPartCopyInput{
				Bucket: &d.bucket, Key: &to, UploadId: &upload, PartNumber: aws.Int32(int32(i + 1)), CopySource: source,
				CopySourceRange:   aws.String(fmt.Sprintf("bytes=%d-%d", first, min(first+d.mostCopied, size)-1)),
				CopySourceIfMatch: head.ETag,
			})
			if err != nil {
				return err
			}
			if out.CopyPartResult != nil {
				tags[i] = aws.ToString(out.CopyPartResult.ETag)
			}
			return nil
		})
	}
	if err = parts.Wait(); err == nil {
		err = d.Complete(ctx, to, upload, tags)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortWithin)
		defer cancel()
		_ = d.Abort(ctx, to, upload) // else the bucket's rule about unfinished uploads
	}
	return err
}

// sourceS3 encodes the source of a copy. Services decode it like a query, where
// a plus is a space.
func sourceS3(path string) string {
	return strings.NewReplacer("+", "%20", "%2F", "/").Replace(url.QueryEscape(path))
}

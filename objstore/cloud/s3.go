package cloud

import (
	"context"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
	"gocloud.dev/blob/s3blob"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/objstore/bucket"
)

const defaultRegion = "us-east-1"

func openS3(ctx context.Context, name string, o *objstore.StorageOptions) (objstore.Store, error) {
	client, err := clientS3(ctx, o)
	if err != nil {
		return nil, err
	}
	b, err := s3blob.OpenBucket(ctx, client, name, &s3blob.Options{RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired})
	if err != nil {
		return nil, fault.New(fault.Invalid, "objstore: open s3://%s: the driver refuses its name or options", name)
	}
	d := driverS3{client: client, bucket: name, mostCopied: mostCopiedS3}
	return bucket.New(b, bucket.Options{
		Prefix: prefixOf("s3", name), Secrets: o.Secrets(), Put: d.put, Parts: d, Copy: d.copy,
	}), nil
}

func clientS3(ctx context.Context, o *objstore.StorageOptions) (*s3.Client, error) {
	cfg, err := configS3(ctx, o)
	if err != nil {
		return nil, err
	}
	return s3.NewFromConfig(cfg, func(so *s3.Options) {
		// Stores that only resemble S3 know no checksums beyond the required.
		so.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		so.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		if o == nil {
			return
		}
		if o.Endpoint != "" {
			so.BaseEndpoint = aws.String(o.Endpoint)
			so.UsePathStyle = true // emulators seldom answer to bucket host names
		}
		if o.PathStyle != nil {
			so.UsePathStyle = *o.PathStyle
		}
	}), nil
}

// configS3 takes keys from the options alone when they are there; else from
// the usual chain of environment, profile and instance.
func configS3(ctx context.Context, o *objstore.StorageOptions) (aws.Config, error) {
	client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns = 0
		t.MaxIdleConnsPerHost = idleConnections
	})
	cfg := aws.Config{HTTPClient: client}
	switch {
	case o != nil && o.Anonymous:
		cfg.Credentials = aws.AnonymousCredentials{}
	case o != nil && !o.AccessKeyID.IsZero():
		cfg.Credentials = credentials.NewStaticCredentialsProvider(
			o.AccessKeyID.Reveal(), o.SecretAccessKey.Reveal(), o.SessionToken.Reveal())
	default:
		var err error
		cfg, err = config.LoadDefaultConfig(ctx, config.WithHTTPClient(client), config.WithLogger(logging.Nop{}))
		if err != nil {
			return aws.Config{}, fault.New(fault.Precondition, "objstore: the AWS settings of environment or profile cannot be used; "+
				"correct them or give access_key_id and secret_access_key in the --storage file")
		}
	}
	if o != nil && o.Region != "" {
		cfg.Region = o.Region
	}
	if cfg.Region == "" {
		cfg.Region = defaultRegion
	}
	return cfg, nil
}

package cloud

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"

	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/gcp"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/option"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/objstore/bucket"
)

const scopeGS = "https://www.googleapis.com/auth/devstorage.read_write"

func openGS(ctx context.Context, name string, o *objstore.StorageOptions) (objstore.Store, error) {
	client, err := clientGS(ctx, o)
	if err != nil {
		return nil, err
	}
	options := &gcsblob.Options{}
	if o != nil && o.Endpoint != "" {
		u, err := url.Parse(o.Endpoint)
		if err != nil {
			return nil, fault.New(fault.Invalid, "objstore: the endpoint for gs://%s is no URL", name)
		}
		if u.Path == "" || u.Path == "/" {
			u.Path = "/storage/v1/"
		}
		options.ClientOptions = append(options.ClientOptions, option.WithEndpoint(u.String()))
	}
	b, err := gcsblob.OpenBucket(ctx, client, name, options)
	if err != nil {
		return nil, fault.New(fault.Invalid, "objstore: open gs://%s: the driver refuses its name or options", name)
	}
	return bucket.New(b, bucket.Options{
		Prefix: prefixOf("gs", name), Secrets: o.Secrets(),
		Status: statusGS, Put: putGS(b), BeforeWrite: alwaysRetryGS, Copy: copyGS(b),
	}), nil
}

// clientGS takes credentials from the options' file, or the application
// defaults, which may ask the metadata service of the machine.
func clientGS(ctx context.Context, o *objstore.StorageOptions) (*gcp.HTTPClient, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns = 0
	transport.MaxIdleConnsPerHost = idleConnections
	if o != nil && o.Anonymous {
		return gcp.NewAnonymousHTTPClient(transport), nil
	}
	var credentials *google.Credentials
	var err error
	if o != nil && o.CredentialsFile != "" {
		credentials, err = credentialsGS(ctx, o.CredentialsFile)
	} else {
		credentials, err = gcp.DefaultCredentials(ctx)
		if err != nil {
			err = fault.New(fault.Precondition, "objstore: no application default credentials for gs://; "+
				"give credentials_file or anonymous = true in the --storage file")
		}
	}
	if err != nil {
		return nil, err
	}
	client, err := gcp.NewHTTPClient(transport, gcp.CredentialsTokenSource(credentials))
	if err != nil {
		return nil, fault.New(fault.Precondition, "objstore: the credentials for gs:// cannot be used")
	}
	return client, nil
}

// credentialsGS reads a key file. Messages say what is wrong, never what is in
// it.
func credentialsGS(ctx context.Context, file string) (*google.Credentials, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fault.New(fault.Precondition, "objstore: the credentials_file %s cannot be read", file)
	}
	var kind struct {
		Type google.CredentialsType `json:"type"`
	}
	if err := json.Unmarshal(data, &kind); err != nil {
		return nil, fault.New(fault.Invalid, "objstore: the credentials_file %s is no JSON object", file)
	}
	credentials, err := google.CredentialsFromJSONWithType(ctx, data, kind.Type, scopeGS)
	if err != nil {
		return nil, fault.New(fault.Invalid, "objstore: the credentials_file %s holds no usable key", file)
	}
	return credentials, nil
}

package cloud

import (
	"context"
	"net/http"
	"os"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"gocloud.dev/blob/azureblob"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/objstore/bucket"
)

// renamedAZ lists what the driver stores under another name.
const renamedAZ = "\\\"#%?\x7f"

// accountAZ is how to reach and sign for a storage account.
type accountAZ struct {
	name, endpoint string
	key, sas       objstore.Secret
	anonymous      bool
}

func openAZ(ctx context.Context, name string, o *objstore.StorageOptions) (objstore.Store, error) {
	a := accountFrom(o, os.Getenv)
	client, err := a.container(name)
	if err != nil {
		return nil, err
	}
	b, err := azureblob.OpenBucket(ctx, client, nil)
	if err != nil {
		return nil, fault.New(fault.Invalid, "objstore: open az://%s: the driver refuses its name or options", name)
	}
	var secrets []objstore.Secret
	for _, s := range []objstore.Secret{a.key, a.sas} {
		if !s.IsZero() {
			secrets = append(secrets, s)
		}
	}
	// The driver's copy is left alone: it needs a source that anybody may read
	// unless the account's key signs, and it does not survive a failed poll.
	return bucket.New(b, bucket.Options{
		Prefix: prefixOf("az", name), Secrets: secrets, Renames: renamedAZ,
		Status: statusAZ, Put: putAZ(b),
	}), nil
}

// accountFrom takes the options, or without any the variables that Azure's
// own tools read.
func accountFrom(o *objstore.StorageOptions, env func(string) string) accountAZ {
	if o != nil {
		return accountAZ{name: o.Account, endpoint: o.Endpoint, key: o.Key, sas: o.SAS, anonymous: o.Anonymous}
	}
	first := func(names ...string) string {
		for _, n := range names {
			if v := env(n); v != "" {
				return v
			}
		}
		return ""
	}
	return accountAZ{
		name: first("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"),
		key:  objstore.NewSecret(first("AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY")),
		sas:  objstore.NewSecret(first("AZURE_STORAGE_SAS_TOKEN")),
	}
}

func (a accountAZ) container(name string) (*container.Client, error) {
	base := strings.TrimSuffix(a.endpoint, "/")
	switch {
	case base != "":
	case a.name == "":
		return nil, fault.New(fault.Precondition, "objstore: az://%s needs a storage account; give account in the --storage file or AZURE_STORAGE_ACCOUNT", name)
	case strings.Trim(a.name, "abcdefghijklmnopqrstuvwxyz0123456789") != "":
		return nil, fault.New(fault.Invalid, "objstore: az://%s: a storage account's name holds lower-case letters and digits only", name)
	default:
		base = "https://" + a.name + ".blob.core.windows.net"
	}
	at := base + "/" + name
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns = 0
	transport.MaxIdleConnsPerHost = idleConnections
	options := &container.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: &http.Client{Transport: transport}}}

	var client *container.Client
	var err error
	switch {
	case !a.key.IsZero():
		var key *container.SharedKeyCredential
		if key, err = container.NewSharedKeyCredential(a.name, a.key.Reveal()); err == nil {
			client, err = container.NewClientWithSharedKeyCredential(at, key, options)
		}
	case !a.sas.IsZero():
		client, err = container.NewClientWithNoCredential(at+"?"+strings.TrimPrefix(a.sas.Reveal(), "?"), options)
	case a.anonymous:
		client, err = container.NewClientWithNoCredential(at, options)
	default:
		var identity *azidentity.DefaultAzureCredential
		if identity, err = azidentity.NewDefaultAzureCredential(nil); err == nil {
			client, err = container.NewClient(at, identity, options)
		}
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "objstore: the credentials for az://%s cannot be used; check key, sas and account in the --storage file", name)
	}
	return client, nil
}

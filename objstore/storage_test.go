package objstore_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

var environment = map[string]string{
	"MINIO_ACCESS_KEY_ID":     "env-id",
	"MINIO_SECRET_ACCESS_KEY": "env-hunter2",
	"MINIO_REGION":            "env-region",
	"MINIO_PATH_STYLE":        "true", // never from the environment
	"AZ_ACCOUNT":              "envacct",
	"AZ_KEY":                  "env-hunter2",
	"HALF_ACCESS_KEY_ID":      "env-id",
}

func lookup(name string) (string, bool) {
	v, ok := environment[name]
	return v, ok
}

const goodStorage = `
["s3://bucket"]
endpoint = "http://127.0.0.1:9000"
region = "eu-north-1"
access_key_id = "top-id"
secret_access_key = "top-hunter2"
session_token = "token-hunter2"
path_style = false

["s3://bucket/a/b/"]
anonymous = true

["s3://bucket/a/bc"]
env = "MINIO_"
region = "file-region"

["S3://bucket/with%20blank"]
region = "blank"

["s3://"]
region = "any"

["gs://g"]
credentials_file = "/keys/g.json"
endpoint = "https://gcs.example/storage/v1/"

["az://c/x"]
account = "acct"
sas = "sv=1&sig=hunter2"

["az://c"]
env = "AZ_"
`

func TestStorageMatch(t *testing.T) {
	t.Parallel()
	c, err := objstore.ParseStorage("s.toml", []byte(goodStorage), lookup)
	if err != nil {
		t.Fatal(err)
	}
	type view struct {
		Prefix, Endpoint, Region, ID, Secret, Token, Account, Key, SAS, File string
		PathStyle                                                            string
		Anonymous                                                            bool
	}
	top := view{
		Prefix: "s3://bucket", Endpoint: "http://127.0.0.1:9000", Region: "eu-north-1",
		ID: "top-id", Secret: "top-hunter2", Token: "token-hunter2", PathStyle: "false",
	}
	deep := view{Prefix: "s3://bucket/a/b", Anonymous: true}
	env := view{Prefix: "s3://bucket/a/bc", Region: "file-region", ID: "env-id", Secret: "env-hunter2"}
	for uri, want := range map[string]view{
		"s3://bucket":              top,
		"s3://bucket/":             top,
		"s3://bucket/a":            top,
		"s3://bucket/a/b":          deep,
		"s3://bucket/a/b/c/d":      deep,
		"s3://bucket/a/x/../b/c":   deep,
		"s3://bucket/a/bcd":        top, // whole components
		"s3://bucket/a/bc":         env,
		"s3://bucket/a/bc/d":       env,
		"s3://bucket/with blank/x": {Prefix: "s3://bucket/with%20blank", Region: "blank"},
		"s3://bucket2/a/b":         {Prefix: "s3://", Region: "any"},
		"gs://g/x":                 {Prefix: "gs://g", Endpoint: "https://gcs.example/storage/v1/", File: "/keys/g.json"},
		"az://c/x/y":               {Prefix: "az://c/x", Account: "acct", SAS: "sv=1&sig=hunter2"},
		"az://c/y":                 {Prefix: "az://c", Account: "envacct", Key: "env-hunter2"},
	} {
		o := c.Match(uri)
		if o == nil {
			t.Errorf("%s has no options", uri)
			continue
		}
		got := view{
			Prefix: o.Prefix, Endpoint: o.Endpoint, Region: o.Region, ID: o.AccessKeyID.Reveal(), Secret: o.SecretAccessKey.Reveal(),
			Token: o.SessionToken.Reveal(), Account: o.Account, Key: o.Key.Reveal(), SAS: o.SAS.Reveal(), File: o.CredentialsFile,
			Anonymous: o.Anonymous,
		}
		if o.PathStyle != nil {
			got.PathStyle = fmt.Sprint(*o.PathStyle)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", uri, diff)
		}
	}
	for _, uri := range []string{"gs://other/x", "az://d", "mem://m/x", "/local/s3", "no\x00uri"} {
		if o := c.Match(uri); o != nil {
			t.Errorf("%s has %s", uri, o)
		}
	}
	var none *objstore.StorageConfig
	if none.Match("s3://b") != nil || none.Prefixes() != nil {
		t.Error("no file, but options")
	}
}

func TestStorageRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want string }{
		{"[\"s3://b\"]\nacces_key = \"hunter2\"", `table "s3://b": unknown key "acces_key" for s3://; known: access_key_id, anonymous, endpoint, env, path_style, region, secret_access_key, session_token`},
		{"[\"s3://b\"]\naccount = \"hunter2\"", `unknown key "account" for s3://`},
		{"[\"gs://b\"]\nregion = \"x\"", `unknown key "region" for gs://; known: anonymous, credentials_file, endpoint, env`},
		{"[\"az://b\"]\naccount=\"a\"\naccess_key_id = \"hunter2\"", `unknown key "access_key_id" for az://`},
		{"[\"s3://b\"]\nregion = 7", `table "s3://b": key "region" has a value of the wrong type`},
		{"[\"s3://b\"]\nregion = \"\"", `key "region" has a value of the wrong type or an empty one`},
		{"[\"s3://b\"]\npath_style = \"hunter2\"", `key "path_style" has a value of the wrong type`},
		{"[\"s3://b\"]\nanonymous = 1", `key "anonymous" has a value of the wrong type`},
		{"[\"s3://b\"]\nenv = 1", `key "env" must be the text that variables`},
		{"[\"s3://b\"]\nenv = \"NONE_\"", `no variable of the environment starts with "NONE_"`},
		{"[\"s3://b\"]\nenv = \"HALF_\"", `"access_key_id" and "secret_access_key" need each other`},
		{"[\"s3://b\"]\naccess_key_id = \"hunter2\"", `need each other`},
		{"[\"s3://b\"]\nsession_token = \"hunter2\"", `"session_token" needs`},
		{"[\"s3://b\"]\naccess_key_id = \"hunter2\"\nsecret_access_key = \"hunter2\"\nanonymous = true", `"anonymous" excludes credentials`},
		{"[\"az://b\"]\naccount=\"a\"\nkey = \"hunter2\"\nsas = \"hunter2\"", `exclude each other`},
		{"[\"az://b\"]\nkey = \"hunter2\"\nendpoint=\"http://h\"", `needs "account"`},
		{"[\"az://b\"]\nsas = \"hunter2\"", `"account" or "endpoint" is needed`},
		{"[\"s3://b\"]\nendpoint = \"http://u:hunter2@h\"", `"endpoint" must be`},
		{"[\"s3://b\"]\nendpoint = \"http://h?hunter2\"", `"endpoint" must be`},
		{"[\"s3://b\"]\nendpoint = \"ftp://hunter2\"", `"endpoint" must be`},
		{"[\"s3://b\"]\nendpoint = \"hunter2\"", `"endpoint" must be`},
		{"[\"s3://b\"]\nregion=\"x\"\n[\"S3://b/\"]\nregion=\"y\"", `stands there twice`},
		{"[\"file:///x\"]\nregion = \"x\"", `only s3://, gs:// and az:// prefixes take options`},
		{"[\"/x\"]\nregion = \"x\"", `only s3://`},
		{"[\"s3://u:hunter2@b\"]\nregion = \"x\"", `bucket name`},
		{"secret_access_key = \"hunter2\"", `key "secret_access_key" stands outside a table`},
		{"[\"s3://b\"]\nsecret_access_key = \"hunter2", `no valid TOML at line 2, column`},
		{"[\"s3://b\"]\nsecret_access_key = hunter2", `no valid TOML at line 2, column`},
		{"[\"s3://b\"]\nhunter2", `no valid TOML at line 2`},
		{"[\"s3://b\"]\nregion=\"x\"\nregion=\"hunter2\"", `no valid TOML`},
		{"\xff", `no valid TOML`},
	} {
		_, err := objstore.ParseStorage("s.toml", []byte(test.text), lookup)
		if err == nil || fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s\n%v, want invalid", test.text, err)
			continue
		}
		if text := err.Error(); !strings.Contains(text, test.want) || !strings.Contains(text, "s.toml") || strings.Contains(text, "hunter2") {
			t.Errorf("%s\n got %s\nwant %s", test.text, text, test.want)
		}
	}
}

func TestStorageNeverPrints(t *testing.T) {
	t.Parallel()
	c, err := objstore.ParseStorage("s.toml", []byte(goodStorage), lookup)
	if err != nil {
		t.Fatal(err)
	}
	type nested struct {
		c *objstore.StorageConfig
		o objstore.StorageOptions
		S objstore.Secret
	}
	o := c.Match("s3://bucket")
	secret := objstore.NewSecret("top-hunter2")
	n := nested{c, *o, secret}
	for _, v := range []any{c, *c, o, *o, secret, &secret, n, &n, []any{o, secret}, map[string]any{"x": *o}, objstore.Options{Storage: c}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if text := fmt.Sprintf(verb, v); showsSecret(text) {
				t.Errorf("%s of %T shows %s", verb, v, text)
			}
		}
		var log bytes.Buffer
		for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
			slog.New(h).Info("x", "v", v)
		}
		if showsSecret(log.String()) {
			t.Errorf("a log of %T shows %s", v, log.String())
		}
		if text, err := json.Marshal(v); err == nil && showsSecret(string(text)) {
			t.Errorf("JSON of %T shows %s", v, text)
		}
	}
	if got := c.String(); got != "storage options for az://c, az://c/x, gs://g, s3://, s3://bucket, s3://bucket/a/b, s3://bucket/a/bc, s3://bucket/with%20blank" {
		t.Errorf("prints as %s", got)
	}
	if len(o.Secrets()) != 3 {
		t.Errorf("%d secrets, want 3", len(o.Secrets()))
	}
}

func showsSecret(text string) bool {
	for _, form := range []string{"hunter2", "top-id", fmt.Sprintf("%x", "hunter2")} {
		if strings.Contains(text, form) {
			return true
		}
	}
	return false
}

func TestLoadStorage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.toml")
	if _, err := objstore.LoadStorage(file); fault.KindOf(err) != fault.NotFound {
		t.Errorf("absent: %v, want not found", err)
	}
	if err := os.WriteFile(file, []byte("[\"s3://b\"]\nenv = \"T_\""), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("T_ACCESS_KEY_ID", "i")
	t.Setenv("T_SECRET_ACCESS_KEY", "s")
	c, err := objstore.LoadStorage(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Match("s3://b/x").SecretAccessKey.Reveal(); got != "s" {
		t.Errorf("the key is %q", got)
	}
}

func FuzzParseStorage(f *testing.F) {
	f.Add([]byte(goodStorage))
	f.Add([]byte("[\"s3://b\"]\nregion = [1, {x = 2}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := objstore.ParseStorage("s.toml", text, lookup)
		if (c == nil) == (err == nil) {
			t.Fatalf("%v, %v", c, err)
		}
		if err != nil && fault.KindOf(err) != fault.Invalid {
			t.Fatal(err)
		}
	})
}

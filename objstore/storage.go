package objstore

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/flightblob/flightblob/internal/fault"
)

// StorageConfig holds the options and credentials of --storage FILE, by URI
// prefix. A nil one has none. It prints without any credential.
type StorageConfig struct {
	sections []*StorageOptions // longest path first
}

// StorageOptions is one table of a storage file: how to reach what lies below
// a prefix. Which fields have a meaning depends on the scheme.
type StorageOptions struct {
	Prefix string // normalised URI prefix, without a trailing slash

	Endpoint        string // base URL of the service, for emulators and compatible stores
	Region          string // s3
	AccessKeyID     Secret // s3
	SecretAccessKey Secret // s3
	SessionToken    Secret // s3
	PathStyle       *bool  // s3: bucket in the path; nil = as the endpoint suggests
	CredentialsFile string // gs: JSON key file
	Account         string // az
	Key             Secret // az: shared key of the account
	SAS             Secret // az: shared access signature, without "?"
	Anonymous       bool   // sign nothing

	at target
}

// storageKey is one key of a storage table.
type storageKey struct {
	name    string
	schemes string // those it has a meaning for
	env     bool   // may come from the environment
	set     func(o *StorageOptions, value any) bool
}

func textKey(name, schemes string, field func(*StorageOptions) *string) storageKey {
	return storageKey{name, schemes, true, func(o *StorageOptions, value any) bool {
		s, ok := value.(string)
		*field(o) = s
		return ok && s != ""
	}}
}

func secretKey(name, schemes string, field func(*StorageOptions) *Secret) storageKey {
	return storageKey{name, schemes, true, func(o *StorageOptions, value any) bool {
		s, ok := value.(string)
		*field(o) = NewSecret(s)
		return ok && s != ""
	}}
}

// storageKeys is the whole vocabulary of a storage table, beside "env".
var storageKeys = []storageKey{
	textKey("endpoint", "s3 gs az", func(o *StorageOptions) *string { return &o.Endpoint }),
	textKey("region", "s3", func(o *StorageOptions) *string { return &o.Region }),
	secretKey("access_key_id", "s3", func(o *StorageOptions) *Secret { return &o.AccessKeyID }),
	secretKey("secret_access_key", "s3", func(o *StorageOptions) *Secret { return &o.SecretAccessKey }),
	secretKey("session_token", "s3", func(o *StorageOptions) *Secret { return &o.SessionToken }),
	textKey("credentials_file", "gs", func(o *StorageOptions) *string { return &o.CredentialsFile }),
	textKey("account", "az", func(o *StorageOptions) *string { return &o.Account }),
	secretKey("key", "az", func(o *StorageOptions) *Secret { return &o.Key }),
	secretKey("sas", "az", func(o *StorageOptions) *Secret { return &o.SAS }),
	{"path_style", "s3", false, func(o *StorageOptions, value any) bool {
		b, ok := value.(bool)
		o.PathStyle = &b
		return ok
	}},
	{"anonymous", "s3 gs az", false, func(o *StorageOptions, value any) (ok bool) {
		o.Anonymous, ok = value.(bool)
		return ok
	}},
}

// LoadStorage reads a storage file. Keys named by "env" come from the
// process's environment.
func LoadStorage(file string) (*StorageConfig, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fileError("read storage file", file, err)
	}
	return ParseStorage(file, data, os.LookupEnv)
}

// ParseStorage reads the text of a storage file, whose name is for messages.
// Errors are fault.Invalid and name file, table and key, never a value.
func ParseStorage(file string, text []byte, lookup func(string) (string, bool)) (*StorageConfig, error) {
	var tables map[string]any
	if err := toml.Unmarshal(text, &tables); err != nil {
		// The library's message may quote the line, and with it a credential.
		var place *toml.DecodeError
		if errors.As(err, &place) {
			line, column := place.Position()
			return nil, fault.New(fault.Invalid, "objstore: storage file %s is no valid TOML at line %d, column %d", file, line, column)
		}
		return nil, fault.New(fault.Invalid, "objstore: storage file %s is no valid TOML", file)
	}
	c := &StorageConfig{}
	for name, value := range tables {
		keys, ok := value.(map[string]any)
		if !ok {
			return nil, fault.New(fault.Invalid, "objstore: storage file %s: key %q stands outside a table; write [\"s3://bucket/prefix\"] above it", file, redactURI(name))
		}
		o, err := parseSection(name, keys, lookup)
		if err != nil {
			return nil, fault.New(fault.Invalid, "objstore: storage file %s: table %q: %w", file, redactURI(name), err)
		}
		if slices.ContainsFunc(c.sections, func(have *StorageOptions) bool { return have.at == o.at }) {
			return nil, fault.New(fault.Invalid, "objstore: storage file %s: table %q stands there twice", file, o.Prefix)
		}
		c.sections = append(c.sections, o)
	}
	slices.SortFunc(c.sections, func(a, b *StorageOptions) int {
		return cmp.Or(len(b.at.bucket)+len(b.at.path)-len(a.at.bucket)-len(a.at.path), cmp.Compare(a.Prefix, b.Prefix))
	})
	return c, nil
}

func parseSection(name string, keys map[string]any, lookup func(string) (string, bool)) (*StorageOptions, error) {
	at, err := parseTarget(name)
	if err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"s3", "gs", "az"}, at.scheme) {
		return nil, errors.New("only s3://, gs:// and az:// prefixes take options")
	}
	o := &StorageOptions{Prefix: strings.TrimSuffix(at.uri(), "/"), at: at}
	given := make(map[string]bool)
	for key, value := range keys {
		if key == "env" {
			continue
		}
		i := slices.IndexFunc(storageKeys, func(k storageKey) bool { return k.name == key })
		if i < 0 || !storageKeys[i].serves(at.scheme) {
			return nil, fmt.Errorf("unknown key %q for %s://; known: %s", key, at.scheme, knownKeys(at.scheme))
		}
		if !storageKeys[i].set(o, value) {
			return nil, fmt.Errorf("key %q has a value of the wrong type or an empty one", key)
		}
		given[key] = true
	}
	if err := o.fromEnvironment(keys["env"], given, lookup); err != nil {
		return nil, err
	}
	return o, o.validate()
}

func (k storageKey) serves(scheme string) bool { return strings.Contains(k.schemes, scheme) }

func knownKeys(scheme string) string {
	names := []string{"env"}
	for _, k := range storageKeys {
		if k.serves(scheme) {
			names = append(names, k.name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// fromEnvironment fills keys that the file leaves out from variables named by
// the prefix and the key in capitals, so "AWS_" means the usual ones.
func (o *StorageOptions) fromEnvironment(env any, given map[string]bool, lookup func(string) (string, bool)) error {
	if env == nil {
		return nil
	}
	prefix, ok := env.(string)
	if !ok || prefix == "" {
		return errors.New(`key "env" must be the text that variables of the environment start with, such as "AWS_"`)
	}
	found := false
	for _, k := range storageKeys {
		if !k.env || !k.serves(o.at.scheme) || given[k.name] {
			continue
		}
		if value, ok := lookup(prefix + strings.ToUpper(k.name)); ok && value != "" {
			k.set(o, value)
			found = true
		}
	}
	if !found {
		return fmt.Errorf(`key "env": no variable of the environment starts with %q and ends with one of the keys in capitals`, prefix)
	}
	return nil
}

// validate refuses combinations that would silently use other credentials
// than the ones meant.
func (o *StorageOptions) validate() error {
	secrets := !o.AccessKeyID.IsZero() || !o.SecretAccessKey.IsZero() || !o.SessionToken.IsZero() ||
		!o.Key.IsZero() || !o.SAS.IsZero() || o.CredentialsFile != ""
	switch {
	case o.AccessKeyID.IsZero() != o.SecretAccessKey.IsZero():
		return errors.New(`keys "access_key_id" and "secret_access_key" need each other`)
	case !o.SessionToken.IsZero() && o.AccessKeyID.IsZero():
		return errors.New(`key "session_token" needs "access_key_id" and "secret_access_key"`)
	case o.Anonymous && secrets:
		return errors.New(`key "anonymous" excludes credentials`)
	case !o.Key.IsZero() && !o.SAS.IsZero():
		return errors.New(`keys "key" and "sas" exclude each other`)
	case !o.Key.IsZero() && o.Account == "":
		return errors.New(`key "key" needs "account"`)
	case o.at.scheme == "az" && o.Account == "" && o.Endpoint == "":
		return errors.New(`key "account" or "endpoint" is needed`)
	}
	if o.Endpoint != "" {
		u, err := url.Parse(o.Endpoint)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return errors.New(`key "endpoint" must be http://HOST[:PORT][/PATH] or https://…, without user and query`)
		}
	}
	return nil
}

// Match gives the options for a URI: those of the longest prefix that holds it
// by whole components, or nil.
func (c *StorageConfig) Match(uri string) *StorageOptions {
	t, err := parseTarget(uri)
	if err != nil {
		return nil
	}
	return c.match(t)
}

func (c *StorageConfig) match(t target) *StorageOptions {
	if c == nil {
		return nil
	}
	for _, o := range c.sections {
		if t.within(o.at) {
			return o
		}
	}
	return nil
}

// Prefixes lists the configured prefixes.
func (c *StorageConfig) Prefixes() []string {
	if c == nil {
		return nil
	}
	prefixes := make([]string, 0, len(c.sections))
	for _, o := range c.sections {
		prefixes = append(prefixes, o.Prefix)
	}
	slices.Sort(prefixes)
	return prefixes
}

// String names the prefixes only.
func (c *StorageConfig) String() string {
	return "storage options for " + strings.Join(c.Prefixes(), ", ")
}

// GoString is String: %#v must not walk the options.
func (c *StorageConfig) GoString() string { return c.String() }

// LogValue is String for slog.
func (c *StorageConfig) LogValue() slog.Value { return slog.StringValue(c.String()) }

// String names the prefix only.
func (o *StorageOptions) String() string {
	if o == nil {
		return "no storage options"
	}
	return "storage options for " + o.Prefix
}

// GoString is String: %#v must not walk the options.
func (o *StorageOptions) GoString() string { return o.String() }

// LogValue is String for slog.
func (o *StorageOptions) LogValue() slog.Value { return slog.StringValue(o.String()) }

// Secrets lists the credentials, for removing them from messages of drivers.
func (o *StorageOptions) Secrets() []Secret {
	if o == nil {
		return nil
	}
	var all []Secret
	for _, s := range []Secret{o.AccessKeyID, o.SecretAccessKey, o.SessionToken, o.Key, o.SAS} {
		if !s.IsZero() {
			all = append(all, s)
		}
	}
	return all
}

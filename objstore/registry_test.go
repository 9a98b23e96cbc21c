package objstore_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// closing is a bucket that notes its closing.
type closing struct {
	*objstore.Mem
	closed *int
}

func (c closing) Close() error { *c.closed++; return nil }

func TestRegistryOpensOncePerSection(t *testing.T) {
	t.Parallel()
	storage, err := objstore.ParseStorage("s.toml", []byte("[\"s3://b\"]\nregion=\"top\"\n[\"s3://b/x\"]\nregion=\"deep\"\nsecret_access_key=\"hunter2\"\naccess_key_id=\"hunter2\""), lookup)
	if err != nil {
		t.Fatal(err)
	}
	var opened []string
	closed := 0
	open := func(_ context.Context, bucket string, o *objstore.StorageOptions) (objstore.Store, error) {
		if bucket == "bad" {
			return nil, fault.New(fault.Precondition, "objstore: no credentials")
		}
		region := "none"
		if o != nil {
			region = o.Region
		}
		opened = append(opened, bucket+" "+region)
		return closing{objstore.NewMem(bucket), &closed}, nil
	}
	var log bytes.Buffer
	r := objstore.NewRegistry(objstore.Options{
		Storage: storage,
		Schemes: map[string]objstore.Opener{"s3": open},
		Logger:  slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	locate := func(uri string) objstore.Location {
		t.Helper()
		loc, err := r.Locate(t.Context(), uri)
		if err != nil {
			t.Fatal(err)
		}
		return loc
	}
	if locate("s3://b/a").Store != locate("S3://b/c/d?e").Store {
		t.Error("one bucket is opened twice")
	}
	if locate("s3://b/a").Store == locate("s3://b/x/a").Store {
		t.Error("two sections share a bucket handle")
	}
	if got := locate("s3://b/x/a").Path; got != "x/a" {
		t.Errorf("the path is %q", got)
	}
	locate("s3://other/a")
	if diff := cmp.Diff([]string{"b top", "b deep", "other none"}, opened); diff != "" {
		t.Errorf("opened (-want +got)\n%s", diff)
	}
	if _, err := r.Locate(t.Context(), "s3://bad/x"); fault.KindOf(err) != fault.Precondition {
		t.Errorf("%v, want the opener's error", err)
	}
	for _, uri := range []string{"s3://", "s3:///x"} {
		if _, err := r.Locate(t.Context(), uri); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "names no bucket") {
			t.Errorf("%s: %v, want invalid", uri, err)
		}
	}
	if diff := cmp.Diff([]string{"file", "mem", "s3"}, r.Schemes()); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(log.String(), "bucket=other") || strings.Contains(log.String(), "hunter2") {
		t.Errorf("the log says %s", log.String())
	}
	if err := r.Close(); err != nil || closed != 3 {
		t.Errorf("closed %d buckets, %v; want 3", closed, err)
	}
}

func TestRegistryBoundsBuckets(t *testing.T) {
	t.Parallel()
	r := objstore.NewRegistry(objstore.Options{})
	var err error
	for i := 0; err == nil; i++ {
		if i > 5000 {
			t.Fatal("buckets have no bound")
		}
		_, err = r.Locate(t.Context(), fmt.Sprintf("mem://m%d/x", i))
	}
	if fault.KindOf(err) != fault.Exhausted {
		t.Errorf("%v, want exhausted", err)
	}
	if _, err := r.Locate(t.Context(), "mem://m0/y"); err != nil {
		t.Errorf("an open one: %v", err)
	}
}

func TestRegistryMem(t *testing.T) {
	t.Parallel()
	r := objstore.NewRegistry(objstore.Options{})
	r.Mem("m").Set("d/x", []byte("hello"))
	loc, err := r.Locate(t.Context(), "mem://m/d/x")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := objstore.ReadAll(t.Context(), loc, 10); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	other, err := objstore.NewRegistry(objstore.Options{}).Locate(t.Context(), "mem://m/d/x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Size(t.Context()); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another registry: %v, want not found", err)
	}
}

func TestMemKeepsOldReaders(t *testing.T) {
	t.Parallel()
	m := objstore.NewMem("m")
	data := []byte("old")
	m.Set("x", data)
	data[0] = '!' // Put copied
	mapping, err := m.Map(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	m.Set("x", []byte("new"))
	if string(mapping.Bytes()) != "old" {
		t.Errorf("the mapping holds %q", mapping.Bytes())
	}
	mapping.Release()
	got, err := objstore.ReadAll(t.Context(), objstore.Location{Store: m, Path: "x"}, 3)
	if err != nil || string(got) != "new" {
		t.Errorf("%q, %v", got, err)
	}
	got[0] = '!' // so did ReadAll
	if again, _ := objstore.ReadAll(t.Context(), objstore.Location{Store: m, Path: "x"}, 3); string(again) != "new" {
		t.Errorf("a caller changed the object: %q", again)
	}
}

func TestReadAllOfAnotherStore(t *testing.T) {
	t.Parallel()
	m := objstore.NewMem("m")
	m.Set("x", []byte("hello"))
	c := objstore.NewCounter(objstore.CounterOptions{})
	for _, s := range []objstore.Store{foreign{m}, objstore.Counted(foreign{m}, c)} {
		loc := objstore.Location{Store: s, Path: "x"}
		if got, err := objstore.ReadAll(t.Context(), loc, 5); err != nil || string(got) != "hello" {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := objstore.ReadAll(t.Context(), loc, 4); fault.KindOf(err) != fault.Exhausted {
			t.Errorf("%v, want exhausted", err)
		}
	}
	if want := (objstore.Count{Reads: 1, Bytes: 5, Sizes: 2}); c.Total() != want {
		t.Errorf("counted %+v, want %+v", c.Total(), want)
	}
	if _, err := objstore.ReadAll(t.Context(), objstore.Location{Store: lying{m}, Path: "x"}, 100); fault.KindOf(err) != fault.Corrupt {
		t.Errorf("a negative length: %v, want corrupt", err)
	}
	var none *objstore.StorageOptions
	if none.Secrets() != nil || none.String() != "no storage options" {
		t.Error("no options, but something to print")
	}
}

// lying is a store whose objects have a negative length.
type lying struct{ objstore.Store }

func (lying) Size(context.Context, string) (int64, error) { return -1, nil }

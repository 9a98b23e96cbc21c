package cloud

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/objstore/storetest"
)

func TestS3CopyInParts(t *testing.T) {
	t.Parallel()
	emulator := storetest.StartS3(t)
	emulator.Put(t, "bkt", "", nil)
	client, err := clientS3(t.Context(), &objstore.StorageOptions{
		Endpoint: emulator.Endpoint, Region: "us-east-1",
		AccessKeyID: objstore.NewSecret("id"), SecretAccessKey: objstore.NewSecret("secret"),
	})
	if err != nil {
		t.Fatal(err)
	}
	const part = 5 << 20 // the least that the service takes
	d := driverS3{client: client, bucket: "bkt", mostCopied: part}
	for name, size := range map[string]int{"one request": part, "two parts": part + 1, "a b+c%20/three parts": 3 * part} {
		data := storetest.Bytes(size, 1)
		emulator.Put(t, "bkt", name, data)
		if err := d.copy(t.Context(), name, "copy of "+name); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		to := "copy of " + name
		out, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &d.bucket, Key: &to})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := io.ReadAll(out.Body)
		out.Body.Close()
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %d other bytes, %v", name, len(got), err)
		}
		if tag := *out.ETag; strings.Contains(tag, "-") != (size > part) {
			t.Errorf("%s: tag %s", name, tag)
		}
	}
	if err := d.copy(t.Context(), "absent", "never"); err == nil {
		t.Error("a copy of nothing succeeds")
	}
}

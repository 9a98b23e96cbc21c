package cloud_test

import (
	"testing"

	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/objstore/storetest"
)

func TestServices(t *testing.T) {
	t.Parallel()
	t.Run("gs", func(t *testing.T) {
		t.Parallel()
		s := storetest.StartGCS(t)
		r := registry(t, objstore.Options{Storage: storage(t, "[\"gs://b\"]\nendpoint=\"%s\"\nanonymous=true", s.Endpoint)})
		storetest.Run(t, s.Seed(r, "gs://b"))
		if n := s.Pending(); n != 1 {
			t.Errorf("%d uploads are pending, want the one that was given up", n)
		}
	})
	t.Run("az", func(t *testing.T) {
		t.Parallel()
		s := storetest.StartAzure(t)
		r := registry(t, objstore.Options{Storage: storage(t, "[\"az://b\"]\nendpoint=\"%s\"\nanonymous=true", s.Endpoint)})
		storetest.Run(t, s.Seed(r, "az://b"), "%")
	})
}

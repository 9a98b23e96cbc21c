package storetest

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// StartAzure serves a container the way Azure's blob service does, as far as
// the client uses it: reads, lists, simple uploads and uploads in blocks under
// the condition of absence, and deletions. The account is "acct".
func StartAzure(t *testing.T) *Service {
	t.Helper()
	o := newObjects()
	s := newService(t, azure{o})
	s.Endpoint += "/acct"
	s.objects = o
	return s
}

type azure struct{ *objects }

func (a azure) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 3) // account, container, key
	q := r.URL.Query()
	if len(parts) < 3 {
		if q.Get("comp") == "list" {
			a.page(w, r)
		} else {
			failAzure(w, http.StatusBadRequest, "InvalidUri")
		}
		return
	}
	key := parts[2]
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		have, ok := a.get(key)
		if !ok {
			failAzure(w, http.StatusNotFound, "BlobNotFound")
			return
		}
		w.Header().Set("x-ms-blob-type", "BlockBlob")
		w.Header().Set("x-ms-creation-time", have.modified.UTC().Format(http.TimeFormat))
		have.serve(w, r)
	case http.MethodDelete:
		if !a.remove(key) {
			failAzure(w, http.StatusNotFound, "BlobNotFound")
			return
		}
		w.WriteHeader(http.StatusAccepted)
	case http.MethodPut:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client gave up
		}
		a.write(w, r, key, body)
	default:
		failAzure(w, http.StatusMethodNotAllowed, "UnsupportedHttpVerb")
	}
}

func (a azure) write(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	q := r.URL.Query()
	switch q.Get("comp") {
	case "block":
		a.part(key, q.Get("blockid"), body)
		w.WriteHeader(http.StatusCreated)
		return
	case "blocklist":
		var list struct {
			Latest []string `xml:"Latest"`
		}
		if err := xml.Unmarshal(body, &list); err != nil {
			failAzure(w, http.StatusBadRequest, "InvalidXmlDocument")
			return
		}
		body = a.joined(key, list.Latest) // blocks stay for the next list
	}
	made, ok := a.put(key, body, r.Header.Get("If-None-Match") == "*")
	if !ok {
		failAzure(w, http.StatusConflict, "BlobAlreadyExists")
		return
	}
	w.Header().Set("ETag", fmt.Sprintf(`"%d"`, made.generation))
	w.Header().Set("Last-Modified", made.modified.UTC().Format(http.TimeFormat))
	w.WriteHeader(http.StatusCreated)
}

type azureBlob struct {
	Name       string
	Properties struct {
		LastModified  string `xml:"Last-Modified"`
		ContentLength string `xml:"Content-Length"`
		Etag          string
		BlobType      string
	}
}

type azurePrefix struct{ Name string }

func (a azure) page(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	most, _ := strconv.Atoi(q.Get("maxresults"))
	keys, folders, next := a.list(q.Get("prefix"), q.Get("delimiter"), q.Get("marker"), most)
	var page struct {
		XMLName xml.Name `xml:"EnumerationResults"`
		Blobs   struct {
			Blob       []azureBlob
			BlobPrefix []azurePrefix
		}
		NextMarker string
	}
	page.NextMarker = next
	for _, k := range keys {
		o, ok := a.get(k)
		if !ok {
			continue
		}
		b := azureBlob{Name: k}
		b.Properties.LastModified = o.modified.UTC().Format(http.TimeFormat)
		b.Properties.ContentLength = strconv.Itoa(len(o.data))
		b.Properties.Etag = fmt.Sprintf(`"%d"`, o.generation)
		b.Properties.BlobType = "BlockBlob"
		page.Blobs.Blob = append(page.Blobs.Blob, b)
	}
	for _, f := range folders {
		page.Blobs.BlobPrefix = append(page.Blobs.BlobPrefix, azurePrefix{f})
	}
	w.Header().Set("Content-Type", "application/xml")
	_, _ = io.WriteString(w, xml.Header)
	_ = xml.NewEncoder(w).Encode(page)
}

func failAzure(w http.ResponseWriter, status int, code string) {
	w.Header().Set("x-ms-error-code", code)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, code)
}

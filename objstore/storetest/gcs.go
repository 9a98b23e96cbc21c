package storetest

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// StartGCS serves a bucket the way Google's JSON interface does, as far as the
// client uses it: reads, lists, simple and resumable uploads under the
// condition of absence, deletions and copies.
func StartGCS(t *testing.T) *Service {
	t.Helper()
	o := newObjects()
	s := newService(t, gcs{o})
	s.objects = o
	return s
}

type gcs struct{ *objects }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func base64Of(sum uint32) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

func (g gcs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	if strings.HasPrefix(path, "/upload/storage/v1/b/") {
		g.upload(w, r)
		return
	}
	rest, api := strings.CutPrefix(path, "/storage/v1/b/")
	if !api { // reads go to /bucket/key
		_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		g.read(w, r, key)
		return
	}
	_, rest, _ = strings.Cut(rest, "/o")
	if rest == "" {
		g.page(w, r)
		return
	}
	from, to, copied := strings.Cut(rest[1:], "/rewriteTo/")
	key, err := url.PathUnescape(from)
	if err != nil {
		failGCS(w, http.StatusBadRequest, "invalid")
		return
	}
	have, there := g.get(key)
	switch {
	case !there:
		failGCS(w, http.StatusNotFound, "notFound")
	case copied:
		_, escaped, _ := strings.Cut(to, "/o/")
		target, err := url.PathUnescape(escaped)
		if err != nil {
			failGCS(w, http.StatusBadRequest, "invalid")
			return
		}
		made, _ := g.put(target, have.data, false)
		answerJSON(w, map[string]any{"done": true, "totalBytesRewritten": strconv.Itoa(len(have.data)), "resource": resourceGCS(target, made)})
	case r.Method == http.MethodDelete:
		g.remove(key)
		w.WriteHeader(http.StatusNoContent)
	default:
		answerJSON(w, resourceGCS(key, have))
	}
}

func (g gcs) read(w http.ResponseWriter, r *http.Request, key string) {
	have, ok := g.get(key)
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("x-goog-generation", strconv.FormatInt(have.generation, 10))
	have.serve(w, r)
}

func resourceGCS(key string, o object) map[string]any {
	return map[string]any{
		"kind": "storage#object", "name": key, "bucket": "b", "size": strconv.Itoa(len(o.data)),
		"generation": strconv.FormatInt(o.generation, 10), "metageneration": "1",
		"crc32c":  base64Of(crc32.Checksum(o.data, castagnoli)),
		"updated": o.modified.Format(time.RFC3339Nano), "timeCreated": o.modified.Format(time.RFC3339Nano),
	}
}

func (g gcs) page(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	most, _ := strconv.Atoi(q.Get("maxResults"))
	keys, folders, next := g.list(q.Get("prefix"), q.Get("delimiter"), q.Get("pageToken"), most)
	items := make([]any, 0, len(keys))
	for _, k := range keys {
		if o, ok := g.get(k); ok {
			items = append(items, resourceGCS(k, o))
		}
	}
	answerJSON(w, map[string]any{"items": items, "prefixes": folders, "nextPageToken": next})
}

func (g gcs) upload(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client gave up
	}
	ifAbsent := q.Get("ifGenerationMatch") == "0"
	switch {
	case q.Get("upload_id") != "":
		g.resume(w, r, body)
	case q.Get("uploadType") == "resumable":
		var meta struct{ Name string }
		if err := json.Unmarshal(body, &meta); err != nil {
			failGCS(w, http.StatusBadRequest, "invalid")
			return
		}
		id := fmt.Sprintf("upload-%d", g.folders())
		g.part(id, "", nil)
		to := *r.URL
		to.Scheme, to.Host = "http", r.Host
		to.RawQuery = url.Values{
			"upload_id": {id}, "name": {meta.Name}, "uploadType": {"resumable"}, "ifGenerationMatch": {q.Get("ifGenerationMatch")},
		}.Encode()
		w.Header().Set("Location", to.String())
	default:
		name, data, err := multipartGCS(r.Header.Get("Content-Type"), body)
		if err != nil {
			failGCS(w, http.StatusBadRequest, "invalid")
			return
		}
		g.finish(w, name, data, ifAbsent)
	}
}

// resume takes a chunk: "bytes 0-99/*", the last one with its total.
func (g gcs) resume(w http.ResponseWriter, r *http.Request, body []byte) {
	q := r.URL.Query()
	id := q.Get("upload_id")
	span, total, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Content-Range"), "bytes "), "/")
	g.mu.Lock()
	sofar, known := g.pending[id][""]
	g.mu.Unlock()
	if !known {
		failGCS(w, http.StatusNotFound, "notFound")
		return
	}
	if span != "*" {
		first, _, _ := strings.Cut(span, "-")
		at, err := strconv.Atoi(first)
		if err != nil || at > len(sofar) {
			failGCS(w, http.StatusBadRequest, "invalid")
			return
		}
		sofar = append(sofar[:at:at], body...)
		g.part(id, "", sofar)
	}
	if total == "*" {
		if len(sofar) > 0 {
			w.Header().Set("Range", fmt.Sprintf("bytes=0-%d", len(sofar)-1))
		}
		w.Header().Set("X-Http-Status-Code-Override", "308") // "resume incomplete", as the client asks for
		return
	}
	g.end(id)
	g.finish(w, q.Get("name"), sofar, q.Get("ifGenerationMatch") == "0")
}

func (g gcs) finish(w http.ResponseWriter, name string, data []byte, ifAbsent bool) {
	made, ok := g.put(name, data, ifAbsent)
	if !ok {
		failGCS(w, http.StatusPreconditionFailed, "conditionNotMet")
		return
	}
	answerJSON(w, resourceGCS(name, made))
}

// multipartGCS splits a simple upload: what it is called, and its bytes.
func multipartGCS(contentType string, body []byte) (name string, data []byte, err error) {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return "", nil, err
	}
	parts := multipart.NewReader(strings.NewReader(string(body)), params["boundary"])
	part, err := parts.NextPart()
	if err != nil {
		return "", nil, err
	}
	var meta struct{ Name string }
	if err := json.NewDecoder(part).Decode(&meta); err != nil {
		return "", nil, err
	}
	if part, err = parts.NextPart(); err != nil {
		return "", nil, err
	}
	data, err = io.ReadAll(part)
	return meta.Name, data, err
}

func answerJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

func failGCS(w http.ResponseWriter, status int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
		"code": status, "message": reason, "errors": []any{map[string]any{"reason": reason, "message": reason}},
	}})
}

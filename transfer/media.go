package transfer

import (
	"bytes"
	"net/http"
	"path"
	"strings"
)

// sniffed is how many bytes of a file its media type is told by.
const sniffed = 512

// byExtension knows what content does not tell: types that look like plain text,
// an archive or nothing at all.
var byExtension = map[string]string{
	".avif": "image/avif", ".csv": "text/csv", ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".flac": "audio/flac", ".gltf": "model/gltf+json", ".heic": "image/heic", ".html": "text/html", ".jp2": "image/jp2",
	".json": "application/json", ".jsonl": "application/jsonl", ".m4a": "audio/mp4", ".md": "text/markdown", ".mkv": "video/x-matroska",
	".mov": "video/quicktime", ".mp3": "audio/mpeg", ".mp4": "video/mp4", ".npy": "application/x-npy", ".opus": "audio/ogg",
	".parquet": "application/vnd.apache.parquet", ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	".safetensors": "application/x-safetensors", ".svg": "image/svg+xml", ".tif": "image/tiff", ".tiff": "image/tiff",
	".toml": "application/toml", ".ts": "video/mp2t", ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".xml": "application/xml", ".yaml": "application/yaml", ".yml": "application/yaml",
}

// signatures are beginnings that the standard library does not know.
var signatures = []struct {
	at    int
	magic string
	kind  string
}{
	{0, "II*\x00", "image/tiff"},
	{0, "MM\x00*", "image/tiff"},
	{0, "fLaC", "audio/flac"},
	{0, "\x1aE\xdf\xa3", "video/x-matroska"},
	{0, "PAR1", "application/vnd.apache.parquet"},
	{4, "ftypavif", "image/avif"},
	{4, "ftypheic", "image/heic"},
	{4, "ftypheix", "image/heic"},
	{4, "ftypM4A", "audio/mp4"},
	{4, "ftypqt", "video/quicktime"},
	{0, "\x00\x00\x00\x0cjP  ", "image/jp2"},
}

// mediaType tells a file's media type by its first bytes, and by its name where
// they say nothing in particular.
func mediaType(head []byte, name string) string {
	for _, s := range signatures {
		if len(head) >= s.at+len(s.magic) && bytes.Equal(head[s.at:s.at+len(s.magic)], []byte(s.magic)) {
			return webm(s.kind, name)
		}
	}
	kind, _, _ := strings.Cut(http.DetectContentType(head), ";")
	switch kind {
	case "application/octet-stream", "text/plain", "text/xml", "application/zip", "application/ogg":
		if known, ok := byExtension[strings.ToLower(path.Ext(name))]; ok {
			return known
		}
	}
	return kind
}

// webm tells the two types that share a container apart.
func webm(kind, name string) string {
	if kind == "video/x-matroska" && strings.EqualFold(path.Ext(name), ".webm") {
		return "video/webm"
	}
	return kind
}

// extensions of the types that files are likely to have, the usual one each.
var extensions = map[string]string{
	"image/jpeg": ".jpg", "image/png": ".png", "image/gif": ".gif", "image/webp": ".webp", "image/bmp": ".bmp",
	"audio/wave": ".wav", "audio/aiff": ".aiff", "audio/midi": ".mid", "audio/mpeg": ".mp3", "application/ogg": ".ogg",
	"video/mp4": ".mp4", "video/webm": ".webm", "video/avi": ".avi", "application/pdf": ".pdf", "application/zip": ".zip",
	"application/x-gzip": ".gz", "text/html": ".html", "text/plain": ".txt", "text/xml": ".xml",
	"image/tiff": ".tif", "audio/flac": ".flac", "video/x-matroska": ".mkv", "application/vnd.apache.parquet": ".parquet",
	"image/avif": ".avif", "image/heic": ".heic", "audio/mp4": ".m4a", "video/quicktime": ".mov", "image/jp2": ".jp2",
}

// extension is how the name of a file with such a beginning should end.
func extension(head []byte) string {
	if ext, ok := extensions[mediaType(head, "")]; ok {
		return ext
	}
	return ".bin"
}

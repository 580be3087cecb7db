// Package file keeps what clients upload: rows with a name and a purpose, bytes in a blob store.
//
// It knows no container and no request. What holds: a row is seen only while its bytes are whole; a file of another
// organisation looks absent, and so does one whose time is up; bytes are removed with their row, also when a process is
// killed between the two; a name is a label, never a path on this machine.
package file

import (
	"path"
	"strings"
	"time"
)

// File is an uploaded file.
type File struct {
	ID      string
	Org     string
	Name    string // as the client gave it; valid UTF-8 without NUL, no longer than 255 bytes
	Bytes   int64
	Purpose string
	Created time.Time
	Expires time.Time // zero is never

	backend string
}

// The states of a row. Only kept ones are seen.
const (
	uploading = "uploading"
	kept      = "kept"
	deleted   = "deleted"
)

// Purposes are what a file may be uploaded for.
var Purposes = []string{"assistants", "batch", "fine-tune", "vision", "user_data", "evals"}

// Page asks for a part of a list. The zero value is the newest 10,000.
type Page struct {
	Limit   int    // 1 to 10,000; 0 is 10,000
	After   string // an id; the page begins behind it
	Order   string // "desc" (newest first, also when empty) or "asc"
	Purpose string // exactly this purpose; empty is every one
}

// Limits bound uploads. A zero field takes the default that its comment names.
type Limits struct {
	MaxBytes    int64 // of one file; 512 MiB, the vendor's
	MaxOrgBytes int64 // of all files of an organisation; no limit
}

// contentTypes are the types that people download, by extension. The machine's own table is not asked: an answer must
// not depend on what is installed.
var contentTypes = map[string]string{
	".csv": "text/csv", ".css": "text/css", ".doc": "application/msword",
	".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".gif":  "image/gif", ".gz": "application/gzip", ".htm": "text/html", ".html": "text/html", ".ico": "image/x-icon",
	".jpeg": "image/jpeg", ".jpg": "image/jpeg", ".js": "text/javascript", ".json": "application/json",
	".jsonl": "application/jsonl", ".log": "text/plain", ".md": "text/markdown", ".mp3": "audio/mpeg", ".mp4": "video/mp4",
	".parquet": "application/vnd.apache.parquet", ".pdf": "application/pdf", ".png": "image/png",
	".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	".py":   "text/x-python", ".sh": "application/x-sh", ".sqlite": "application/vnd.sqlite3", ".svg": "image/svg+xml",
	".tar": "application/x-tar", ".tgz": "application/gzip", ".toml": "application/toml", ".tsv": "text/tab-separated-values",
	".txt": "text/plain", ".wav": "audio/wav", ".webp": "image/webp", ".xls": "application/vnd.ms-excel",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".xml":  "application/xml", ".yaml": "application/yaml", ".yml": "application/yaml", ".zip": "application/zip",
}

// ContentType is the type of a file by its name's extension.
func ContentType(name string) string {
	if t, ok := contentTypes[strings.ToLower(path.Ext(name))]; ok {
		return t
	}
	return "application/octet-stream"
}

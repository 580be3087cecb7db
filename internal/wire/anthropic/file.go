package anthropic

// File is a file's metadata, as GET /v1/files/{id} tells it.
type File struct {
	ID           string `json:"id"`
	Type         string `json:"type"` // "file"
	Filename     string `json:"filename"`
	MimeType     string `json:"mime_type"`
	SizeBytes    int64  `json:"size_bytes"`
	CreatedAt    string `json:"created_at"` // RFC 3339
	Downloadable bool   `json:"downloadable"`
}

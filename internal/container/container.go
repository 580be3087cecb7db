package container

import (
	"time"
)

// The states of a container. Active is the only one in which commands run, and only an expired one becomes so again.
const (
	Active  = "active"
	Expired = "expired" // idle for its whole TTL: processes are gone, files stay for a while
	Deleted = "deleted" // by its owner: looks absent
	Lost    = "lost"    // its node is gone
)

// next is the table of a container's states.
var next = map[string][]string{
	Active:  {Expired, Deleted, Lost},
	Expired: {Active, Deleted}, // Active: restored
	Lost:    {Deleted},
}

// Container is a place that outlives a command: a workspace and what runs over it.
type Container struct {
	ID          string
	Org         string
	Name        string
	Status      string
	MemoryLimit string // as it was asked for, such as "1g"
	IdleTTL     time.Duration
	Network     *NetworkPolicy
	Created     time.Time
	LastActive  time.Time // start or end of its last command, or now while one runs
	Ended       time.Time // zero while active
	DiskLimit   int64     // bytes that its files may take; 0 is no limit
}

// Expires is when an active container ends if nothing uses it, and when another one ended.
func (c Container) Expires() time.Time {
	if c.Status == Active {
		return c.LastActive.Add(c.IdleTTL)
	}
	return c.Ended
}

// CreateSpec is what may be asked of a new container. The zero value works.
type CreateSpec struct {
	Name        string
	MemoryLimit string        // "1g", "512mb", bytes; empty is the default
	IdleTTL     time.Duration // 0 is the default
	Network     *NetworkPolicy
	Secrets     []DomainSecret
	FileIDs     []string // uploaded files to put into the workspace
	Skills      []SkillRequest
}

// NetworkPolicy is what a container may reach.
type NetworkPolicy struct {
	Type           string   `json:"type"` // "disabled" | "allowlist"
	AllowedDomains []string `json:"allowed_domains,omitempty"`
}

// Page asks for a part of a list. The zero value is the newest 20.
type Page struct {
	Limit int    // 1 to 100; 0 is 20
	After string // an id; the page begins behind it
	Order string // "desc" (newest first, also when empty) or "asc"
	Name  string // containers only: exactly this name; empty is every name
}

// File is a regular file of a container's workspace, as it is now.
type File struct {
	ID          string
	ContainerID string
	Path        string // absolute, under /mnt/data, valid UTF-8
	Bytes       int64
	Created     time.Time // when the file was first seen
	Source      string    // SourceUser | SourceAssistant
	ContentType string    // by the name's extension
}

// Who wrote a file last.
const (
	SourceUser      = "user"
	SourceAssistant = "assistant"
)

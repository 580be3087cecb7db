package openai

import "encoding/json"

// ContainerRequest is the body of POST /v1/containers.
type ContainerRequest struct {
	Name          string          `json:"name"`
	ExpiresAfter  *ExpiresAfter   `json:"expires_after"`
	FileIDs       []string        `json:"file_ids"`
	MemoryLimit   *string         `json:"memory_limit"`
	NetworkPolicy *NetworkPolicy  `json:"network_policy"`
	Skills        json.RawMessage `json:"skills"`
}

// Container is the container object. Times are Unix seconds.
type Container struct {
	ID            string         `json:"id"`
	Object        string         `json:"object"` // "container"
	CreatedAt     int64          `json:"created_at"`
	Status        string         `json:"status"` // active | expired | deleted | lost
	Name          string         `json:"name"`
	LastActiveAt  int64          `json:"last_active_at"`
	ExpiresAfter  *ExpiresAfter  `json:"expires_after"`
	MemoryLimit   *string        `json:"memory_limit"`
	NetworkPolicy *NetworkPolicy `json:"network_policy"`
	ExpiresAt     int64          `json:"expires_at"`    // an extension of the Hadrian seed
	IdleTTLSecs   int64          `json:"idle_ttl_secs"` // an extension of the Hadrian seed
	Disk          *DiskLimit     `json:"disk,omitempty"`
	Skills        []MountedSkill `json:"skills,omitempty"` // an extension of ours; not in lists
}

// MountedSkill is a skill that a container has. One that came inline has no id and no version.
type MountedSkill struct {
	Type        string `json:"type"` // "skill_reference" | "inline"
	SkillID     string `json:"skill_id,omitempty"`
	Version     string `json:"version,omitempty"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Path        string `json:"path"`
}

// DiskLimit is what a container's files may take of the disk, an extension of ours.
type DiskLimit struct {
	LimitBytes int64  `json:"limit_bytes"`
	EnforcedBy string `json:"enforced_by"` // "watchdog": counted while commands run, who passes it is stopped
}

// Survivors are the files of a container that has expired, an extension of ours in the error that says so.
type Survivors struct {
	ContainerID string          `json:"container_id"`
	Until       int64           `json:"until"`
	Files       []ContainerFile `json:"files"`
	More        bool            `json:"more"` // there may be others
	Restore     bool            `json:"restore"`
}

// ContainerFile is a file of a container's workspace.
type ContainerFile struct {
	ID          string `json:"id"`
	Object      string `json:"object"` // "container.file"
	Bytes       int64  `json:"bytes"`
	ContainerID string `json:"container_id"`
	CreatedAt   int64  `json:"created_at"`
	Path        string `json:"path"`   // absolute, under /mnt/data
	Source      string `json:"source"` // "user" | "assistant"
}

package openai

// Skill is a bundle of files with a SKILL.md, in versions. Times are Unix seconds; versions are numbers as text.
type Skill struct {
	ID             string `json:"id"`
	Object         string `json:"object"` // "skill"
	CreatedAt      int64  `json:"created_at"`
	Name           string `json:"name"`
	Description    string `json:"description"`
	DefaultVersion string `json:"default_version"`
	LatestVersion  string `json:"latest_version"`
}

// SkillVersion is one version of a skill.
type SkillVersion struct {
	ID          string `json:"id"`
	Object      string `json:"object"` // "skill.version"
	SkillID     string `json:"skill_id"`
	Version     string `json:"version"`
	CreatedAt   int64  `json:"created_at"`
	Name        string `json:"name"`
	Description string `json:"description"`
}

// DeletedSkillVersion is the answer to the deletion of one version.
type DeletedSkillVersion struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // "skill.version.deleted"
	Deleted bool   `json:"deleted"`
	Version string `json:"version"`
}

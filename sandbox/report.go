package sandbox

// Rung is how strong a box really is.
type Rung string

// The rungs, strongest first.
const (
	RungJail       Rung = "jail"       // namespaces, read-only mounts, Landlock and seccomp
	RungRestricted Rung = "restricted" // Landlock and seccomp only
	RungNone       Rung = "none"       // no restriction of ours
)

// Report says what was asked of a box and what was got. Nothing runs weaker than Asked; Missing names what is less
// than it could be all the same.
type Report struct {
	Asked    Rung     `json:"asked"`
	Got      Rung     `json:"got"`
	Missing  []string `json:"missing,omitempty"`
	Remedies []string `json:"remedies,omitempty"`
	Limits   string   `json:"limits"` // "hard" where the kernel enforces what was asked, "none" where nothing is
}

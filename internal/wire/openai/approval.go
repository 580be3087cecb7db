package openai

// Approval is a question that a hosted shell call asks a person: an object of ours, beside the vendor's. What can be null
// is unknown until it is answered.
type Approval struct {
	ID               string            `json:"id"`
	Object           string            `json:"object"` // "approval"
	Status           string            `json:"status"` // pending | approved | denied | expired | cancelled
	Scope            *string           `json:"scope"`  // once | container
	ResponseID       string            `json:"response_id"`
	ItemID           string            `json:"item_id"`
	CallID           string            `json:"call_id"`
	ContainerID      string            `json:"container_id"`
	Digest           string            `json:"digest"` // of exactly what would run
	Policy           string            `json:"policy"`
	Commands         []ApprovalCommand `json:"commands"`
	WorkingDirectory string            `json:"working_directory"`
	Env              map[string]string `json:"env,omitempty"`
	Stdin            string            `json:"stdin,omitempty"`
	CreatedAt        int64             `json:"created_at"`
	ExpiresAt        int64             `json:"expires_at"`
	DecidedAt        *int64            `json:"decided_at"`
	DecidedBy        *string           `json:"decided_by"` // the id of a key
	Reason           *string           `json:"reason"`
}

// ApprovalCommand is one command of the call.
type ApprovalCommand struct {
	Command string         `json:"command"`
	Asks    bool           `json:"asks"`
	Reasons []string       `json:"reasons"`
	Parts   []ApprovalPart `json:"parts"`
}

// ApprovalPart is one part of a command with what was decided about it.
type ApprovalPart struct {
	Text    string `json:"text"`
	Class   string `json:"class"`
	Verdict string `json:"verdict"`
	Rule    string `json:"rule,omitempty"`
	Why     string `json:"why,omitempty"`
}

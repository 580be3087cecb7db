package sandbox

import "time"

// Layer is one part of the isolation, as hardshell doctor shows it.
type Layer struct {
	Name   string        `json:"name"`
	State  string        `json:"state"` // working, degraded or missing
	Detail string        `json:"detail,omitempty"`
	Remedy string        `json:"remedy,omitempty"` // one command
	Cost   time.Duration `json:"cost_ns,omitempty"`
}

// The states of a Layer.
const (
	Working  = "working"
	Degraded = "degraded"
	Missing  = "missing"
)

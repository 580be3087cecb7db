package cli

import (
	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
)

// health is what GET /healthz answers, seen by anybody: no paths, no names, no keys.
type health struct {
	Status  string      `json:"status"` // ok: the API answers, whatever the shell does
	Version string      `json:"version"`
	Shell   shellHealth `json:"shell"`
}

type shellHealth struct {
	Runtime   string   `json:"runtime"`
	Available bool     `json:"available"`
	Asked     string   `json:"asked,omitempty"`
	Got       string   `json:"got,omitempty"`
	Missing   []string `json:"missing,omitempty"`
	Error     string   `json:"error,omitempty"`
	Try       string   `json:"try,omitempty"`
}

// healthOf tells the truth about hosted shells. An error's cause stays with the operator.
func healthOf(f container.Facts) health {
	h := health{Status: "ok", Version: readBuild().Version,
		Shell: shellHealth{Runtime: f.Runtime, Available: f.Available == nil, Asked: f.Isolation.Asked, Got: f.Isolation.Got, Missing: f.Isolation.Missing}}
	if f.Available != nil {
		h.Shell.Error = "Hosted shells are not to be had here."
		if e, ok := fault.As(f.Available); ok {
			h.Shell.Error, h.Shell.Try = e.Message, e.Try
		}
	}
	return h
}

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

type versionCommand struct {
	JSON bool `help:"Print a JSON object."`
}

func (versionCommand) Help() string {
	return "Example:\n\n  hardshell version --json\n"
}

// Run prints the version that the build recorded.
func (c versionCommand) Run(p *program) error {
	v := buildVersion()
	if c.JSON {
		return writeJSON(p.Out, v)
	}
	_, err := fmt.Fprintf(p.Out, "hardshell %s (%s, %s)\n", v.Version, v.Go, v.Platform)
	return err
}

type version struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// buildVersion reads what the go command recorded: a release's tag, or the commit that was built.
func buildVersion() version {
	v := version{Version: "dev", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// writeJSON prints one indented JSON document.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// version is set by the linker in a release build (-X), and by nothing else.
var version string

type versionCommand struct {
	JSON bool `help:"Print a JSON object."`
}

func (versionCommand) Help() string {
	return "Example:\n\n  hardshell version --json\n"
}

// Run prints the version that the build recorded.
func (c versionCommand) Run(p *program) error {
	b := readBuild()
	if c.JSON {
		return writeJSON(p.Out, b)
	}
	_, err := fmt.Fprintf(p.Out, "hardshell %s (%s, %s)\n", b.Version, b.Go, b.Platform)
	return err
}

// build is what this binary is.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// readBuild reads what the linker or else the go command recorded: a release's tag, or the commit that was built.
func readBuild() build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if ok && b.Version == "" && info.Main.Version != "(devel)" {
		b.Version = info.Main.Version
	}
	if b.Version == "" {
		b.Version = "dev"
	}
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// writeJSON prints one indented JSON document.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

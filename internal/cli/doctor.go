package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/config"
	"github.com/hardshell-dev/hardshell/sandbox"
)

type doctorCommand struct {
	globals
	JSON bool `help:"Print a JSON object."`
}

func (doctorCommand) Help() string {
	return `Tries every layer of isolation on this machine and says what works, what it costs, and what would repair it. The
exit code is 1 when hosted shells cannot run here.

Example:

  hardshell doctor --json
`
}

// checkup is what doctor found.
type checkup struct {
	build
	Kernel    string         `json:"kernel"`
	Layers    []layer        `json:"layers"`
	Shell     shellCheck     `json:"hosted_shells"`
	Local     shellCheck     `json:"local_shells"`
	Data      finding        `json:"data"`
	Config    finding        `json:"config"`
	Providers []providerNote `json:"providers"`
}

// layer is one layer of isolation.
type layer struct {
	Name   string  `json:"name"`
	State  string  `json:"state"` // working | degraded | missing
	Detail string  `json:"detail,omitempty"`
	CostMS float64 `json:"cost_ms"`
	Remedy string  `json:"remedy,omitempty"`
}

// shellCheck says whether a kind of shell can run here, and in how strong a sandbox.
type shellCheck struct {
	Available bool   `json:"available"`
	Rung      string `json:"rung,omitempty"`
	Program   string `json:"program,omitempty"`
	Error     string `json:"error,omitempty"`
	Try       string `json:"try,omitempty"`
}

// finding is a path and what is to be said of it.
type finding struct {
	Path   string `json:"path,omitempty"`
	State  string `json:"state"`
	Detail string `json:"detail,omitempty"`
}

type providerNote struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Origin  string `json:"origin"`
	BaseURL string `json:"base_url,omitempty"`
}

// Run examines the machine. A configuration that is wrong is a finding, not an end.
func (c doctorCommand) Run(ctx context.Context, p *program) error {
	found := checkup{build: readBuild(), Kernel: kernel(), Layers: []layer{}, Providers: []providerNote{}}
	for _, l := range sandbox.Probe(ctx) {
		found.Layers = append(found.Layers, layer{Name: l.Name, State: l.State, Detail: l.Detail,
			CostMS: float64(l.Cost.Microseconds()) / 1000, Remedy: l.Remedy})
	}
	found.Shell = examineShell(sandbox.Supported(ctx))
	found.Local = examineLocal(sandbox.SupportedRung(ctx))
	loaded, err := p.load(c.globals)
	if err != nil {
		found.Config = finding{Path: c.Config, State: "wrong", Detail: err.Error()}
		loaded = &config.Loaded{Config: config.Default()}
	} else {
		found.Config = finding{Path: loaded.Path, State: "working", Detail: "no file, and none is needed"}
		if loaded.Path != "" {
			found.Config.Detail = ""
		}
		found.Data = examineData(loaded.Config.Storage.Data)
	}
	conf := config.WithFound(ctx, loaded.Config, p.environ)
	for _, name := range conf.ProviderNames() {
		provider := conf.Providers[name]
		if provider.Origin == "" {
			provider.Origin = "configured"
		}
		found.Providers = append(found.Providers, providerNote{name, provider.Type, provider.Origin, provider.BaseURL})
	}
	if c.JSON {
		err = writeJSON(p.Out, found)
	} else {
		err = found.write(p)
	}
	if err == nil && !found.Shell.Available {
		return exitCode(exitFailed)
	}
	return err
}

// examineShell says whether hosted shells can run: the jail, and a shell to put into it.
func examineShell(err error) shellCheck {
	s := shellCheck{Available: err == nil}
	if err != nil {
		s.refused(err)
		return s
	}
	s.Rung = string(sandbox.RungJail) // a hosted box is nothing less
	for _, path := range []string{"/bin/bash", "/usr/bin/bash", "/bin/sh"} {
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			s.Program = path
			return s
		}
	}
	s.Available, s.Error, s.Try = false, "there is no shell on this machine", "install bash"
	return s
}

// examineLocal says how strong a box of `hardshell run` is. The error of a rung says why it is not a stronger one.
func examineLocal(rung sandbox.Rung, err error) shellCheck {
	s := shellCheck{Available: rung != "", Rung: string(rung)}
	if err != nil {
		s.refused(err)
	}
	return s
}

func (s *shellCheck) refused(err error) {
	s.Error = err.Error()
	if f, ok := fault.As(err); ok {
		s.Try = f.Try
	}
}

// examineData says what is to be said of the data folder, without making it.
func examineData(dir string) finding {
	info, err := os.Stat(dir)
	switch {
	case os.IsNotExist(err):
		return finding{Path: dir, State: "working", Detail: "made at the first start"}
	case err != nil:
		return finding{Path: dir, State: "missing", Detail: err.Error()}
	case !info.IsDir():
		return finding{Path: dir, State: "missing", Detail: "it is not a folder"}
	case info.Mode().Perm()&0o077 != 0:
		return finding{Path: dir, State: "degraded", Detail: "others can read it; chmod 700 closes it"}
	}
	if a, ok := readAddress(dir); ok {
		return finding{Path: dir, State: "working", Detail: fmt.Sprintf("process %d serves it at %s", a.PID, a.URL)}
	}
	return finding{Path: dir, State: "working"}
}

// write prints the findings for a person.
func (c checkup) write(p *program) error {
	fmt.Fprintf(p.Out, "hardshell %s · %s · kernel %s\n\n", c.Version, c.Platform, c.Kernel)
	table := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', 0)
	for _, l := range c.Layers {
		lines := wrapped(l.Detail, detailWidth)
		fmt.Fprintf(table, "%s\t%s\t%s\t%.1f ms\t%s\n", mark(l.State), l.Name, l.State, l.CostMS, lines[0])
		for _, line := range lines[1:] {
			fmt.Fprintf(table, "\t\t\t\t%s\n", line)
		}
		if l.Remedy != "" && l.State != "working" {
			fmt.Fprintf(table, "\t\ttry: %s\n", l.Remedy)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(p.Out)
	switch {
	case c.Shell.Available:
		fmt.Fprintf(p.Out, "hosted   hosted shells can run here, in a %s, with %s\n", c.Shell.Rung, c.Shell.Program)
	default:
		fmt.Fprintf(p.Out, "hosted   hosted shells cannot run here: %s\n", c.Shell.Error)
		c.Shell.remedy(p)
	}
	switch {
	case c.Local.Available && c.Local.Error == "":
		fmt.Fprintf(p.Out, "local    commands of `hardshell run` get the rung %s\n", c.Local.Rung)
	case c.Local.Available:
		fmt.Fprintf(p.Out, "local    commands of `hardshell run` get the rung %s only: %s\n", c.Local.Rung, c.Local.Error)
		c.Local.remedy(p)
	default:
		fmt.Fprintf(p.Out, "local    `hardshell run` cannot confine a command here: %s\n", c.Local.Error)
		c.Local.remedy(p)
	}
	tell := func(name string, f finding) {
		text := p.tilde(f.Path)
		if f.Detail != "" && text != "" {
			text += " · "
		}
		fmt.Fprintf(p.Out, "%-8s %s%s\n", name, text, f.Detail)
	}
	tell("config", c.Config)
	tell("data", c.Data)
	for i, provider := range c.Providers {
		name := "models"
		if i > 0 {
			name = ""
		}
		fmt.Fprintf(p.Out, "%-8s %s, %s\n", name, provider.Name, provider.Origin)
	}
	return nil
}

func (s shellCheck) remedy(p *program) {
	if s.Try != "" {
		fmt.Fprintf(p.Out, "         try: %s\n", s.Try)
	}
}

// detailWidth is how wide a layer's detail may be.
const detailWidth = 90

// wrapped breaks a text into lines between words. There is always one.
func wrapped(text string, width int) []string {
	lines := []string{""}
	for word := range strings.FieldsSeq(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case len(*last)+1+len(word) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

// mark is a state at a glance.
func mark(state string) string {
	switch state {
	case "working":
		return "✓"
	case "degraded":
		return "~"
	}
	return "✗"
}

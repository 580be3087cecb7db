package cli

import (
	"cmp"
	"fmt"
	"text/tabwriter"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/config"
)

type configCommand struct {
	Check configCheckCommand `cmd:"" help:"Check a configuration: every key, every value, every secret's reference."`
	Env   configEnvCommand   `cmd:"" help:"List every key with its variable, its value and where the value comes from."`
}

type configCheckCommand struct {
	File   string `arg:"" optional:"" placeholder:"FILE" help:"The file (default: the one that serve would read)."`
	Config string `placeholder:"FILE" help:"The same, as the other commands spell it."`
}

func (configCheckCommand) Help() string {
	return `A wrong key or value is told with file, line and column, and the exit code is 1.

Example:

  hardshell config check ./hardshell.toml
`
}

// Run reads the configuration as serve does and says what was read.
func (c configCheckCommand) Run(p *program) error {
	if c.File != "" && c.Config != "" && c.File != c.Config {
		return fault.New(fault.Invalid, "Two files are given to check: %s and %s.", c.File, c.Config).WithTry("one of them")
	}
	loaded, err := p.load(globals{Config: cmp.Or(c.File, c.Config)})
	if err != nil {
		return err
	}
	if loaded.Path == "" {
		_, err = fmt.Fprintln(p.Out, "ok: there is no configuration file, and none is needed")
		return err
	}
	_, err = fmt.Fprintf(p.Out, "ok: %s\n", loaded.Path)
	return err
}

type configEnvCommand struct {
	Config string `placeholder:"FILE" help:"Configuration file (default: the one that serve would read)."`
	JSON   bool   `help:"Print a JSON list."`
}

func (configEnvCommand) Help() string {
	return `Secrets are masked. A key that takes a name of yours is listed with NAME.

Example:

  HARDSHELL_SERVER__LISTEN=127.0.0.1:8080 hardshell config env
`
}

// Run lists the keys.
func (c configEnvCommand) Run(p *program) error {
	loaded, err := p.load(globals{Config: c.Config})
	if err != nil {
		return err
	}
	keys := loaded.Keys()
	if c.JSON {
		type entry struct {
			Key      string `json:"key"`
			Variable string `json:"variable"`
			Value    string `json:"value"`
			Source   string `json:"source"`
		}
		list := make([]entry, len(keys))
		for i, k := range keys {
			list[i] = entry{k.Name, k.Variable, k.Value, k.Source}
		}
		return writeJSON(p.Out, list)
	}
	table := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KEY\tVALUE\tSOURCE\tVARIABLE")
	for _, k := range keys {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", k.Name, shorten(k), k.Source, k.Variable)
	}
	return table.Flush()
}

// shorten keeps a long text on its line.
func shorten(k config.Key) string {
	const most = 40
	if r := []rune(k.Value); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return k.Value
}

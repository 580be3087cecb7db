package container

import (
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
)

// variableName is what a shell can hold a variable under.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// CheckVariable says whether a variable can be set for a command.
func CheckVariable(name, value string) error {
	if !variableName.MatchString(name) {
		return fault.New(fault.Invalid, "%q is not the name of a variable.", name).WithParam("env")
	}
	if strings.IndexByte(value, 0) >= 0 {
		return fault.New(fault.Invalid, "The variable %s holds a NUL byte.", name).WithParam("env")
	}
	return nil
}

// checkSurroundings says whether a command can be given what it is to start with.
func (c Command) checkSurroundings() error {
	for name, value := range c.Env {
		if err := CheckVariable(name, value); err != nil {
			return err
		}
	}
	if strings.IndexByte(c.Dir, 0) >= 0 {
		return fault.New(fault.Invalid, "The working directory holds a NUL byte.").WithParam("working_directory")
	}
	return nil
}

// dir is where a command starts, as it sees it. That it is there, the box finds out.
func (c Command) dir() string {
	if path.IsAbs(c.Dir) {
		return path.Clean(c.Dir)
	}
	return path.Join(Workdir, c.Dir)
}

// output is where later commands find what this one printed.
func (c Command) output(ws Workspace) string {
	if ws.Output == "" {
		return ""
	}
	return path.Join(ws.Output, c.Key, strconv.Itoa(c.Index))
}

func (c Command) stdin() io.Reader {
	if c.Stdin == "" {
		return nil
	}
	return strings.NewReader(c.Stdin)
}

// environment is the usual one with the command's own variables behind it, which win.
func (c Command) environment(shell string) []string {
	env := environment(shell)
	own := map[string]string{"PWD": c.dir()}
	maps.Copy(own, c.Env)
	env = slices.DeleteFunc(env, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		_, replaced := own[name]
		return replaced
	})
	names := make([]string, 0, len(own))
	for name := range own {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		env = append(env, name+"="+own[name])
	}
	return env
}

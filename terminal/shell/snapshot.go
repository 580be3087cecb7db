package shell

import (
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Snapshot is the environment that a login of the user's shell would give to a command: exported variables and nothing
// else of the shell. The zero value is none.
//
// It may hold the user's secrets, so it prints as a summary and encodes to nothing; [Policy] decides what of it a
// command sees.
type Snapshot struct {
	Shell   string        // the shell that made it
	Took    time.Duration // how long that took
	Warning string        // one sentence on what is missing or why there is none; empty if all went well

	vars []string // NAME=value, sorted
}

// Usable says whether there is an environment in it, perhaps with a warning.
func (s Snapshot) Usable() bool { return s.vars != nil }

// Environ returns the captured variables as NAME=value, sorted.
func (s Snapshot) Environ() []string { return slices.Clone(s.vars) }

// String sums the snapshot up without its values.
func (s Snapshot) String() string {
	if !s.Usable() {
		return "no login environment"
	}
	return fmt.Sprintf("login environment of %s: %d variables in %v", s.Shell, len(s.vars), s.Took.Round(time.Millisecond))
}

// GoString is String, so that no format verb prints the values.
func (s Snapshot) GoString() string { return s.String() }

// LogValue is String, for the same reason.
func (s Snapshot) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Over lays the snapshot over the environment that we were started in. Start-up files have the last word on each
// variable, as they have in a login shell. PATH alone is joined, because an activated virtual environment or a folder
// put there for this session lives in it: folders that stood before everything the login knows stay in front, other
// folders that it does not know go to the end.
func (s Snapshot) Over(environ []string) []string {
	env := newVariables(runtime.GOOS, len(environ)+len(s.vars))
	for _, entry := range slices.Concat(environ, s.vars) {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			continue
		}
		if old, has := env.values[env.key(name)]; has && env.key(name) == "PATH" {
			value = joinPath(old.value, value)
		}
		env.set(name, value)
	}
	return env.entries()
}

// joinPath is login with those absolute folders of session that it lacks. A relative folder of the session would follow
// the command into whatever repository it runs in; the login's own are the user's choice.
func joinPath(session, login string) string {
	known := map[string]bool{}
	for dir := range strings.SplitSeq(login, ":") {
		known[dir] = true
	}
	var front, back []string
	to := &front
	for dir := range strings.SplitSeq(session, ":") {
		if known[dir] {
			to = &back
			continue
		}
		if strings.HasPrefix(dir, "/") && !slices.Contains(front, dir) && !slices.Contains(back, dir) {
			*to = append(*to, dir)
		}
	}
	if to == &front { // nothing in common: nothing says that the session's folders come first
		front, back = nil, front
	}
	if login != "" {
		front = append(front, login)
	}
	return strings.Join(append(front, back...), ":")
}

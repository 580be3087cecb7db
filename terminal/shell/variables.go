package shell

import (
	"slices"
	"strings"
)

// variables is an environment being made. On Windows names keep their case and are one name whatever the case.
type variables struct {
	fold   bool
	values map[string]variable
}

type variable struct{ name, value string }

func newVariables(goos string, size int) variables {
	return variables{fold: goos == "windows", values: make(map[string]variable, size)}
}

func (v variables) key(name string) string {
	if v.fold {
		return strings.ToUpper(name)
	}
	return name
}

func (v variables) has(name string) bool { _, ok := v.values[v.key(name)]; return ok }

func (v variables) set(name, value string) { v.values[v.key(name)] = variable{name, value} }

func (v variables) drop(gone func(name string) bool) {
	for key, one := range v.values {
		if gone(one.name) {
			delete(v.values, key)
		}
	}
}

// entries are the variables as NAME=value, sorted, so that the same input gives the same bytes: they are part of what
// an approval is bound to.
func (v variables) entries() []string {
	all := make([]string, 0, len(v.values))
	for _, one := range v.values {
		all = append(all, one.name+"="+one.value)
	}
	slices.Sort(all)
	return all
}

// UnifiedExec are the variables that make programs write for a reader who is no terminal: no colour, no pager, one
// character set. Commands with a PTY get them too: what reads the PTY is a model.
func UnifiedExec() map[string]string {
	return map[string]string{
		"NO_COLOR":  "1",
		"TERM":      "dumb",
		"LANG":      "C.UTF-8",
		"LC_CTYPE":  "C.UTF-8",
		"LC_ALL":    "C.UTF-8",
		"COLORTERM": "",
		"PAGER":     "cat",
		"GIT_PAGER": "cat",
		"GH_PAGER":  "cat",
		"CODEX_CI":  "1",

		// Programs that do not ask PAGER first.
		"MANPAGER":      "cat",
		"SYSTEMD_PAGER": "cat",
		"AWS_PAGER":     "",
	}
}

// NoTerminal are the variables for commands that nobody can answer: what would open an editor or ask a question fails
// at once, with a sentence where the program lets us say one.
func NoTerminal() map[string]string {
	return map[string]string{
		"GIT_EDITOR":          noGitEditor,
		"GIT_SEQUENCE_EDITOR": noRebaseList,
		"VISUAL":              noEditor,
		"EDITOR":              noEditor,
		"SVN_EDITOR":          noEditor,
		"HGEDITOR":            noEditor,

		"GIT_TERMINAL_PROMPT": "0",
		"GIT_ASKPASS":         "", // set and empty: neither core.askPass nor a desktop's window is asked
		"SSH_ASKPASS_REQUIRE": "never",
		"GCM_INTERACTIVE":     "never",
		"GH_PROMPT_DISABLED":  "1",

		"DEBIAN_FRONTEND":          "noninteractive",
		"APT_LISTCHANGES_FRONTEND": "none",
		"NEEDRESTART_MODE":         "l", // list what should be restarted; neither ask nor restart
		"PIP_NO_INPUT":             "1",
		"COMPOSER_NO_INTERACTION":  "1",
	}
}

// The editors. Each is a whole sh call rather than shell words: programs that split it at blanks instead of asking a
// shell then fail as well, where a bare "echo …" would pass for an edit. No sentence holds a single quote.
const (
	refuse    = `sh -c 'echo "hardshell: no terminal, so `
	refuseEnd = `" >&2; exit 1' editor`

	noGitEditor = refuse + `git cannot open an editor. Give the text: git commit -m TEXT or -F FILE, git tag -m TEXT. ` +
		`Keep what is there: --no-edit, or GIT_EDITOR=true git rebase --continue.` + refuseEnd
	noRebaseList = refuse + `git cannot open the rebase list. Set GIT_SEQUENCE_EDITOR to a command that edits it ` +
		`(such as sed -i), or to true to keep it.` + refuseEnd
	noEditor = refuse + `no editor can open. Write the file itself (for crontab: crontab FILE), or set EDITOR to a ` +
		`command that edits it.` + refuseEnd
)

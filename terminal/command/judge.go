package command

import (
	"path"
	"slices"
	"strings"
)

// judge classifies a simple command and adds the parts that its wrappers run.
func (w *walker) judge(i int) {
	ws := w.at(i).Words
	for n, word := range ws {
		w.carries(i, n, word)
	}
	p := w.at(i)
	if ws[0].Form != Literal || ws[0].Value == "" {
		p.Opaque = "the program's name is not known before it runs"
		p.find(Unknown, -1, true, p.Opaque)
		return
	}
	name := p.Name()
	if !trusted(ws[0]) {
		p.find(Unknown, 0, false, visible(ws[0].Text)+" is a file that the tables do not know")
	}
	p.ForcedRemoval = removes(name, ws)
	if slices.Contains(p.Wrappers, "busybox") || slices.Contains(p.Wrappers, "toybox") {
		p.find(Unknown, -1, true, "an applet reads its options in its own way")
	}
	if w.unwrap(i, name, ws) {
		return
	}
	p = w.at(i) // unwrap may have moved the parts
	if d := inShell[name]; d != nil {
		findings, operands := d.args(ws)
		for _, f := range findings {
			p.find(Unknown, -1, true, f.Why)
		}
		for _, x := range ws[1:] {
			if name == "set" && !strings.HasPrefix(x.Prefix, "-") && !strings.HasPrefix(x.Prefix, "+") && !shellOptions[x.Value] {
				p.find(Unknown, -1, true, visible(x.Text)+" changes the shell")
			}
		}
		for _, at := range operands {
			if name == "read" && !localName(ws[at].Value, w.dialect) {
				p.find(Unknown, -1, true, "it sets "+visible(ws[at].Text)+", which programs may heed")
			}
		}
		return
	}
	if why := stateful[name]; why != "" {
		p.find(Unknown, -1, true, name+" "+why)
		return
	}
	if name == "cd" {
		w.changeFolder(i, ws)
		return
	}
	findings, known := prove(name, ws, w.dialect)
	class, effect := effects(name, ws)
	for _, f := range findings {
		p.find(class, f.Word, f.Hard, f.Why)
	}
	if known {
		return
	}
	if reads().MatchString(name) && !slices.ContainsFunc(ws[1:], func(x Word) bool { return !strings.HasPrefix(x.Prefix, "-") }) {
		p.Opaque = "it runs its input as a program"
	}
	if effect == "" {
		effect = name + " is not known to be read-only"
	}
	p.find(class, -1, false, effect)
	if name != "git" { // git's own findings name them already
		for _, f := range carriers(name, ws, 0) {
			p.find(Unknown, f.Word, true, f.Why)
		}
	}
}

// trusted reports a name that is looked up, or one in the system's own folders: ./ls is somebody else's ls.
func trusted(word Word) bool {
	if !strings.Contains(word.Value, "/") {
		return true
	}
	switch path.Dir(word.Value) {
	case "/bin", "/usr/bin", "/sbin", "/usr/sbin":
		return path.Clean(word.Value) == word.Value
	}
	return false
}

// stateful are the built-ins that change what later commands mean or do.
var stateful = map[string]string{
	"alias": "gives a name another meaning", "unalias": "gives a name another meaning", "hash": "gives a name another meaning", "enable": "changes built-ins",
	"shopt": "changes the shell", "setopt": "changes the shell", "unsetopt": "changes the shell", "emulate": "changes the shell", "options": "changes the shell",
	"export": "changes what later commands see", "declare": "changes what later commands see", "typeset": "changes what later commands see", "local": "changes what later commands see",
	"readonly": "changes what later commands see", "integer": "changes what later commands see", "float": "changes what later commands see", "nameref": "changes what later commands see",
	"unset": "changes what later commands see", "mapfile": "sets variables", "readarray": "sets variables", "getopts": "sets variables", "let": "evaluates arithmetic",
	"source": "runs a file in this shell", ".": "runs a file in this shell", "bind": "binds keys to code", "complete": "binds completion to code", "compgen": "runs completion code",
	"fc": "runs earlier commands", "history": "writes the history", "zmodload": "loads code", "autoload": "loads code", "coproc": "starts a co-process", "pushd": "changes the folder",
	"popd": "changes the folder", "umask": "changes what later commands create", "ulimit": "changes limits", "print": "may write a variable or the history", "vared": "sets variables",
	"zle": "runs editor code", "sched": "runs code later", "ztcp": "opens connections", "sysopen": "opens files", "caller": "", "disown": "detaches a job", "suspend": "stops the shell",
}

// inShell are the built-ins that change the shell in ways that, with exactly these words, do no harm to what follows.
var inShell = map[string]*program{
	"set":  {short: "eux", value: "o"},
	"read": {short: "rs", value: "ptdnN"},
	"exit": {inert: true}, "return": {inert: true}, "break": {inert: true}, "continue": {inert: true}, "shift": {inert: true}, "wait": {inert: true}, "jobs": {inert: true},
}

// changeFolder judges cd: where it goes is the caller's to judge, since only the caller knows the workspace.
func (w *walker) changeFolder(i int, ws []Word) {
	p := w.at(i)
	switch {
	case len(ws) == 2 && ws[1].Form == Literal && !strings.HasPrefix(ws[1].Value, "-") && ws[1].Value != "":
		p.Chdir = ws[1].Value
	case len(ws) == 3 && ws[1].Value == "--" && ws[2].Form == Literal && ws[2].Value != "" && ws[2].Value != "-":
		p.Chdir = ws[2].Value
	default:
		p.find(Unknown, -1, true, "where it goes is not known")
	}
}

// The programs whose effect is known by name.
var (
	writers = words("touch mkdir cp mv ln tee install patch tar unzip zip gzip gunzip bzip2 xz zstd chmod chown chgrp chattr setfacl mktemp mkfifo mknod split csplit " +
		"rmdir unlink sponge rename dos2unix unix2dos ed ex")
	networkers = words("curl wget ssh scp sftp rsync ftp tftp telnet nc ncat netcat socat ping ping6 traceroute dig nslookup host whois getent rclone aws gcloud az gh glab " +
		"http https aria2c lynx w3m links")
	destroyers = words("shred dd wipefs fdisk sfdisk parted mkswap blkdiscard truncate srm")
)

// effects returns the class of a program that is not proven, and why.
func effects(name string, w []Word) (Class, string) {
	has := func(options ...string) bool {
		return slices.ContainsFunc(w[1:], func(x Word) bool { return slices.Contains(options, x.Prefix) })
	}
	verb := ""
	if name == "git" {
		if at := gitVerb(w); at > 0 {
			verb = w[at].Prefix
		}
	} else if len(w) > 1 {
		verb = w[1].Prefix
	}
	switch {
	case removes(name, w):
		return Destructive, "it removes files without asking"
	case name == "rm":
		return Writes, "it removes files"
	case destroyers[name] || strings.HasPrefix(name, "mkfs"):
		return Destructive, name + " overwrites what was there"
	case name == "git" && (verb == "reset" && has("--hard") || verb == "push" && has("-f", "--force", "--force-with-lease", "--mirror", "--delete", "-d") ||
		verb == "branch" && has("-D", "-d") || verb == "checkout" && has("-f", "--force", "--", ".") || verb == "restore" || verb == "filter-branch" || verb == "stash" && has("drop", "clear")):
		return Destructive, "git " + verb + " drops work that was done"
	case name == "git" && slices.Contains([]string{"fetch", "pull", "push", "clone", "ls-remote", "submodule", "remote"}, verb):
		return Network, "git " + verb + " talks to other machines"
	case name == "git" && slices.Contains([]string{"add", "commit", "merge", "rebase", "checkout", "switch", "reset", "mv", "rm", "init", "cherry-pick", "revert", "apply", "am", "config", "worktree", "stash", "tag", "branch", "gc", "notes"}, verb):
		return Writes, "git " + verb + " changes the repository"
	case slices.Contains([]string{"npm", "pnpm", "yarn", "pip", "pip3", "gem", "apt", "apt-get", "dnf", "yum", "apk", "brew"}, name) &&
		slices.Contains([]string{"install", "i", "ci", "add", "update", "upgrade", "download", "publish", "search", "view"}, verb):
		return Network, name + " " + verb + " talks to other machines"
	case networkers[name]:
		return Network, name + " talks to other machines"
	case writers[name], name == "sort" && has("-o", "--output"), name == "sed" && slices.ContainsFunc(w[1:], func(x Word) bool { return strings.HasPrefix(x.Prefix, "-i") }):
		return Writes, name + " changes files"
	}
	return Unknown, ""
}

// removes reports a removal that asks nobody: rm with -f or -r in any spelling, and the programs and options like it.
func removes(name string, w []Word) bool {
	verb := ""
	if name == "git" {
		if at := gitVerb(w); at > 0 {
			verb = w[at].Prefix
		}
	}
	for _, x := range w[1:] {
		t := x.Prefix
		long, short := strings.HasPrefix(t, "--"), len(t) > 1 && t[0] == '-' && t[1] != '-'
		switch name {
		case "rm":
			if long && len(t) > 2 && (strings.HasPrefix("--force", t) || strings.HasPrefix("--recursive", t)) || short && strings.ContainsAny(t, "frR") {
				return true
			}
		case "find":
			if t == "-delete" {
				return true
			}
		case "shred":
			if short && strings.ContainsAny(t, "uf") || t == "--remove" || t == "--force" {
				return true
			}
		case "git":
			if verb == "clean" && (short && strings.Contains(t, "f") || long && len(t) > 2 && strings.HasPrefix("--force", t)) {
				return true
			}
		default:
			return false
		}
	}
	return false
}

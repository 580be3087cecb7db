package command

import (
	"path"
	"slices"
	"strings"
)

// The programs for which a prefix would vouch for anything at all.
var (
	interpreters = expression(`^(python|pypy|perl|ruby|irb|node|nodejs|deno|bun|php|lua|luajit|tclsh|wish|osascript|Rscript|julia|groovy|scala|ghci|runghc|guile|racket|sbcl|emacs|vi|vim|nvim|ed|ex|awk|gawk|mawk|nawk|original-awk|m4|bc|dc|gdb|sqlite3|psql|mysql|make|gmake|ninja|just|task|rake|ts-node|tsx)[0-9.]*$`)
	// reads are the interpreters that take their input for the program if they are given none.
	reads       = expression(`^(python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|luajit|tclsh|osascript|Rscript|julia|guile|m4|bc|dc|ed|ex|vi|vim|sqlite3|psql|mysql)[0-9.]*$`)
	deleters    = words("rm rmdir unlink shred srm dd wipefs truncate mkswap blkdiscard fdisk sfdisk parted kill killall pkill")
	many        = words("git npm pnpm yarn cargo go docker podman kubectl helm gh glab aws gcloud az apt apt-get brew pip pip3 poetry pipenv uv bundle composer dotnet gradle mvn systemctl")
	manyRunners = []string{"npm run", "npm exec", "npm x", "npm run-script", "pnpm run", "pnpm exec", "pnpm dlx", "yarn run", "yarn exec", "yarn dlx", "go run", "cargo run", "uv run", "poetry run",
		"pipenv run", "bundle exec", "git bisect", "git submodule", "git config", "git filter-branch", "git difftool", "git mergetool", "git hook", "docker run", "docker exec", "kubectl exec", "dotnet run"}
)

// ExactOnly says why an allow rule with this prefix must match the whole command and nothing longer: interpreters,
// shells, wrappers, deleters and built-ins that change the shell whatever follows, programs of many parts when only their
// name (or only a part that runs code) is given. It is empty when a prefix may stand for what follows.
func ExactOnly(prefix []string) string {
	if len(prefix) == 0 {
		return "it is empty"
	}
	name := path.Base(prefix[0])
	_, shell := DialectOf(name)
	switch {
	case shell:
		return name + " is a shell"
	case wrappers[name] != nil || runners[name]:
		return name + " runs other programs"
	case interpreters().MatchString(name):
		return name + " is an interpreter"
	case deleters[name] || strings.HasPrefix(name, "mkfs"):
		return name + " removes things"
	case name == "cd":
		return "cd goes anywhere"
	case stateful[name] != "":
		return name + " " + stateful[name]
	case many[name] && len(prefix) == 1:
		return name + " does many different things"
	case len(prefix) > 1 && len(prefix) <= 2 && slices.Contains(manyRunners, name+" "+prefix[1]):
		return name + " " + prefix[1] + " runs other programs"
	case len(prefix) > 1 && many[name] && strings.HasPrefix(prefix[1], "-"):
		return "an option of " + name + " says nothing of what it does"
	}
	return ""
}

// Trusted reports whether a program's word names it by its bare name or in one of the system's own folders.
func (p *Part) Trusted() bool {
	return len(p.Words) > 0 && p.Words[0].Form == Literal && trusted(p.Words[0])
}

// Verb returns the words of a part as a rule sees them: the program's base name and, for git, the verb that follows
// its global options. Words that are not literal stay as they are; known is false where git's verb cannot be told: a word
// that is no verb of git's own may be an alias of any.
func (p *Part) Verb() (ws []Word, known bool) {
	if p.Name() == "" {
		return p.Words, false
	}
	ws = slices.Clone(p.Words)
	ws[0].Value = p.Name()
	ws[0].Prefix = ws[0].Value
	if ws[0].Value != "git" || len(ws) == 1 {
		return ws, true
	}
	at := gitVerb(ws)
	if at == 0 || ws[at].Form != Literal {
		options := !slices.ContainsFunc(ws[1:], func(w Word) bool { return w.Form != Literal })
		return ws, options // only global options, as in git --version: there is no verb
	}
	return append(ws[:1:1], ws[at:]...), gitVerbs()[ws[at].Value]
}

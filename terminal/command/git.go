package command

import (
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Options that many of git's reading verbs share. None writes a file or runs a program; --output, --ext-diff,
// --textconv, --show-signature, -O and every abbreviation are left out.
const (
	diffLong = " stat? numstat shortstat dirstat? summary name-only name-status patch no-patch raw patch-with-stat unified= color? no-color color-words? word-diff? " +
		"ignore-all-space ignore-space-change ignore-blank-lines ignore-space-at-eol function-context find-renames? find-copies? no-renames diff-filter= minimal patience " +
		"histogram diff-algorithm= full-index abbrev? binary check exit-code quiet no-ext-diff no-textconv cached staged merge-base relative? text no-prefix cc submodule? " +
		"compact-summary no-index no-color-moved color-moved? pickaxe-all pickaxe-regex ita-visible-in-index "
	logLong = " oneline graph all branches? tags? remotes? decorate? no-decorate max-count= skip= since= after= until= before= author= committer= grep= all-match invert-grep " +
		"regexp-ignore-case extended-regexp fixed-strings merges no-merges first-parent follow reverse date= abbrev-commit no-abbrev-commit topo-order date-order author-date-order " +
		"left-right cherry-pick cherry-mark cherry no-walk? boundary full-history simplify-by-decoration ancestry-path walk-reflogs no-notes notes? source use-mailmap not exclude= "
)

// gitReaders are git's verbs that only read, given these options. That the repository's own configuration runs no
// helper (fsmonitor, pager, textconv, filters, signing program) is not theirs to prove: see GitEnvironment.
var gitReaders = map[string]*program{
	"status":        {short: "sbvuz", maybe: "u", long: "short branch show-stash porcelain? long verbose untracked-files? ignored? no-renames find-renames? ahead-behind no-ahead-behind column? null"},
	"log":           {short: "pusmczwabiEFgtr", value: "nSGL", maybe: "UMCB", number: true, long: logLong + diffLong + "format= pretty? stdin", operand: nil},
	"show":          {short: "pusmczwabtr", value: "nSG", maybe: "UMCB", number: true, long: logLong + diffLong + "format= pretty?"},
	"diff":          {short: "puswzabRWqr", value: "SG", maybe: "UMCB", number: true, long: diffLong},
	"whatchanged":   {short: "pusmz", value: "n", number: true, long: logLong + diffLong + "format= pretty?"},
	"diff-tree":     {short: "prtmszc", maybe: "UMC", long: diffLong + "no-commit-id root always"},
	"diff-index":    {short: "pmz", long: diffLong},
	"diff-files":    {short: "pqz", long: diffLong},
	"rev-list":      {value: "n", number: true, long: logLong + "count objects missing= use-bitmap-index disk-usage? parents children timestamp left-only right-only min-parents= max-parents="},
	"rev-parse":     {short: "q", long: "abbrev-ref? show-toplevel git-dir git-common-dir show-prefix show-cdup is-inside-work-tree is-bare-repository is-inside-git-dir short? verify quiet all branches? tags? symbolic symbolic-full-name absolute-git-dir show-superproject-working-tree is-shallow-repository git-path= default= remotes?"},
	"ls-files":      {short: "cdomikstuvfz", value: "xX", long: "cached deleted others modified ignored stage unmerged killed exclude= exclude-from= exclude-standard directory no-empty-directory error-unmatch full-name deduplicate eol abbrev? format= recurse-submodules"},
	"ls-tree":       {short: "rdtlz", long: "long name-only name-status object-only full-name full-tree abbrev? format="},
	"blame":         {short: "bcefkltnpswz", value: "LS", maybe: "MC", long: "porcelain line-porcelain incremental show-name show-number show-email date= root color-lines color-by-age ignore-rev= ignore-revs-file= abbrev= minimal"},
	"annotate":      {value: "L"},
	"describe":      {long: "all tags contains abbrev= candidates= exact-match debug long match= exclude= always first-parent dirty? broken?"},
	"shortlog":      {short: "nsec", long: "numbered summary email committer group= format= all no-merges since= until="},
	"merge-base":    {short: "a", long: "all octopus is-ancestor fork-point independent"},
	"name-rev":      {long: "tags name-only all always refs= exclude="},
	"show-ref":      {short: "qds", long: "head heads tags branches verify hash? dereference abbrev? quiet exists"},
	"for-each-ref":  {long: "count= sort= format= points-at= merged? no-merged? contains? no-contains? ignore-case"},
	"cat-file":      {short: "teps", long: "batch-check? batch? follow-symlinks"},
	"count-objects": {short: "vH", long: "verbose human-readable"},
	"check-ignore":  {short: "qvnz", long: "quiet verbose non-matching no-index"}, "check-attr": {short: "a", long: "all"},
	"grep": {short: "aIinlLwvohHcEGFPWpqz", value: "ABCefm", maybe: "", number: true, long: "cached no-index untracked text ignore-case word-regexp invert-match extended-regexp " +
		"basic-regexp fixed-strings perl-regexp line-number column files-with-matches name-only files-without-match count color? no-color break heading show-function " +
		"context= after-context= before-context= function-context all-match quiet max-depth= and or not null only-matching threads= recurse-submodules"},
	"version":  {long: "build-options", most: -1},
	"branch":   {short: "arvq", long: "all remotes list verbose show-current column? no-column sort= format= color? no-color contains= no-contains= merged= no-merged= points-at= abbrev= no-abbrev ignore-case", most: -1},
	"tag":      {short: "li", maybe: "n", long: "list sort= format= column? color? contains= no-contains= merged= no-merged= points-at= ignore-case", most: -1},
	"remote":   {short: "v", long: "verbose", most: -1},
	"reflog":   {value: "n", number: true, long: "oneline date= all max-count="},
	"stash":    {},
	"worktree": {}, "config": {},
}

// subverbs are the second words that keep a verb read-only.
var gitSubverbs = map[string]*program{
	"stash list": {short: "pz", value: "n", number: true, long: "oneline stat format= date= max-count="}, "stash show": {short: "pu", long: diffLong + "include-untracked only-untracked"},
	"worktree list": {short: "vz", long: "verbose porcelain", most: -1}, "remote get-url": {long: "all push"}, "reflog show": {value: "n", number: true, long: "oneline date= all max-count="},
}

var configRead = &program{short: "lz", long: "global local system worktree show-origin show-scope name-only null get= get-all= get-regexp= list includes no-includes type= bool int path default="}

// gitGlobal are the options before the verb that change nothing but where git looks.
var gitGlobal = &program{value: "C", short: "", long: "no-pager no-optional-locks literal-pathspecs glob-pathspecs icase-pathspecs no-replace-objects version"}

// gitVerb finds the verb's index, stepping over global options as git does; 0 if there is none or it cannot be told.
func gitVerb(w []Word) int {
	for i := 1; i < len(w); i++ {
		text := w[i].Prefix
		switch {
		case w[i].Form != Literal && !plainOperand(w[i]):
			return 0
		case !strings.HasPrefix(text, "-"):
			return i
		case slices.Contains([]string{"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env", "--attr-source", "--exec-path"}, text):
			if text != "--exec-path" {
				i++
			}
		}
	}
	return 0
}

// gitVerbs are git's own, which no alias can take the place of.
var gitVerbs = sync.OnceValue(func() map[string]bool {
	return words("add am annotate apply archive bisect blame branch bugreport bundle cat-file check-attr check-ignore check-mailmap check-ref-format checkout " +
		"checkout-index cherry cherry-pick citool clean clone column commit commit-graph commit-tree config count-objects credential credential-cache credential-store " +
		"cvsexportcommit cvsimport cvsserver daemon describe diagnose diff diff-files diff-index diff-tree difftool fast-export fast-import fetch fetch-pack filter-branch " +
		"fmt-merge-msg for-each-ref for-each-repo format-patch fsck fsck-objects gc get-tar-commit-id grep gui hash-object help hook http-backend http-fetch http-push " +
		"imap-send index-pack init init-db instaweb interpret-trailers log ls-files ls-remote ls-tree mailinfo mailsplit maintenance merge merge-base merge-file merge-index " +
		"merge-one-file merge-tree mergetool mktag mktree multi-pack-index mv name-rev notes p4 pack-objects pack-redundant pack-refs patch-id prune prune-packed pull push " +
		"quiltimport range-diff read-tree rebase receive-pack reflog remote repack replace request-pull rerere reset restore rev-list rev-parse revert rm send-email " +
		"send-pack shell shortlog show show-branch show-index show-ref sparse-checkout stage stash status stripspace submodule subtree svn switch symbolic-ref tag unpack-file " +
		"unpack-objects update-index update-ref update-server-info upload-archive upload-pack var verify-commit verify-pack verify-tag version whatchanged worktree write-tree")
})

func proveGit(w []Word) (findings []Finding, known bool) {
	if len(w) == 2 && w[1].Form == Literal && (w[1].Value == "--version" || w[1].Value == "version") {
		return nil, true
	}
	at := gitVerb(w)
	global := w
	if at > 0 {
		global = w[:at]
	}
	findings, _ = gitGlobal.args(global)
	if at == 0 || w[at].Form != Literal {
		return append(findings, Finding{-1, "git's verb is not known", true}), true
	}
	verb := w[at].Value
	d, rest := gitReaders[verb], w[at:]
	if d == nil {
		return append(findings, carriers("git "+verb, rest, at)...), false
	}
	shift := at
	if len(rest) > 1 && rest[1].Form == Literal {
		if sub := gitSubverbs[verb+" "+rest[1].Value]; sub != nil {
			d, rest, shift = sub, rest[1:], at+1
		} else if verb == "stash" || verb == "worktree" {
			return append(findings, Finding{at + 1, visible(rest[1].Text) + " is not known to be read-only", true}), true
		}
	} else if verb == "stash" || verb == "worktree" {
		return append(findings, Finding{at, "it changes the work tree", true}), true
	}
	switch verb {
	case "config":
		d = configRead
	case "branch", "tag":
		listing := slices.ContainsFunc(rest[1:], func(w Word) bool { return w.Value == "--list" || w.Value == "-l" && verb == "tag" })
		if listing {
			d = &program{short: d.short, maybe: d.maybe, long: d.long}
		}
	}
	inner, operands := d.args(rest)
	for _, f := range inner {
		f.Word += shift
		findings = append(findings, f)
	}
	if verb == "config" {
		action := slices.ContainsFunc(rest[1:], func(w Word) bool { return configAction().MatchString(w.Prefix) })
		if !action && (len(operands) != 1 || !strings.Contains(rest[operands[0]].Value, ".")) {
			findings = append(findings, Finding{at, "it may set a value", true})
		}
	}
	if verb == "reflog" && shift == at && len(operands) > 0 {
		findings = append(findings, Finding{at + operands[0], "it may expire entries", true})
	}
	for i, word := range w[at:] {
		if strings.Contains(word.Prefix, "%G") {
			findings = append(findings, Finding{at + i, "its format runs the signing program", true})
		}
	}
	return findings, true
}

var configAction = expression(`^(-l|--list|--get(-all|-regexp)?(=.*)?)$`)

// GitEnvironment is what to add to the environment of a command so that a repository's own configuration runs no
// helper when git only reads. Diff drivers with a textconv are not covered: nothing in the environment stops them.
func GitEnvironment() []string {
	pairs := [][2]string{{"core.fsmonitor", "false"}, {"core.pager", "cat"}, {"core.hooksPath", "/dev/null"}, {"diff.external", ""},
		{"log.showSignature", "false"}, {"core.sshCommand", "false"}, {"credential.helper", ""}, {"core.askPass", "true"}, {"protocol.ext.allow", "never"}}
	env := []string{"GIT_PAGER=cat", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_COUNT=" + strconv.Itoa(len(pairs))}
	for i, p := range pairs {
		env = append(env, "GIT_CONFIG_KEY_"+strconv.Itoa(i)+"="+p[0], "GIT_CONFIG_VALUE_"+strconv.Itoa(i)+"="+p[1])
	}
	return env
}

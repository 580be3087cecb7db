package command

import (
	"regexp"
	"slices"
	"strings"
)

// wrapper is a program that runs another, and how to find the other among its words.
type wrapper struct {
	program
	operands int    // words of its own before the program
	assigns  bool   // NAME=value words come before the program
	adds     string // what it does besides running the program; empty = nothing, and the parts below decide
}

var wrappers = map[string]*wrapper{
	"env":     {program: program{short: "i0v", value: "uCS", long: "ignore-environment null unset= chdir= split-string= debug block-signal? default-signal? ignore-signal? list-signal-handling"}, assigns: true},
	"xargs":   {program: program{short: "0rtx", value: "nPLIdEsa", maybe: "il", long: "null no-run-if-empty verbose exit max-args= max-procs= max-lines? replace? delimiter= arg-file= max-chars= eof?"}},
	"timeout": {program: program{short: "vfp", value: "sk", long: "signal= kill-after= preserve-status foreground verbose"}, operands: 1},
	"nice":    {program: program{value: "n", long: "adjustment=", number: true}},
	"ionice":  {program: program{short: "t", value: "cn", long: "class= classdata= ignore"}},
	"stdbuf":  {program: program{value: "ioe", long: "input= output= error="}},
	"time":    {program: program{short: "pv", long: "portability verbose"}},
	"command": {program: program{short: "p"}},
	"builtin": {}, "noglob": {}, "nocorrect": {}, "-": {},
	"nohup":   {adds: "may outlive the call and write nohup.out"},
	"setsid":  {program: program{short: "cfw", long: "ctty fork wait"}, adds: "starts a session of its own"},
	"exec":    {program: program{short: "cl", value: "a"}, adds: "replaces the shell"},
	"sudo":    {program: program{short: "nEHSbkKisAPB", value: "ughpCTRDUrt", long: "non-interactive preserve-env? set-home stdin background reset-timestamp login shell askpass user= group= host= prompt= chdir= chroot= role= type="}, assigns: true, adds: "runs as another user"},
	"doas":    {program: program{short: "nsL", value: "uC"}, adds: "runs as another user"},
	"pkexec":  {program: program{value: "u", long: "user= disable-internal-agent keep-cwd"}, adds: "runs as another user"},
	"flock":   {program: program{short: "sxenuoFv", value: "wE", long: "shared exclusive nonblock unlock close no-fork timeout= wait= conflict-exit-code= verbose"}, operands: 1, adds: "makes a lock file"},
	"chroot":  {program: program{long: "userspec= groups= skip-chdir"}, operands: 1, adds: "changes the root"},
	"strace":  {program: program{short: "fFqrtTvxyCcwhdi", value: "eopsaSuEOPIbX"}, adds: "traces a program"},
	"ltrace":  {program: program{short: "fSrtTCc", value: "eopsaun"}, adds: "traces a program"},
	"setarch": {program: program{short: "RLXZ3"}, operands: 1, adds: "changes how a program runs"},
	"taskset": {program: program{short: "ac"}, operands: 1, adds: "changes how a program runs"},
	"chrt":    {program: program{short: "bfiorR"}, operands: 1, adds: "changes how a program runs"},
	"prlimit": {adds: "changes limits"}, "fakeroot": {adds: "preloads a library"}, "caffeinate": {program: program{short: "disu", value: "tw"}, adds: "keeps the machine awake"},
	"busybox": {adds: "is many programs"}, "toybox": {adds: "is many programs"},
	"watch": {program: program{short: "bcdegtpwxC", value: "nq", long: "interval= differences? no-title exec color errexit chgexit beep precise"}, adds: "runs a command again and again"},
}

// runners run code in ways that are not unwound here. They are wrappers for every rule.
var runners = words("su runuser script parallel entr at batch crontab screen tmux expect gdb lldb perf valgrind ssh mosh unshare nsenter setpriv capsh systemd-run firejail bwrap proot chpst " +
	"softlimit daemonize start-stop-daemon dbus-run-session xvfb-run ssh-agent direnv nix nix-shell npx bunx uvx pipx pnpx rbenv pyenv conda mamba docker podman nerdctl kubectl lxc machinectl " +
	"ld.so ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 fish nu pwsh powershell cmd cmd.exe xonsh elvish tcsh csh wsl wine qemu-x86_64 hardshell codex claude gemini " +
	"eval trap source . sem rlwrap unbuffer socat nc ncat")

// unwrap adds the parts that a wrapper runs and reports whether the program is one.
func (w *walker) unwrap(i int, name string, ws []Word) bool {
	p := w.at(i)
	switch {
	case name == "find":
		w.findActions(i, ws)
		return false // find has its own table
	case name == "eval":
		p.Wrapper = true
		p.find(Unknown, -1, true, "eval runs its words as code")
		w.join(i, ws[1:], w.dialect)
		return true
	case name == "trap":
		p.Wrapper = true
		p.find(Unknown, -1, true, "trap runs code later")
		if len(ws) > 2 {
			w.join(i, ws[1:2], w.dialect)
		}
		return true
	case name == "command" && len(ws) > 1 && (ws[1].Value == "-v" || ws[1].Value == "-V"):
		return true // it only looks names up
	}
	if _, ok := DialectOf(name); ok {
		w.shell(i, name, ws)
		return true
	}
	d := wrappers[name]
	if d == nil {
		p.Wrapper = runners[name]
		return false
	}
	p.Wrapper = true
	w.wrapped(i, name, d, ws)
	return true
}

// wrapped steps over a wrapper's own words and judges the rest as a part below it.
func (w *walker) wrapped(i int, name string, d *wrapper, ws []Word) {
	p := w.at(i)
	if d.adds != "" {
		p.find(Unknown, -1, true, name+" "+d.adds)
	}
	at, ended := 1, false
	for ; at < len(ws); at++ {
		text := ws[at].Prefix
		if ws[at].Form != Literal || ended || !strings.HasPrefix(text, "-") || text == "-" && name != "env" {
			break
		}
		if text == "--" {
			ended = true
			continue
		}
		if text == "-" { // env -
			p.find(Unknown, at, true, "it empties the environment")
			continue
		}
		if d.number && numeric().MatchString(text) {
			continue
		}
		next, ok := at, false
		if strings.HasPrefix(text, "--") {
			next, ok = d.longOption(text, ws, at)
		} else {
			next, ok = d.cluster(text, ws, at)
		}
		if name == "env" && w.environment(i, ws, at, next, text) {
			return
		}
		if name == "xargs" && regexp.MustCompile(`^(-[0rtx]*[IiJR]|--replace)`).MatchString(text) {
			w.replacing(i, ws, at, next)
			return
		}
		if !ok {
			p.Opaque = name + " has an option that is not known: " + visible(text)
			p.find(Unknown, at, true, p.Opaque)
			return
		}
		at = next
	}
	for d.assigns && at < len(ws) {
		key, value, found := strings.Cut(ws[at].Prefix, "=")
		if !found || key == "" {
			break
		}
		if ws[at].Form != Literal || !HarmlessVariable(key, value) {
			p.find(Unknown, at, true, visible(ws[at].Text)+": programs may heed "+visible(key))
		}
		at++
	}
	for n := at; n < min(at+d.operands, len(ws)); n++ {
		if !ws[n].Single {
			p.Opaque = visible(ws[n].Text) + " could become several words"
			p.find(Unknown, n, true, p.Opaque)
			return
		}
	}
	at += d.operands
	if at >= len(ws) {
		w.bareWrapper(i, name)
		return
	}
	if name == "flock" && (ws[at].Value == "-c" || ws[at].Value == "--command") {
		w.join(i, ws[at+1:], POSIX)
		return
	}
	if name == "watch" && !slices.ContainsFunc(ws[:at], func(x Word) bool { return x.Value == "-x" || x.Value == "--exec" }) {
		w.join(i, ws[at:], POSIX)
		return
	}
	rest := slices.Clone(ws[at:])
	if name == "xargs" {
		rest = append(rest, Word{Text: "…", Form: Expansion})
	}
	p.Transparent = len(p.Findings) == 0
	w.below(i, name, rest)
}

// bareWrapper judges a wrapper without a program.
func (w *walker) bareWrapper(i int, name string) {
	p := w.at(i)
	switch name {
	case "xargs": // it runs echo
	case "env":
		p.find(Unknown, -1, false, "it prints the environment, secrets included")
	default:
		p.find(Unknown, -1, false, "what it runs is missing")
	}
}

// environment judges env's options, all of which change what a program sees; -S splits a word again and ends the walk.
func (w *walker) environment(i int, ws []Word, at, next int, text string) bool {
	p := w.at(i)
	p.find(Unknown, at, true, visible(text)+" changes the environment")
	split, found := "", false
	if strings.HasPrefix(text, "--s") {
		_, split, found = strings.Cut(text, "=")
		if !found && at+1 < len(ws) {
			split, next, found = ws[at+1].Value, at+1, true
		}
	} else if _, after, ok := strings.Cut(text, "S"); ok && !strings.HasPrefix(text, "--") {
		split, found = after, true
		if after == "" && at+1 < len(ws) {
			split, next = ws[at+1].Value, at+1
		}
	}
	if !found {
		return false
	}
	if next >= len(ws) || ws[next].Form != Literal || !regexp.MustCompile(`^[A-Za-z0-9_./:=@%+, -]+$`).MatchString(split) {
		p.Opaque = "env -S splits its word again"
		p.find(Unknown, at, true, p.Opaque)
		return true
	}
	again := []Word{ws[0]}
	for field := range strings.FieldsSeq(split) {
		again = append(again, Word{Text: field, Value: field, Prefix: field, Single: true})
	}
	w.wrapped(i, "env", wrappers["env"], append(again, ws[next+1:]...))
	return true
}

// replacing judges xargs -I R: R stands for words from the input wherever it occurs.
func (w *walker) replacing(i int, ws []Word, at, next int) {
	p := w.at(i)
	mark := strings.TrimLeft(ws[at].Value, "-0rtx")
	mark = strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(mark, "eplace"), "I"), "i")
	mark = strings.TrimPrefix(mark, "=")
	at++
	if next == at && mark == "" && next < len(ws) {
		mark = ws[next].Value
		at++
	}
	if mark == "" {
		mark = "{}"
	}
	for at < len(ws) && strings.HasPrefix(ws[at].Prefix, "-") {
		if !regexp.MustCompile(`^-([0rtx]+|P[0-9]+|n[0-9]+)$`).MatchString(ws[at].Prefix) {
			p.Opaque = "xargs has an option that is not known: " + visible(ws[at].Text)
			p.find(Unknown, at, true, p.Opaque)
			return
		}
		at++
	}
	if at >= len(ws) {
		return
	}
	p.Transparent = len(p.Findings) == 0
	w.below(i, "xargs", replaced(ws[at:], mark))
}

// replaced makes every word that holds mark one whose value is not known.
func replaced(ws []Word, mark string) []Word {
	out := slices.Clone(ws)
	for n := range out {
		if before, _, ok := strings.Cut(out[n].Prefix, mark); ok {
			out[n].Form, out[n].Value, out[n].Prefix = max(out[n].Form, Expansion), "", before
			out[n].Single = true
		}
	}
	return out
}

// findActions adds a part for each program that find runs.
func (w *walker) findActions(i int, ws []Word) {
	for n := 1; n < len(ws); n++ {
		if ws[n].Form != Literal || !findRunners[ws[n].Value] {
			continue
		}
		w.at(i).Wrapper = true
		from := n + 1
		for n++; n < len(ws) && !(ws[n].Value == ";" || ws[n].Value == "+" && ws[n-1].Value == "{}"); n++ {
		}
		if from < n {
			w.below(i, "find", replaced(ws[from:n], "{}"))
		}
	}
}

// below adds a part made of some of its wrapper's words and judges it.
func (w *walker) below(parent int, name string, ws []Word) {
	saved := w.frame
	w.parent, w.wrappers, w.nesting = parent, append(slices.Clone(w.wrappers), name), w.nesting+1
	defer func() { w.frame = saved }()
	if w.nesting > 4*MaxNesting {
		w.err = tooDeep()
	}
	if w.err != nil {
		return
	}
	var text strings.Builder
	for n, word := range ws {
		if n > 0 {
			text.WriteString(" ")
		}
		text.WriteString(word.Text)
	}
	i := w.add(Part{Kind: Simple, Text: text.String(), Words: ws})
	w.judge(i)
}

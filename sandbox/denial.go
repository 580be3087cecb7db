package sandbox

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

// DenialKind is what a command was kept from.
type DenialKind string

// The kinds.
const (
	DenialWrite   DenialKind = "write"
	DenialRead    DenialKind = "read"
	DenialNetwork DenialKind = "network"
	DenialSyscall DenialKind = "syscall"
)

// Evidence is why we think that the sandbox denied something, best first.
type Evidence string

// The kinds of evidence.
const (
	ByKernel Evidence = "kernel" // the kernel ended the command, and said why
	ByMounts Evidence = "mounts" // the error names a path that the box was not given to write, or to see
	ByPolicy Evidence = "policy" // the error is what the policy makes the kernel answer
	ByWords  Evidence = "words"  // the output has words in it that such errors have
)

// A Denial is what a sandbox kept a command from, and what would allow it.
type Denial struct {
	Kind     DenialKind `json:"kind"`
	Path     string     `json:"path,omitempty"` // of DenialWrite and DenialRead, if it is known
	Evidence Evidence   `json:"evidence"`
	Denied   string     `json:"denied"` // what happened: "the sandbox does not let this command write /etc/hosts"
	Allow    string     `json:"allow"`  // what would allow it: "--writable /etc would allow it"
}

// String is one sentence for people and models.
func (d Denial) String() string { return d.Denied + "; " + d.Allow }

// denialTail is how much of the end of a stream is looked at.
const denialTail = 64 << 10

// sigsys is the exit code of a command that a filter has killed: 128 and the signal's number.
const sigsys = 128 + 31

// Explain says what a box kept a command from that has failed with a code, if it was the box that did. dir is the
// folder in which the command ran, as it saw it, and stderr the end of what it wrote there. What the box was really
// given decides; words alone come last, and a Denial by them says so.
func Explain(r Report, p Policy, dir string, code int, stderr []byte) (Denial, bool) {
	if code == 0 || r.Got == "" || r.Got == RungNone {
		return Denial{}, false
	}
	if code == sigsys {
		return Denial{Kind: DenialSyscall, Evidence: ByKernel, Denied: "the kernel ended the command at a system call of another architecture",
			Allow: "a program built for this machine would run"}, true
	}
	e := explainer{report: r, policy: p, dir: dir}
	text := string(stderr[max(0, len(stderr)-denialTail):])
	var hint Denial
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := len(lines) - 1; i >= 0; i-- { // the last error is most likely the one that ended it
		d, sure := e.line(lines[i])
		if sure {
			return d, true
		}
		if d.Kind != "" && hint.Kind == "" {
			hint = d
		}
	}
	shells := code == 2 || code == 126 || code == 127 // what shells say themselves is too often meant in another way
	return hint, hint.Kind != "" && (hint.Evidence != ByWords || !shells)
}

type explainer struct {
	report Report
	policy Policy
	dir    string
}

// standing is what a box made of a path.
type standing int

const (
	untouched standing = iota // the host's, which confined commands cannot write
	writable
	kept     // protected in something writable
	readable // shown, to be read only
	covered
)

// standing finds what was said most exactly of a path.
func (e *explainer) standing(p string) standing {
	best, longest := untouched, -1
	for _, list := range []struct {
		what  standing
		paths []string
	}{{covered, e.report.Hidden}, {readable, e.report.Shown}, {writable, e.report.Writable}, {kept, e.report.Protected}} {
		for _, f := range list.paths {
			if within(p, []string{f}) && len(f) >= longest {
				best, longest = list.what, len(f)
			}
		}
	}
	return best
}

// errorWords are how programs spell the kernel's answers, in lower case. Libraries of many languages print the name.
var errorWords = []struct {
	word string
	does func(e *explainer, line, lower string) (d Denial, sure bool)
}{
	{"read-only file system", (*explainer).readOnly},
	{"erofs", (*explainer).readOnly},
	{"network is unreachable", (*explainer).unreachable},
	{"enetunreach", (*explainer).unreachable},
	{"no route to host", (*explainer).unreachable},
	{"could not resolve", (*explainer).unreachable},
	{"couldn't resolve", (*explainer).unreachable},
	{"unable to resolve host", (*explainer).unreachable},
	{"unable to resolve", (*explainer).unreachable},
	{"name resolution", (*explainer).unreachable},
	{"name or service not known", (*explainer).unreachable},
	{"no such host", (*explainer).unreachable},
	{"eai_again", (*explainer).unreachable},
	{"enotfound", (*explainer).unreachable},
	{"failed to lookup address", (*explainer).unreachable},
	{"address family not supported", (*explainer).unreachable},
	{"eafnosupport", (*explainer).unreachable},
	{"connection refused", (*explainer).refused},
	{"econnrefused", (*explainer).refused},
	{"resource busy", (*explainer).busy},
	{"ebusy", (*explainer).busy},
	{"must be superuser", (*explainer).forbidden},
	{"must be root", (*explainer).forbidden},
	{"permission denied", (*explainer).forbidden},
	{"eacces", (*explainer).forbidden},
	{"operation not permitted", (*explainer).forbidden},
	{"eperm", (*explainer).forbidden},
	{"cross-device link", (*explainer).readOnly},
	{"no such file or directory", (*explainer).absent},
	{"directory nonexistent", (*explainer).absent},
	{"enoent", (*explainer).absent},
}

func (e *explainer) line(line string) (d Denial, sure bool) {
	lower := strings.ToLower(line)
	for _, w := range errorWords {
		if strings.Contains(lower, w.word) {
			if d, sure = w.does(e, line, lower); d.Kind != "" {
				return d, sure
			}
		}
	}
	return Denial{}, false
}

// readOnly is about an error that only a read-only mount gives.
func (e *explainer) readOnly(line, lower string) (Denial, bool) {
	if strings.Contains(lower, "cross-device link") && e.report.Got != RungRestricted {
		return Denial{}, false // between two mounts it is no denial, and programs copy instead
	}
	for _, p := range e.paths(line) {
		if d, ok := e.write(p); ok {
			return d, true
		}
	}
	if strings.Contains(lower, "cross-device link") || namesRoot(line) {
		return Denial{}, false // what it names can be written: the host's own file system is read-only there
	}
	return e.hint(DenialWrite), false // a name without a folder: the command may have gone elsewhere
}

// namesRoot says whether a line has an absolute path in it, beside the program's.
func namesRoot(line string) bool {
	return strings.Contains(line, " /") || strings.Contains(line, "'/") || strings.Contains(line, "\"/")
}

// write says that a path cannot be written, if the box was not given it.
func (e *explainer) write(p string) (Denial, bool) {
	d := Denial{Kind: DenialWrite, Path: p, Evidence: ByMounts, Denied: "the sandbox does not let this command write " + p}
	stands := e.standing(p)
	switch {
	case stands == writable:
		return Denial{}, false
	case stands == kept:
		d.Denied += ", which outside of the sandbox would be obeyed"
		d.Allow = "no setting allows it: a person can change it outside of the sandbox"
	case e.report.Got == RungExternal:
		d.Evidence, d.Allow = ByPolicy, "only the sandbox around this one could allow it"
	case e.policy.Mode == ReadOnly && e.dir != "/" && within(p, []string{e.dir}):
		d.Denied += " (" + e.policy.Mode.String() + ")"
		d.Allow = "--sandbox " + WorkspaceWrite.String() + " would allow it"
	default:
		d.Denied += " (" + e.policy.Mode.String() + ")"
		d.Allow = e.widen(p)
	}
	return d, true
}

func (e *explainer) widen(p string) string {
	dir := path.Dir(p)
	if dir == "/" {
		return "only a run outside of the sandbox would allow it"
	}
	flags := "--writable " + dir
	if e.policy.Mode == ReadOnly {
		flags = "--sandbox " + WorkspaceWrite.String() + " " + flags
	}
	return flags + " would allow it"
}

// unreachable is about an error that a box without a network gives.
func (e *explainer) unreachable(line, lower string) (Denial, bool) {
	if strings.Contains(lower, "address family") || strings.Contains(lower, "eafnosupport") {
		if e.report.Got == RungRestricted && e.report.Network == NetworkFull.String() {
			return Denial{Kind: DenialNetwork, Evidence: ByPolicy, Denied: "the sandbox of this machine lets no command open a unix socket",
				Allow: "a machine on which a jail can be made would allow it (hardshell doctor)"}, true
		}
	}
	switch e.report.Network {
	case NetworkProxied.String():
		return Denial{Kind: DenialNetwork, Evidence: ByPolicy, Denied: "the sandbox has no network but the proxy that its variables name, and the command went past it",
			Allow: "a tool that heeds https_proxy, or --network full, would allow it"}, true
	case NetworkOff.String():
		return Denial{Kind: DenialNetwork, Evidence: ByPolicy, Denied: "the sandbox has no network, and the command tried to reach one",
			Allow: "--network allow:HOST or --network full would allow it"}, true
	}
	return Denial{}, false
}

// refused is about a connection to this machine: in a box without a network that is the box itself.
func (e *explainer) refused(line, lower string) (Denial, bool) {
	if e.report.Network != NetworkOff.String() || !strings.Contains(lower, "localhost") && !strings.Contains(lower, "127.0.0.1") && !strings.Contains(lower, "::1") {
		return Denial{}, false
	}
	return Denial{Kind: DenialNetwork, Evidence: ByPolicy, Denied: "the sandbox has a loopback interface of its own, on which the host's servers do not listen",
		Allow: "--network full would allow reaching them"}, true
}

// privileged are words for what no command of a box may do, as the programs that try it print them.
var privileged = []string{"mount", "umount", "unshare", "nsenter", "setns", "chroot", "pivot_root", "ptrace", "strace", "gdb", "perf_event",
	"io_uring", "bpf", "userfaultfd", "keyctl", "add_key", "syslog", "dmesg", "namespace", "setuid", "setgid", "sudo"}

// forbidden is about errors that ordinary permissions give too: a path that the box was given was not denied by it.
func (e *explainer) forbidden(line, lower string) (Denial, bool) {
	if e.report.Network == NetworkOff.String() && (strings.Contains(line, "/dev/tcp/") || strings.Contains(line, "/dev/udp/")) {
		return e.unreachable(line, lower)
	}
	given, refused := false, ""
	for _, p := range e.paths(line) {
		switch stands := e.standing(p); {
		case stands == covered:
			return e.hidden(p), true
		case stands == writable:
			given = true
		case stands == kept || e.report.Got == RungRestricted: // Landlock answers so; mounts do not
			return e.write(p)
		case refused == "":
			refused = p
		}
	}
	if given && strings.Contains(line, "/") {
		return Denial{}, false
	}
	for _, word := range privileged {
		if containsWord(lower, word) {
			return Denial{Kind: DenialSyscall, Evidence: ByPolicy, Denied: "the sandbox lets no command do what needs privileges (" + word + ")",
				Allow: "only a run outside of the sandbox would allow it"}, true
		}
	}
	if e.report.Network == NetworkOff.String() && (containsWord(lower, "socket") || containsWord(lower, "connect")) {
		return e.unreachable(line, lower)
	}
	if given {
		return Denial{}, false
	}
	d := e.hint(DenialWrite)
	if refused != "" {
		d.Path, d.Denied = refused, "the sandbox may have denied this command "+refused+", or ordinary permissions did"
		if e.report.Got != RungExternal && path.Dir(refused) != "/" {
			d.Allow = "if it was, --show " + refused + " would let it be read, and --writable " + path.Dir(refused) + " be written"
		}
	}
	return d, false
}

// busy is about what cannot be replaced because something is mounted there: a protected file, or what holds one.
func (e *explainer) busy(line, _ string) (Denial, bool) {
	for _, p := range e.paths(line) {
		holds := func(kept string) bool { return within(kept, []string{p}) }
		if e.standing(p) == kept {
			return e.write(p)
		}
		if slices.ContainsFunc(e.report.Protected, holds) {
			return Denial{Kind: DenialWrite, Path: p, Evidence: ByMounts, Denied: "the sandbox does not let this command move or remove " + p + ", which holds what outside of it would be obeyed",
				Allow: "no setting allows it: a person can do it outside of the sandbox"}, true
		}
	}
	return Denial{}, false
}

// absent is about what is not there: it may be covered.
func (e *explainer) absent(line, _ string) (Denial, bool) {
	for _, p := range e.paths(line) {
		if e.standing(p) == covered {
			return e.hidden(p), true
		}
		if e.report.Got == RungJail && !e.policy.SharedTmp && within(p, ownTmp) && e.standing(path.Dir(p)) == writable && !within(p, []string{e.dir}) {
			return Denial{Kind: DenialRead, Path: p, Evidence: ByPolicy, Denied: "the sandbox has a " + holderOf(p, ownTmp) + " of its own, in which the host's files are not",
				Allow: "--show " + p + " would show one that is there"}, false
		}
	}
	return Denial{}, false
}

// ownTmp is what a jail has of its own.
var ownTmp = []string{"/tmp", "/var/tmp"}

func (e *explainer) hidden(p string) Denial {
	return Denial{Kind: DenialRead, Path: p, Evidence: ByMounts, Denied: "the sandbox does not show this command " + p + ", where secrets or sockets of the host lie",
		Allow: "--show " + holderOf(p, e.report.Hidden) + " would allow it"}
}

// hint is what words alone say.
func (e *explainer) hint(kind DenialKind) Denial {
	allow := "if it was, a wider --sandbox or --writable would allow it"
	if e.report.Got == RungExternal {
		allow = "if it was, only the sandbox around this one could allow it"
	}
	return Denial{Kind: kind, Evidence: ByWords, Denied: "what the command printed may mean that the sandbox denied it something", Allow: allow}
}

// paths finds what a line may name, best first: quoted, then each word with a slash in it, then a name before the last
// colon; what the line begins with is most likely the program that speaks.
func (e *explainer) paths(line string) []string {
	var out, last []string
	add := func(s string) {
		s = strings.Trim(strings.TrimRight(s, ":,;.)]"), `'"`)
		if s == "" || len(s) > 4096 || strings.ContainsAny(s, "\x00\n") || strings.Contains(s, "://") {
			return
		}
		if !path.IsAbs(s) {
			s = path.Join(e.dir, s)
		}
		out = append(out, path.Clean(s))
	}
	rest := strings.NewReplacer("‘", "'", "’", "'", "“", "\"", "”", "\"", "`", "'").Replace(line)
	for {
		i := strings.IndexAny(rest, `'"`)
		if i < 0 {
			break
		}
		j := strings.IndexByte(rest[i+1:], rest[i])
		if j < 0 {
			break
		}
		add(rest[i+1 : i+1+j])
		rest = rest[i+j+2:]
	}
	for i, word := range strings.Fields(line) {
		if strings.Contains(word, "/") {
			add(strings.Trim(word, `'"‘’`))
			if i == 0 && len(out) > 0 {
				last, out = out[len(out)-1:], out[:len(out)-1:len(out)-1]
			}
		}
	}
	if parts := strings.Split(line, ": "); len(parts) > 2 { // "bash: line 1: name: error", "sh: 1: cannot create name: error"
		name := parts[len(parts)-2]
		if rest, ok := strings.CutPrefix(name, "cannot "); ok {
			_, name, _ = strings.Cut(rest, " ")
		}
		if !strings.Contains(name, " ") {
			add(name)
		}
	}
	return append(out, last...)
}

// within says whether a path is one of the folders or lies below one.
func within(p string, folders []string) bool {
	for _, f := range folders {
		if p == f || f == "/" || strings.HasPrefix(p, f) && len(f) > 0 && p[len(f)] == '/' {
			return true
		}
	}
	return false
}

// holderOf is that one of the folders in which a path lies.
func holderOf(p string, folders []string) string {
	for _, f := range folders {
		if within(p, []string{f}) {
			return f
		}
	}
	return p
}

func containsWord(text, word string) bool {
	for at := 0; ; {
		i := strings.Index(text[at:], word)
		if i < 0 {
			return false
		}
		before, after := at+i-1, at+i+len(word)
		if (before < 0 || !isLetter(text[before])) && (after >= len(text) || !isLetter(text[after])) {
			return true
		}
		at += i + 1
	}
}

func isLetter(c byte) bool { return bytes.IndexByte([]byte("abcdefghijklmnopqrstuvwxyz"), c) >= 0 }

package sandbox

import (
	"fmt"
	"path"
	"strings"

	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// seatbeltProgram is named by its path: what PATH finds could be anybody's.
const seatbeltProgram = "/usr/bin/sandbox-exec"

// seatbeltBase is what every command may do: run programs, talk to its own processes, read the system.
const seatbeltBase = `(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow user-preference-read)
(allow sysctl-read)
(allow ipc-posix-sem)
(allow iokit-open (iokit-registry-entry-class "RootDomainUserClient"))
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.PowerManagement.control"))
(allow pseudo-tty)
(allow file-read* file-write* file-ioctl (literal "/dev/ptmx"))
(allow file-read* file-write* (require-all (regex #"^/dev/ttys[0-9]+") (extension "com.apple.sandbox.pty")))
(allow file-ioctl (regex #"^/dev/ttys[0-9]+"))
(allow file-write-data (require-all (vnode-type CHARACTER-DEVICE)
  (require-any (path "/dev/null") (path "/dev/zero") (path "/dev/tty"))))
(allow file-read*)
`

const seatbeltNetwork = `(allow network-outbound)
(allow network-inbound)
(allow system-socket)
(allow mach-lookup
  (global-name "com.apple.SecurityServer")
  (global-name "com.apple.networkd")
  (global-name "com.apple.ocspd")
  (global-name "com.apple.trustd.agent")
  (global-name "com.apple.SystemConfiguration.configd"))
`

// seatbelt wraps a command in macOS's own sandbox. Paths are parameters: none becomes part of the profile's text.
func seatbelt(spec process.ExecParams, p Policy) []string {
	s := seatbeltProfile{text: seatbeltBase}
	for _, m := range masks {
		if !shown(m.Path, p.Shown) {
			s.hide(m.Path, spec.Env["HOME"])
		}
	}
	for _, h := range p.Hidden {
		s.hide(h, spec.Env["HOME"])
	}
	if p.Mode == WorkspaceWrite {
		for _, root := range append([]string{spec.Cwd}, p.WritableRoots...) {
			s.root(root)
		}
		if p.SharedTmp {
			s.root("/private/tmp")
			if tmp := spec.Env["TMPDIR"]; strings.HasPrefix(tmp, "/") {
				s.root(path.Clean(tmp))
			}
		}
	}
	if p.Network == NetworkFull {
		s.text += seatbeltNetwork
	}
	argv := append([]string{seatbeltProgram, "-p", s.text}, s.params...)
	return append(append(argv, "--"), spec.Command...)
}

// seatbeltProfile is a profile in the making. A later rule wins over an earlier one.
type seatbeltProfile struct {
	text          string
	params        []string
	hidden, roots int
}

func (s *seatbeltProfile) param(name, value string) {
	s.params = append(s.params, "-D"+name+"="+value)
}

// hide closes a path, for reading too. A name below every home is closed below the user's and below /Users.
func (s *seatbeltProfile) hide(p, home string) {
	rest, everyHome := strings.CutPrefix(p, "~")
	if !everyHome {
		s.param(fmt.Sprintf("HIDDEN_%d", s.hidden), p)
		s.text += fmt.Sprintf("(deny file-read* file-write* network-outbound (subpath (param \"HIDDEN_%d\")))\n", s.hidden)
		s.hidden++
		return
	}
	if strings.HasPrefix(home, "/") {
		s.hide(path.Clean(home)+rest, "")
	}
	s.text += "(deny file-read* file-write* network-outbound (regex #\"^/Users/[^/]+" + quoteRegex(rest) + "(/|$)\"))\n"
}

// root makes a folder writable, but for what is protected in it. Names that do not exist are protected too.
func (s *seatbeltProfile) root(dir string) {
	name := fmt.Sprintf("WRITABLE_ROOT_%d", s.roots)
	s.roots++
	s.param(name, dir)
	s.text += "(allow file-write* (require-all (subpath (param \"" + name + "\"))"
	for i, p := range protected {
		ro := fmt.Sprintf("%s_RO_%d", name, i)
		s.param(ro, path.Join(dir, p))
		s.text += " (require-not (subpath (param \"" + ro + "\")))"
	}
	s.param(name+"_GIT", path.Join(dir, ".git"))
	s.text += " (require-not (literal (param \"" + name + "_GIT\")))))\n"
}

func quoteRegex(s string) string {
	return strings.NewReplacer(".", `\.`, "+", `\+`, "(", `\(`, ")", `\)`, "[", `\[`, "*", `\*`, "?", `\?`, "$", `\$`, "\"", `.`).Replace(s)
}

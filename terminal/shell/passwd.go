package shell

import (
	"bytes"
	"strconv"
	"strings"
)

const passwdFile = "/etc/passwd"

// passwdShell is the shell of the host's user in /etc/passwd, or "" where there is no entry: accounts that come from a
// directory service (LDAP, macOS) are not in the file, and $SHELL answers for them.
func passwdShell(h Host) string {
	if h.UID < 0 {
		return ""
	}
	data, err := h.ReadFile(passwdFile)
	if err != nil {
		return ""
	}
	shell, _ := parsePasswd(data, h.UID)
	return shell
}

// parsePasswd returns the seventh field of the first well-formed entry of the user. An entry that leaves it empty
// means /bin/sh, as passwd(5) says.
func parsePasswd(data []byte, uid int) (shell string, ok bool) {
	for line := range bytes.Lines(data) {
		text := strings.TrimRight(string(line), "\r\n")
		if strings.HasPrefix(text, "#") {
			continue
		}
		fields := strings.Split(text, ":")
		if len(fields) != 7 || fields[0] == "" {
			continue
		}
		if n, err := strconv.ParseUint(fields[2], 10, 32); err != nil || n != uint64(uid) {
			continue
		}
		if fields[6] == "" {
			return "/bin/sh", true
		}
		return fields[6], true
	}
	return "", false
}

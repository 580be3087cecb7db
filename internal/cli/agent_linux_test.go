package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
)

// works has an agent work at the desk.
func (d *desk) works(e *endpoint, args ...string) (work string) {
	d.Helper()
	home := d.TempDir()
	for name, value := range map[string]string{"HOME": home, "HARDSHELL_DATA": filepath.Join(home, "data"), "HARDSHELL_API_KEY": "key", "HARDSHELL_CONFIG": "", "XDG_CONFIG_HOME": ""} {
		d.Setenv(name, value)
	}
	work = d.TempDir()
	d.run(append([]string{"agent", "--url", e.URL, "--model", "m", "--cwd", work}, args...)...)
	return work
}

func shellCall(id string, commands ...string) string {
	return `[{"type":"shell_call","call_id":"` + id + `","status":"completed","action":{"commands":["` + strings.Join(commands, `","`) + `"]}}]`
}

// Ctrl-C ends the command that runs, and the model is told; where none runs it ends the turn.
func TestCtrlCEndsAnAgentsCommandFirst(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	d := sitDown(t, 24, 80)
	e := newEndpoint(t, shellCall("call_a", "echo first; exec sleep 1000"), shellCall("call_b", "echo second; exec sleep 1000"))
	d.works(e, "go")
	d.sees("first\r\n")
	d.types("\x03")
	d.sees("stopping the command")
	d.sees("hardshell: exit 130 (cancelled) · ")
	d.sees("  second\r\n")
	d.types("\x03")
	select {
	case <-e.hangs: // the model thinks about it
	case <-time.After(patience):
		t.Fatal("the model was not asked again")
	}
	got := e.request(1, "input")
	if !strings.Contains(got, `"exit_code":130`) || !strings.Contains(got, "Ctrl-C") || !strings.Contains(got, `"stdout":"first\n"`) {
		t.Error(got)
	}
	d.types("\x03")
	d.ends(130)
	d.sees("go on    --previous resp_1")
}

// A person is asked at the terminal, with the policy that asks; a question ends with Ctrl-C too, and the next one's answer
// is its own.
func TestAnAgentAsksAtTheTerminal(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	d := sitDown(t, 24, 80)
	e := newEndpoint(t, shellCall("call_a", "touch one"), shellCall("call_b", "touch two"), shellCall("call_c", "touch three"), bye)
	work := d.works(e, "--approval", "untrusted", "go")
	d.sees("$ touch one\r\n")
	d.sees("[n]o")
	d.types("\x03")
	d.sees("$ touch two\r\n")
	d.sees("[n]o")
	d.types("y\r")
	d.sees("hardshell: exit 0 · ")
	d.sees("$ touch three\r\n")
	d.types("n not that\r")
	d.sees("hardshell: not that")
	d.sees("Bye.")
	d.ends(0)
	entries, err := os.ReadDir(work)
	if err != nil || len(entries) != 1 || entries[0].Name() != "two" {
		t.Errorf("%v, %v", entries, err)
	}
	if got := e.request(3, "input"); !strings.Contains(got, `"exit_code":126`) || !strings.Contains(got, "not that") {
		t.Error(got)
	}
}

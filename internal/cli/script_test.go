package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hardshell-dev/hardshell/internal/cli"
	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
)

// patience bounds every wait in these tests; it is slack, not a measure.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"hardshell": program})
}

// program is cmd/hardshell's main, so that the scripts run this very code.
func program() {
	ctx := cli.Signalled(context.Background())
	os.Exit(cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Environ()))
}

func params(dir string) testscript.Params {
	return testscript.Params{
		Dir: dir, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("HARDSHELL_DATA", filepath.Join(e.WorkDir, "home", "data"))
			e.Setenv("OLLAMA_HOST", "127.0.0.1:1") // nobody is there
			for _, name := range []string{"HARDSHELL_API_KEY", "HARDSHELL_CONFIG", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "OPENAI_API_KEY", "OPENAI_BASE_URL"} {
				e.Setenv(name, "")
			}
			e.Setenv("GORACE", os.Getenv("GORACE")) // how long the race detector holds each program at its end
			return os.MkdirAll(filepath.Join(e.WorkDir, "home"), 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"ready": ready, "term": term, "http": request, "json": jsonField,
		},
	}
}

func TestScripts(t *testing.T) { testscript.Run(t, params("testdata/script")) }

// TestScriptsInTheJail are those whose commands run in a jail.
func TestScriptsInTheJail(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	testscript.Run(t, params("testdata/script/jail"))
}

// ready waits until a server of a data folder answers and sets URL and KEY: ready [DATA]
func ready(ts *testscript.TestScript, neg bool, args []string) {
	data := ts.Getenv("HARDSHELL_DATA")
	if len(args) > 0 {
		data = ts.MkAbs(args[0])
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var address struct {
			URL string `json:"url"`
			PID int    `json:"pid"`
		}
		raw, err := os.ReadFile(filepath.Join(data, "server.json"))
		if err == nil && json.Unmarshal(raw, &address) == nil {
			if answer, err := http.Get(address.URL + "/healthz"); err == nil {
				answer.Body.Close()
				key, err := os.ReadFile(filepath.Join(data, "admin.key"))
				ts.Check(err)
				ts.Setenv("URL", address.URL)
				ts.Setenv("PORT", address.URL[strings.LastIndex(address.URL, ":")+1:])
				ts.Setenv("PID", strconv.Itoa(address.PID))
				ts.Setenv("KEY", strings.TrimSpace(string(key)))
				return
			}
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no server in %s: %v", data, err)
		}
	}
}

// term sends SIGTERM to the server of the data folder, and "kill" SIGKILL: term [kill]
func term(ts *testscript.TestScript, neg bool, args []string) {
	raw, err := os.ReadFile(filepath.Join(ts.Getenv("HARDSHELL_DATA"), "server.json"))
	ts.Check(err)
	var address struct {
		PID int `json:"pid"`
	}
	ts.Check(json.Unmarshal(raw, &address))
	number := syscall.SIGTERM
	if len(args) > 0 {
		number = syscall.SIGKILL
	}
	ts.Check(syscall.Kill(address.PID, number))
}

// request sends a request and checks the status; the body goes to a file: http METHOD PATH STATUS FILE [KEY [BODY]]
func request(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 4 {
		ts.Fatalf("usage: http METHOD PATH STATUS FILE [KEY [BODY]]")
	}
	var body io.Reader
	if len(args) > 5 {
		body = strings.NewReader(args[5])
	}
	r, err := http.NewRequest(args[0], ts.Getenv("URL")+args[1], body)
	ts.Check(err)
	if len(args) > 4 && args[4] != "" {
		r.Header.Set("Authorization", "Bearer "+args[4])
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := (&http.Client{Timeout: patience}).Do(r)
	ts.Check(err)
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[3]), raw, 0o600))
	if strconv.Itoa(answer.StatusCode) != args[2] {
		ts.Fatalf("%s %s: status %d, want %s: %s", args[0], args[1], answer.StatusCode, args[2], raw)
	}
}

// jsonField puts a field of a JSON file into a variable: json VAR FILE a.0.b
func jsonField(ts *testscript.TestScript, neg bool, args []string) {
	var v any
	if err := json.Unmarshal([]byte(ts.ReadFile(args[1])), &v); err != nil {
		ts.Fatalf("%s: %v in %s", args[1], err, ts.ReadFile(args[1]))
	}
	for name := range strings.SplitSeq(args[2], ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(x) {
				ts.Fatalf("no %s in %s", args[2], ts.ReadFile(args[1]))
			}
			v = x[i]
		default:
			v = nil
		}
	}
	if v == nil {
		ts.Fatalf("no %s in %s", args[2], ts.ReadFile(args[1]))
	}
	ts.Setenv(args[0], fmt.Sprint(v))
}

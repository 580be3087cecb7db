package house

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/hardshell-dev/hardshell"

// floors lists the rooms from the top of the house down, one floor a line. A room imports rooms of lower floors, and
// of its own floor only over the edges below. "x/*" is x and everything in it.
var floors = [][]string{
	{"cmd/hardshell"},
	{"internal/cli/*", "internal/config", "internal/telemetry"},
	{"internal/gateway/*", "internal/mcp"},
	{"internal/agent/*"},
	{"internal/response/*", "internal/container/*", "internal/llm/*"},
	{"internal/file", "internal/skill", "internal/tenant", "internal/audit"},
	{"internal/store", "internal/blob/*"},
	{"shellcall"},
	{"terminal/*"},
	{"sandbox/*"},
	{"internal/wire/*", "fault", "internal/id", "internal/sse", "internal/cleanup"},
}

// edges are the imports within a floor that the plan names, each with its reason.
var edges = map[[2]string]string{
	{"internal/cli", "internal/config"}:                         "the commands read the configuration",
	{"internal/cli", "internal/telemetry"}:                      "assembly sets up the logs",
	{"internal/telemetry", "internal/config"}:                   "the log level is a setting",
	{"internal/gateway/*", "internal/gateway"}:                  "a door hangs in the gateway's frame",
	{"internal/agent", "internal/agent/compact"}:                "the loop asks for room before a model call",
	{"internal/container/*", "internal/container"}:              "a runtime fulfils the contract of its parent",
	{"internal/agent", "internal/agent/approvals"}:              "a call that asks waits for the answer to its question",
	{"internal/response", "internal/response/conversation"}:     "a response ends in its conversation, in one transaction",
	{"internal/blob/*", "internal/blob"}:                        "a store fulfils the contract of its parent",
	{"internal/llm/*", "internal/llm"}:                          "a provider fulfils the contract of its parent",
	{"internal/llm/*", "internal/llm/ambient"}:                  "what providers find around them is sought and kept in one place",
	{"internal/llm/*", "internal/llm/dialect"}:                  "what all dialects read of a request is read once",
	{"internal/llm/*", "internal/llm/upstream"}:                 "what all dialects do over HTTP is done once",
	{"internal/llm/upstream", "internal/llm/upstream/straight"}: "a small request goes to a plain server without a detour",
	{"terminal/approval", "terminal/command"}:                   "a decision reads the syntax tree",
	{"terminal", "terminal/approval"}:                           "the orchestrator asks what a person must be asked",
	{"terminal", "terminal/command"}:                            "what is shown, decided and told is the same parse",
	{"terminal", "terminal/session"}:                            "two of the tools leave commands that live on",
	{"terminal", "terminal/screen"}:                             "a model reads what a terminal would show",
	{"terminal", "terminal/shell"}:                              "command lines go to the user's shell",
	{"terminal/session", "terminal/shell"}:                      "an interactive shell is told to print marks",
	{"terminal/session", "terminal/screen"}:                     "a session's text is what a terminal would show",
	{"sandbox", "sandbox/process"}:                              "a box makes jobs",
	{"sandbox", "sandbox/resident"}:                             "a box talks to its resident",
	{"sandbox/process", "sandbox/resident"}:                     "the layout of a job folder is written down once, beside its writer",
}

// outside are the rooms that any room's tests may import, and that import no room above the words.
var outside = []string{"internal/require", "internal/house", "bench/*", "tools/*"}

type listed struct {
	ImportPath   string
	Doc          string
	Dir          string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-pgo=off", "-json", "./...") // with a profile, packages are listed as variants of themselves
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p listed
		if err := d.Decode(&p); err != nil {
			t.Fatalf("read go list: %v", err)
		}
		all = append(all, p)
	}
	return all
}

func matches(pattern, room string) bool {
	base, deep := strings.CutSuffix(pattern, "/*")
	return room == base || deep && strings.HasPrefix(room, base+"/")
}

func floorOf(room string) int {
	for n, rooms := range floors {
		for _, pattern := range rooms {
			if matches(pattern, room) {
				return n
			}
		}
	}
	return -1
}

func isOutside(room string) bool {
	for _, pattern := range outside {
		if matches(pattern, room) {
			return true
		}
	}
	return false
}

func allowed(from, to string) bool {
	if floorOf(from) < floorOf(to) {
		return true
	}
	for edge := range edges {
		if matches(edge[0], from) && edge[1] == to {
			return true
		}
	}
	return false
}

func TestImportsPointDown(t *testing.T) {
	seen := 0
	for _, p := range packages(t) {
		from := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if isOutside(from) {
			continue
		}
		if floorOf(from) < 0 {
			t.Errorf("%s stands on no floor: add it to the plan, or move it", from)
			continue
		}
		for _, path := range p.Imports {
			to, ours := strings.CutPrefix(path, module+"/")
			if !ours {
				continue
			}
			seen++
			// A conformance suite is a room for tests, in a folder named after its contract.
			if to == "internal/require" && strings.HasSuffix(from, "test") {
				continue
			}
			if !allowed(from, to) {
				t.Errorf("%s imports %s: imports point down only", from, to)
			}
		}
	}
	if seen < 10 {
		t.Fatalf("only %d imports seen: the listing is broken", seen)
	}
}

// TestResidentIsLight keeps the process that runs inside every box small: what it imports is initialised before each
// box starts and stays in its memory.
func TestResidentIsLight(t *testing.T) {
	for _, p := range packages(t) {
		if p.ImportPath != module+"/sandbox/resident" {
			continue
		}
		for _, path := range p.Imports {
			if path == "runtime/debug" {
				t.Errorf("sandbox/resident imports %s: the linker sorts packages by path, so everything before the letter r would be initialised first", path)
			}
			if !strings.Contains(path, ".") || strings.HasPrefix(path, "golang.org/x/sys/") || strings.HasPrefix(path, "golang.org/x/net/bpf") {
				continue
			}
			t.Errorf("sandbox/resident imports %s: it may use the standard library, x/sys and x/net/bpf", path)
		}
		return
	}
	t.Fatal("sandbox/resident is not listed")
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	for _, p := range packages(t) {
		if len(strings.TrimSpace(p.Doc)) < 20 {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

package agent

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// filePart is an input_file part.
func filePart(name, content string) string {
	return fmt.Sprintf(`{"type":"input_file","filename":%q,"file_data":"data:text/csv;base64,%s"}`, name,
		base64.StdEncoding.EncodeToString([]byte(content)))
}

func withFiles(parts ...string) string {
	return `{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"sum"},` + strings.Join(parts, ",") +
		`]}],"tools":[{"type":"shell"}]}`
}

func TestFilesAreInTheWorkspaceBeforeTheFirstCommand(t *testing.T) {
	w := newWorld(t, runs("a"), runs("a"), says("ok"))
	w.commands = map[string]command{"a": printed("", "", 0)}
	_, o := w.run(withFiles(filePart("../x/data.csv", "1,2"), filePart("data.csv", "3,4"), filePart("data.csv", "1,2")))
	want := []string{"data.csv=1,2 (0 started)", "data-2.csv=3,4 (0 started)"}
	if !slices.Equal(w.put, want) {
		t.Errorf("put %q, want %q", w.put, want)
	}
	if o.Status != openai.Completed {
		t.Errorf("status %s", o.Status)
	}
	golden(t, "file_notes", shown(w.asked[0]))
	stored := string(w.begun[0].Input[0].Raw)
	if strings.Contains(stored, "file_data") || !strings.Contains(stored, `"path":"/mnt/data/data-2.csv"`) {
		t.Errorf("stored: %s", stored)
	}

	// The next turn shows the notes again and puts nothing.
	w.chains["resp_1"] = response.Chain{Items: w.begun[0].Input, ContainerID: "cntr_1"}
	w.put, w.rounds = nil, append(w.rounds, runs("a"), says("still there"))
	w.run(`{"model":"m","input":"again","previous_response_id":"resp_1","tools":[{"type":"shell"}]}`)
	if len(w.put) != 0 || !strings.Contains(shown(w.asked[3]), "is at /mnt/data/data-2.csv") {
		t.Errorf("put %q, shown %s", w.put, shown(w.asked[3]))
	}
}

// TestALaterFileDoesNotTakeAnEarliersName: the second turn's data.csv is another file than the first one's.
func TestALaterFileDoesNotTakeAnEarliersName(t *testing.T) {
	w := newWorld(t, runs("a"), says("ok"))
	w.commands = map[string]command{"a": printed("", "", 0)}
	w.run(withFiles(filePart("data.csv", "1,2")))
	w.chains["resp_1"] = response.Chain{Items: w.begun[0].Input, ContainerID: "cntr_1"}
	w.put, w.rounds = nil, append(w.rounds, runs("a"), says("ok"))
	next := withFiles(filePart("data.csv", "3,4"), filePart("b.csv", "5"))
	w.run(strings.Replace(next, `"model":"m"`, `"model":"m","previous_response_id":"resp_1"`, 1))
	if len(w.put) != 2 || !strings.HasPrefix(w.put[0], "data-2.csv=3,4 ") || !strings.HasPrefix(w.put[1], "b.csv=5 ") {
		t.Errorf("put %q", w.put)
	}
	if shows := shown(w.asked[2]); !strings.Contains(shows, "is at /mnt/data/data.csv") || !strings.Contains(shows, "is at /mnt/data/data-2.csv") {
		t.Errorf("shown %s", shows)
	}
}

func TestNoFileIsPutWithoutACommand(t *testing.T) {
	w := newWorld(t, says("no need"))
	w.run(withFiles(filePart("a.csv", "1")))
	if len(w.put) != 0 {
		t.Errorf("put %q", w.put)
	}
}

// TestReplayedFiles: a client that sends its whole history again does not put an old file over the model's edits.
func TestReplayedFiles(t *testing.T) {
	history := `{"role":"user","content":[` + filePart("old.csv", "1") + `]},{"role":"assistant","content":"edited"},` +
		`{"role":"user","content":[` + filePart("new.csv", "2") + `]}`
	for env, want := range map[string]string{
		`{"type":"container_auto"}`:                              "old.csv new.csv",
		`{"type":"container_reference","container_id":"cntr_1"}`: "new.csv",
	} {
		w := newWorld(t, runs("a"), says("ok"))
		w.commands = map[string]command{"a": printed("", "", 0)}
		w.run(`{"model":"m","input":[` + history + `],"tools":[{"type":"shell","environment":` + env + `}]}`)
		var names []string
		for _, p := range w.put {
			name, _, _ := strings.Cut(p, "=")
			names = append(names, name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: put %q, want %q", env, got, want)
		}
	}
}

func TestACommandDoesNotRunWithoutItsFiles(t *testing.T) {
	w := newWorld(t, runs("a"), says("The file is not there."))
	w.putErr = fault.New(fault.Unavailable, "The disk is full.")
	_, o := w.run(withFiles(filePart("a.csv", "1")))
	var out openai.ShellCallOutput
	if err := o.Output[1].Decode(&out); err != nil {
		t.Fatal(err)
	}
	if len(w.started) != 0 || out.Status != openai.Incomplete || !strings.Contains(out.Output[0].Stderr, "disk is full") {
		t.Errorf("%d started, output %+v", len(w.started), out)
	}
}

func TestTextFileWithoutAShellIsReadToTheModel(t *testing.T) {
	w := newWorld(t, says("ok"))
	w.run(`{"model":"m","input":[{"role":"user","content":[` + filePart("a.csv", "x,ü\n1,2\n") + `]}]}`)
	if got, want := texts(w.asked[0].Items), "[file a.csv, 9 bytes]\nx,ü\n1,2\n\n[end of file a.csv]"; got != want {
		t.Errorf("shown %q, want %q", got, want)
	}
}

func TestDecodeFile(t *testing.T) {
	for in, want := range map[string]struct{ media, data string }{
		"data:text/csv;base64,YSxi":           {"text/csv", "a,b"},
		"data:text/plain;charset=utf-8,a%20b": {"text/plain", "a b"},
		"data:;base64,YQ==":                   {"", "a"},
		"YWI=":                                {"", "ab"},
		"YWI":                                 {"", "ab"},
		"YW\r\nI=":                            {"", "ab"},
		"_-8":                                 {"", "\xff\xef"},
		"data:application/json;base64,eyJhIjoxfQ": {"application/json", `{"a":1}`},
		"": {"", ""},
	} {
		media, data, err := decodeFile(in)
		if err != nil || media != want.media || string(data) != want.data {
			t.Errorf("decodeFile(%q) = %q, %q, %v", in, media, data, err)
		}
	}
	for _, in := range []string{"data:text/csv", "not base64!", "a"} {
		if _, _, err := decodeFile(in); err == nil {
			t.Errorf("decodeFile(%q) is taken", in)
		}
	}
}

func TestCleanName(t *testing.T) {
	for in, want := range map[string]string{
		"a.csv": "a.csv", "/etc/passwd": "passwd", `C:\temp\x.txt`: "x.txt", "../..": "file", ".bashrc": "bashrc", "": "file",
		"a\x00b\x1b[31m.txt": "a_b_[31m.txt", "Grüße 1.md": "Grüße 1.md", "a\xffb": "a_b", " . ": "file", "dir/": "dir",
		strings.Repeat("ü", 200) + ".csv": strings.Repeat("ü", 98) + ".csv",
	} {
		if got := cleanName(in); got != want {
			t.Errorf("cleanName(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzFileNames(f *testing.F) {
	f.Add("../a.csv")
	f.Add("x\x00/..\\..")
	f.Fuzz(func(t *testing.T, in string) {
		name := cleanName(in)
		if name == "" || name == "." || name == ".." || len(name) > maxNameBytes || strings.ContainsAny(name, "/\\\x00\n") {
			t.Errorf("cleanName(%q) = %q", in, name)
		}
		if again := cleanName(name); again != name {
			t.Errorf("cleanName is not stable: %q, then %q", name, again)
		}
	})
}

func FuzzArguments(f *testing.F) {
	f.Add(`{"commands":["ls"],"timeout_ms":5}`)
	f.Add(`{"commands":"ls"}`)
	f.Fuzz(func(t *testing.T, raw string) {
		a, err := readArguments(raw)
		if err == nil && len(a.Commands) == 0 || err != nil && len(a.Commands) != 0 {
			t.Errorf("readArguments(%q) = %+v, %v", raw, a, err)
		}
		if err == nil {
			if b, err := readArguments(argumentsText(a)); err != nil || len(b.Commands) != len(a.Commands) {
				t.Errorf("%q does not survive its own form: %v", raw, err)
			}
		}
	})
}

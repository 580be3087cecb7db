package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/audit"
)

// says runs a command line on a data folder.
func says(t *testing.T, data, in string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Main(context.Background(), append(args, "--data", data), Streams{In: strings.NewReader(in), Out: &o, Err: &e},
		[]string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")})
	return code, o.String(), e.String()
}

func TestAuditIsShownAndVerified(t *testing.T) {
	data := t.TempDir()
	if code, _, errs := says(t, data, "", "audit", "verify"); code != exitFailed || !strings.Contains(errs, "there is no audit") {
		t.Errorf("%d, %q", code, errs)
	}
	log, err := audit.Open(filepath.Join(data, auditFolder), audit.Options{Writer: "test"})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for _, e := range []audit.Entry{
		{Time: at, Kind: audit.KindBegin, Call: "call_1", Tool: "shell", Parts: []string{"make", "tee \x1b[2Jlog"}, Cwd: "/w", Decision: &audit.Decision{Outcome: "allow", By: "rule", Rules: []string{"rules.toml:3"}}},
		{Time: at.Add(time.Second), Kind: audit.KindEnd, Call: "call_1", Outcome: &audit.Outcome{ExitCode: 3, Duration: time.Second}},
		{Time: at.Add(2 * time.Second), Kind: audit.KindRefused, Call: "call_2", Note: "no"},
	} {
		if err := log.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	code, out, _ := says(t, data, "", "audit", "show")
	if code != exitDone || !strings.Contains(out, "begin     call_1  shell  allow by rule\n    command  make\n") || !strings.Contains(out, "exit 3  1.0 s") ||
		!strings.Contains(out, "rules.toml:3") || strings.Contains(out, "\x1b") {
		t.Errorf("%d, %q", code, out)
	}
	if code, out, _ := says(t, data, "", "audit", "show", "--denied"); code != exitDone || strings.Count(out, "call_") != 1 || !strings.Contains(out, "call_2") {
		t.Errorf("%d, %q", code, out)
	}
	if code, out, _ := says(t, data, "", "audit", "show", "--last", "1", "--json"); code != exitDone || strings.Count(out, "\n") != 1 || !strings.Contains(out, `"call":"call_2"`) {
		t.Errorf("%d, %q", code, out)
	}
	if code, out, _ := says(t, data, "", "audit", "verify"); code != exitDone || out != "chain intact, 3 records\n" {
		t.Errorf("%d, %q", code, out)
	}
	code, note, _ := says(t, data, "", "audit", "verify", "--json")
	file := filepath.Join(t.TempDir(), "note.json")
	if err := os.WriteFile(file, []byte(note), 0o600); err != nil || code != exitDone {
		t.Fatal(code, err)
	}
	if code, out, errs := says(t, data, "", "audit", "verify", "--since", file); code != exitDone {
		t.Errorf("%d, %q, %q", code, out, errs)
	}
	if code, _, _ := says(t, data, "", "audit", "verify", "--since", filepath.Join(data, auditFolder, "key.pub")); code != exitUsage {
		t.Errorf("%d", code)
	}
	path := filepath.Join(data, auditFolder, log.Name()+".jsonl")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte(`"exit_code":3`), []byte(`"exit_code":0`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := says(t, data, "", "audit", "verify"); code != exitFailed || !strings.Contains(out, "record 2: its hash is not") || !strings.HasSuffix(out, "chain broken, 1 records hold\n") {
		t.Errorf("%d, %q", code, out)
	}
	if code, out, errs := says(t, data, "", "audit", "show"); code != exitFailed || strings.Contains(out, "exit 0") || !strings.Contains(errs, "audit verify") {
		t.Errorf("%d, %q, %q", code, out, errs)
	}
}

func TestAnswerWithoutAQuestion(t *testing.T) {
	if code, _, errs := says(t, t.TempDir(), "secret\n", "answer"); code != exitFailed || !strings.Contains(errs, "no session asks for a password") {
		t.Errorf("%d, %q", code, errs)
	}
	if code, _, errs := says(t, t.TempDir(), "secret\n", "answer", "1234"); code != exitFailed || !strings.Contains(errs, "session 1234 does not ask") {
		t.Errorf("%d, %q", code, errs)
	}
}

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/audit"
)

// auditFolder is where the audit lies, in the data folder.
const auditFolder = "audit"

type auditCommand struct {
	Show   auditShowCommand   `cmd:"" help:"Show what agents ran, who allowed it, and how it ended."`
	Verify auditVerifyCommand `cmd:"" help:"Check that no record was changed, moved or removed."`
}

type auditShowCommand struct {
	globals
	Denied bool   `help:"Only what was refused, or denied by the sandbox."`
	Call   string `placeholder:"ID" help:"Only one call's records."`
	Last   int    `placeholder:"N" help:"Only the last N."`
	JSON   bool   `help:"Print a JSON object per line, with everything that is kept."`
}

// Run shows the records, and fails if one of them was tampered with.
func (c auditShowCommand) Run(p *program) error {
	loaded, err := p.load(c.globals)
	if err != nil {
		return err
	}
	all, report, err := audit.Read(filepath.Join(loaded.Config.Storage.Data, auditFolder))
	if err != nil {
		return err
	}
	var shown []audit.Entry
	for _, e := range all {
		if (c.Call == "" || e.Call == c.Call) && (!c.Denied || wasDenied(e)) {
			shown = append(shown, e)
		}
	}
	if c.Last > 0 && len(shown) > c.Last {
		shown = shown[len(shown)-c.Last:]
	}
	for _, e := range shown {
		if c.JSON {
			text, err := json.Marshal(e)
			if err != nil {
				return fmt.Errorf("show the audit: %w", err)
			}
			fmt.Fprintf(p.Out, "%s\n", text)
			continue
		}
		showEntry(p.Out, e)
	}
	if !report.Intact() {
		return fault.New(fault.Conflict, "the audit is not as it was written; what does not hold is not shown").WithTry("hardshell audit verify")
	}
	return nil
}

// wasDenied says whether something was refused, by a rule, a person or the sandbox.
func wasDenied(e audit.Entry) bool {
	switch {
	case e.Kind == audit.KindRefused:
		return true
	case e.Kind == audit.KindApproval:
		return e.Decision != nil && !strings.HasPrefix(strings.ToLower(e.Decision.Answer), "approved")
	}
	return e.Outcome != nil && (e.Outcome.Error == "denied" || e.Outcome.Denial != "")
}

// showEntry writes one line, and what belongs to it below.
func showEntry(w io.Writer, e audit.Entry) {
	fmt.Fprintf(w, "%s  %-8s", e.Time.Local().Format("2006-01-02 15:04:05.000"), e.Kind)
	field := func(text string) {
		if text != "" {
			fmt.Fprintf(w, "  %s", visible(strings.ReplaceAll(text, "\n", `\n`)))
		}
	}
	field(e.Call)
	field(e.Tool)
	if e.Session != 0 {
		field(fmt.Sprintf("session %d", e.Session))
	}
	if d := e.Decision; d != nil {
		field(strings.Join(strings.Fields(d.Outcome+" "+d.Answer+" "+by(d.By)), " "))
	}
	if o := e.Outcome; o != nil {
		field(fmt.Sprintf("exit %d", o.ExitCode))
		field(duration(o.Duration.Round(time.Millisecond)))
		field(o.Error)
	}
	fmt.Fprintln(w)
	below := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "    %-8s %s\n", name, visible(strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n             ")))
		}
	}
	for i, part := range e.Parts {
		below([]string{"command", ""}[min(i, 1)], part)
	}
	if len(e.Parts) == 0 {
		below("command", strings.Join(e.Command, " "))
	}
	below("in", e.Cwd)
	below("for", strings.Join(strings.Fields(e.Org+" "+e.Key+" "+e.Container), " "))
	if d := e.Decision; d != nil {
		below("why", d.Why)
		below("rules", strings.Join(d.Rules, "\n"))
	}
	if l := e.Limits; l != nil {
		below("sandbox", strings.TrimSpace(l.Got+" "+strings.Join(l.Missing, ", ")))
	}
	if o := e.Outcome; o != nil {
		below("said", o.Message)
		below("denied", o.Denial)
	}
	below("note", e.Note)
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return "by " + who
}

type auditVerifyCommand struct {
	globals
	Since string `placeholder:"FILE" help:"Compare with an earlier report (of --json), which was kept elsewhere: an older state that was put back shows, and a new key."`
	JSON  bool   `help:"Print the report as JSON."`
}

// Run reads all records and says what does not hold.
func (c auditVerifyCommand) Run(p *program) error {
	loaded, err := p.load(c.globals)
	if err != nil {
		return err
	}
	var since *audit.Report
	if c.Since != "" {
		text, err := os.ReadFile(c.Since)
		if err != nil {
			return usageError{unread("the earlier report", c.Since, err).WithTry("hardshell audit verify --json >FILE, kept elsewhere, then --since FILE")}
		}
		since = new(audit.Report)
		if err := json.Unmarshal(text, since); err != nil || since.Key == "" {
			return usageError{fault.New(fault.Invalid, "%s is no report of hardshell audit verify --json", c.Since)}
		}
	}
	report, err := audit.Verify(filepath.Join(loaded.Config.Storage.Data, auditFolder), since)
	if err != nil {
		return err
	}
	if c.JSON {
		if err := writeJSON(p.Out, report); err != nil {
			return err
		}
	} else {
		for _, problem := range report.Problems {
			fmt.Fprintln(p.Out, visible(problem))
		}
		for _, f := range report.Files {
			if f.Torn > 0 {
				fmt.Fprintf(p.Err, "%s: its last line was broken off by a crash, after record %d\n", f.Name, f.Records)
			}
		}
	}
	if !report.Intact() {
		if !c.JSON {
			fmt.Fprintf(p.Out, "chain broken, %d records hold\n", report.Records)
		}
		return exitCode(exitFailed)
	}
	if !c.JSON {
		fmt.Fprintf(p.Out, "chain intact, %d records\n", report.Records)
	}
	return nil
}

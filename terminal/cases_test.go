package terminal

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// thirtyCases says which tests hold each case of the black-box list. Those of this folder are its own by name alone.
var thirtyCases = map[int][]string{
	1:  {"TestHowOneShotCommandsEnd", "TestExecCommandThatEnds", "../sandbox TestHowACommandEnds"},
	2:  {"TestATimeOutLeavesNothing", "../sandbox TestTimeoutKillsItsOwnCallAndNoOther", "../sandbox TestSuiteCallsEndWhole"},
	3:  {"TestACommandThatLeavesSomethingBehind", "../sandbox TestACallEndsWithItsShell", "../sandbox TestSuiteRunsLeakNothing"},
	4:  {"TestACommandThatLeavesSomethingBehind", "../sandbox TestAWholeCallLeavesNothing"},
	5:  {"../sandbox TestKilledOwnerWithoutGraceLeavesNothing", "../sandbox TestSuiteBoxesEndWhole"},
	6:  {"TestMuchOutput", "../sandbox/process TestHeadTailBufferKeepsAMebibyte", "screen TestAMuchIsCounted"},
	7:  {"TestDeltas", "../sandbox/process TestDeltasAreBounded", "../sandbox TestOrderOfABusyStream"},
	8:  {"TestOneCount", "TestMuchOutput", "TestDeltas", "../sandbox/process TestHeadTailViewCutsNoCharacter"},
	9:  {"TestBytesThatAreNoText", "screen TestReplacedBytesAreCounted", "../sandbox/process TestDecoder"},
	10: {"TestNumbersAreClampedOrRefused", "TestOneCount"},
	11: {"TestNumbersAreClampedOrRefused", "session TestYieldIsMeasuredFromTheStart"},
	12: {"session TestACommandThatEndsEarlyEndsTheWait"},
	13: {"session TestUnreadOutputOfAnEndedSession", "TestTheSeedsSession"},
	14: {"session TestTheOldestExitedGoFirst", "session TestPruningKeepsItsWord"},
	15: {"TestParallelCallsShareTheirTime"},
	16: {"TestATerminalIsOne", "TestExecCommandThatEnds", "../sandbox TestResize"},
	17: {"TestPythonIsInterruptedInTheSandbox", "session TestAREPL"},
	18: {"TestCatInATerminal", "TestAPasteThatNobodyReads", "../sandbox TestACommandThatNeverReads"},
	19: {"TestWhatIgnoresSignalsIsKilled", "../sandbox TestKillOfATerminalsTree"},
	20: {"TestPipesAreNotTypedInto"},
	21: {"../sandbox TestNoWayOut", "../sandbox TestAttemptsSucceedWithoutABox"},
	22: {"../sandbox TestCommitsWorkWhereNothingObeyedCanBeWritten", "../sandbox TestARepositoryBelowTheWorkspaceIsProtectedToo", "../sandbox TestSettingsInAWorkspaceCannotBeWritten", "../sandbox TestS34NoSettingOfOursComesToBe"},
	23: {"../sandbox TestNoWayOut", "../sandbox TestS48SocketsOfTheHostsServicesAreRefused"},
	24: {"../sandbox/egress TestNoAddressIsReachedByAnyNotation", "../sandbox/egress TestANameThatLeadsInwardsIsRefused", "../sandbox/egress TestARebindingNameIsDialledWhereItWasChecked", "../internal/container/jail TestThereIsNoOtherWayOut"},
	25: {"../sandbox TestBelowTheJailOnlyWhereItIsAccepted", "../sandbox TestAJailThatCannotBeMadeIsRefused", "../internal/cli TestWithoutAJailRunSaysWhatItGot"},
	26: {"TestSecretsOfTheServiceAreNotTheCommands", "shell TestSecretsAreOutByDefault"},
	27: {"approval TestPlainReadsAskNothing", "approval TestWhatUntrustedAsks"},
	28: {"approval TestARuleIsNotWalkedAround"},
	29: {"TestApprovalsBindToWhatWasShown", "TestTheCacheKeepsItsWord", "TestAlwaysIsWhatWasShown", "approval TestASessionsApprovalAnswersOnlyForItself", "approval TestTheBookKeepsGrants"},
	30: {"TestWordsAreNoDenial", "TestDenialsAreToldWithTheirCure", "TestEscalation", "../sandbox TestWhatASandboxDenied"},
}

func TestEveryCaseHasItsTests(t *testing.T) {
	texts := map[string]string{} // of a folder's tests
	for n := 1; n <= 30; n++ {
		if len(thirtyCases[n]) == 0 {
			t.Errorf("case %d has none", n)
		}
		for _, name := range thirtyCases[n] {
			dir, test, other := strings.Cut(name, " ")
			if !other {
				dir, test = ".", name
			}
			if texts[dir] == "" {
				entries, err := os.ReadDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range entries {
					if strings.HasSuffix(e.Name(), "_test.go") {
						text, err := os.ReadFile(dir + "/" + e.Name())
						if err != nil {
							t.Fatal(err)
						}
						texts[dir] += string(text)
					}
				}
			}
			if !strings.Contains(texts[dir], "\nfunc "+test+"(t *testing.T) {") {
				t.Errorf("case %d: there is no %s in %s", n, test, dir)
			}
		}
	}
}

// left counts the processes of a sandbox that sleep for so long.
func (r *rig) left(seconds string) string {
	r.t.Helper()
	return strings.TrimSpace(r.call(ToolShellCommand, `{"command":"for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null; echo; done | grep -c '^sleep `+seconds+`'"}`).Text())
}

// wait is what makes exec_command answer at the command's end, as the one-shot tools do.
func wait(tool string) string {
	if tool == ToolExecCommand {
		return `,"wait_for":"exit"`
	}
	return ""
}

func TestATimeOutLeavesNothing(t *testing.T) { // case 2
	r := newRig(t, approval.OnRequest, nil)
	for _, tool := range both {
		got := r.call(tool, `{"command":"echo begun; (setsid sleep 3611 &) ; (sleep 3611) & sleep 3611","timeout_ms":500`+wait(tool)+`}`)
		if code(got) != 124 || !got.TimedOut || !strings.HasPrefix(got.Text(), "begun\n") {
			t.Errorf("%s: %+v", tool, got)
		}
		if n := r.left("3611"); n != "0" {
			t.Errorf("%s: %s are left", tool, n)
		}
	}
}

func TestACommandThatLeavesSomethingBehind(t *testing.T) { // cases 3 and 4
	r := newRig(t, approval.OnRequest, nil)
	for _, tool := range both {
		for _, script := range []string{"echo a; (sleep 3612; echo late) & exit 0", "echo a; (setsid sh -c 'sleep 3612 & sleep 3612' &); nohup sleep 3612 &"} {
			for _, tty := range []string{"", `,"tty":true`} {
				if tool != ToolExecCommand && tty != "" {
					continue
				}
				if got := r.call(tool, `{"command":"`+script+`"`+wait(tool)+tty+`}`); code(got) != 0 || !strings.HasPrefix(got.Text(), "a\n") || got.TimedOut {
					t.Errorf("%s %s: %+v", tool, script, got)
				}
				if n := r.left("3612"); n != "0" {
					t.Errorf("%s %s %s: %s are left", tool, script, tty, n)
				}
			}
		}
	}
	r.call(ToolExecCommand, `{"cmd":"sleep 3613 & exit 0","background":true}`)
	if n := r.left("3613"); n != "1" {
		t.Errorf("what was asked to run on: %s", n)
	}
}

func TestMuchOutput(t *testing.T) { // cases 6 and 8
	r := newRig(t, approval.OnRequest, nil)
	for _, tool := range both {
		got := r.call(tool, `{"command":"yes | head -c 3000000; echo END"`+wait(tool)+`}`)
		text := got.Format(Labelled)
		if got.Stdout != 3_000_004 || got.TokenCount() != 750_001 || !strings.HasPrefix(got.Head, "y\ny\n") || !strings.HasSuffix(got.Tail, "y\nEND\n") {
			t.Errorf("%s: %d bytes, %d tokens", tool, got.Stdout, got.TokenCount())
		}
		if strings.Count(text, " tokens truncated…") != 1 || strings.Count(text, " bytes omitted ...") != 1 || !strings.HasSuffix(text, "END\n") || len(text) > 42_000 {
			t.Errorf("%s: %d bytes: %.300q", tool, len(text), text)
		}
		got = r.call(tool, `{"command":"printf 'é%.0s' {1..100000}","max_output_tokens":30`+wait(tool)+`}`)
		if text := got.Format(Labelled); got.TokenCount() != 50_000 || !utf8.ValidString(text) || strings.Contains(text, "\ufffd") || !strings.HasSuffix(text, "é") {
			t.Errorf("%s: %q", tool, text)
		}
	}
}

func TestBytesThatAreNoText(t *testing.T) { // case 9
	r := newRig(t, approval.OnRequest, nil)
	for _, tool := range both {
		got := r.call(tool, `{"command":"printf '\\377\\376\\000\\r\\nnext\\n'; printf '\\303'"`+wait(tool)+`}`)
		if text := got.Text(); !utf8.ValidString(text) || !strings.Contains(text, "\nnext\n") || got.Replaced != 3 || got.Stdout != 11 {
			t.Errorf("%s: %q, %d replaced, %d bytes", tool, text, got.Replaced, got.Stdout)
		}
		if got := r.call(tool, `{"command":"printf '\\251 after'"`+wait(tool)+`}`); got.Text() != "\ufffd after" {
			t.Errorf("%s: the next output: %q", tool, got.Text())
		}
	}
}

func TestParallelCallsShareTheirTime(t *testing.T) { // case 15
	bubble(t, nil, func(t *testing.T, r *rig, b *fakeBackend) {
		began := time.Now()
		var all []chan *ExecResult
		for range 33 {
			all = append(all, r.soon(ToolExecCommand, `{"cmd":"serve","yield_time_ms":250}`))
		}
		ids := map[int]bool{}
		for _, answer := range all {
			got := <-answer
			if ids[got.SessionID] = true; !got.living() || got.WallTime != 250*time.Millisecond {
				t.Errorf("%+v", got)
			}
		}
		if took := time.Since(began); took != 250*time.Millisecond || len(ids) != 33 || len(b.made()) != 1 {
			t.Errorf("%d sessions in %v", len(ids), took)
		}
	})
}

// R14: a build of nine minutes costs one call after its start, and a model that gives it a time of its own no more than two.
func TestALongBuildCostsTwoCalls(t *testing.T) {
	for _, wait := range []string{`"wait_for":{"exit":true}`, `"wait_for":{"exit":true,"ceiling_ms":300000}`, `"yield_time_ms":300000`} {
		bubble(t, nil, func(t *testing.T, r *rig, b *fakeBackend) {
			build := r.soon(ToolExecCommand, `{"cmd":"make all"}`)
			synctest.Wait()
			job := b.made()[0].last()
			go func() {
				for range 9 * 60 {
					time.Sleep(time.Second)
					job.says(process.Stdout, "\rbuilding")
				}
				job.exits(0)
			}()
			first := <-build
			calls := 0
			for got := first; got.living(); calls++ {
				got = r.call(ToolWriteStdin, `{"session_id":`+first.ProcessID+`,`+wait+`}`)
			}
			if !first.living() || calls > 2 {
				t.Errorf("%s: %d calls", wait, calls)
			}
		})
	}
}

func TestATerminalIsOne(t *testing.T) { // case 16
	r := newRig(t, approval.OnRequest, nil)
	first := r.call(ToolExecCommand, `{"cmd":"stty -a </dev/tty | grep -ow -- '-*echo'; stty size; trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done","tty":true,"wait_for":{"pattern":"ready"}}`)
	if !strings.HasPrefix(first.Text(), "echo\n24 80\n") {
		t.Errorf("%q", first.Text())
	}
	s, err := r.session.Live().Get(first.SessionID)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Resize(t.Context(), process.Size{Rows: 50, Cols: 132}); err != nil {
		t.Fatal(err)
	}
	r.until(first.ProcessID, "50 132", first)
}

func TestCatInATerminal(t *testing.T) { // case 18
	r := newRig(t, approval.OnRequest, nil)
	first := r.call(ToolExecCommand, `{"cmd":["cat"],"tty":true,"yield_time_ms":250}`)
	r.until(first.ProcessID, "(?s)text.*text", r.call(ToolWriteStdin, `{"session_id":`+first.ProcessID+`,"chars":"text\n"}`))
	if got := r.call(ToolWriteStdin, `{"session_id":`+first.ProcessID+`,"chars":"\u0004","wait_for":"exit"}`); code(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestAPasteThatNobodyReads(t *testing.T) { // case 18
	bubble(t, nil, func(t *testing.T, r *rig, b *fakeBackend) {
		first := r.call(ToolExecCommand, `{"cmd":"sleep 600","tty":true,"yield_time_ms":250}`)
		pasted := make(chan string, 1)
		paste := r.invocation(ToolWriteStdin, `{"session_id":`+first.ProcessID+`,"chars":"`+strings.Repeat("x", 1<<20)+`"}`)
		began := time.Now()
		go func() {
			out, err := r.tools.Dispatch(t.Context(), paste)
			if err != nil {
				t.Error(err)
			}
			pasted <- out.Text()
		}()
		synctest.Wait()
		if got := r.call(ToolExecCommand, `{"cmd":"other","yield_time_ms":250}`); !got.living() || time.Since(began) != 250*time.Millisecond {
			t.Errorf("another call has to wait: %v, %+v", time.Since(began), got)
		}
		if text := <-pasted; !strings.Contains(text, "does not read") || time.Since(began) > 6*time.Second {
			t.Errorf("%v: %s", time.Since(began), text)
		}
	})
}

func TestWhatIgnoresSignalsIsKilled(t *testing.T) { // case 19
	r := newRig(t, approval.OnRequest, nil)
	first := r.call(ToolExecCommand, `{"cmd":"trap '' INT TERM HUP; echo up; while :; do sleep 0.05; done","tty":true,"wait_for":{"pattern":"up"}}`)
	id := first.ProcessID
	if got := r.call(ToolWriteStdin, `{"session_id":`+id+`,"chars":"\u0003","yield_time_ms":500}`); !got.living() {
		t.Errorf("%+v", got)
	}
	s, err := r.session.Live().Named(id)
	if err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if got := r.call(ToolWriteStdin, `{"session_id":`+id+`,"wait_for":"exit"}`); code(got) != 137 {
		t.Errorf("%+v", got)
	}
}

func TestSecretsOfTheServiceAreNotTheCommands(t *testing.T) { // case 26
	names := []string{"AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "OPENAI_API_KEY", "PGPASSWORD"}
	var environ []string
	for n, name := range names {
		t.Setenv(name, "canary-"+strconv.Itoa(n))
		environ = append(environ, name+"=canary-"+strconv.Itoa(n))
	}
	r := newRig(t, approval.OnRequest, func(c *SessionConfig) { c.Environ = append(c.Environ, environ...) })
	for _, tool := range both {
		got := r.call(tool, `{"command":"env; for p in 1 self $$ $PPID; do tr '\\0' '\\n' </proc/$p/environ; done; echo looked"`+wait(tool)+`}`)
		if text := got.Text(); strings.Contains(text, "canary") || !strings.Contains(text, "looked") || !strings.Contains(text, "PATH=") {
			t.Errorf("%s: %s", tool, text)
		}
	}
}

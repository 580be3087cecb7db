package terminal

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// S26: a folder that the model chooses moves the command, and never what may be written.
func TestAFolderOfTheModelsIsNoWritableRoot(t *testing.T) {
	r := newRig(t, approval.OnRequest, nil)
	other := t.TempDir()
	for _, dir := range []string{"/", "/usr", other, "..", "../..", r.work + "/../" + filepath.Base(other)} {
		got := r.call(ToolShellCommand, `{"command":"touch hardshell-was-here","workdir":"`+dir+`"}`)
		if code(got) == 0 && !strings.HasPrefix(got.CwdBefore, "/tmp") { // there it is the sandbox's own /tmp
			t.Errorf("%s could be written: %+v", dir, got)
		}
		at := dir
		if !filepath.IsAbs(at) {
			at = filepath.Join(r.work, at)
		}
		if _, err := os.Lstat(filepath.Join(at, "hardshell-was-here")); err == nil {
			t.Errorf("a file is in %s", at)
		}
	}
	if got := r.call(ToolShellCommand, `{"command":"touch `+r.turn.Cwd+`/mine","workdir":"/"}`); code(got) != 0 || !r.exists("mine") {
		t.Errorf("the workspace, from elsewhere: %+v", got)
	}
	if got := r.call(ToolShellCommand, `{"command":"pwd","workdir":"no/such"}`); code(got) != 126 && code(got) != 127 && got.Failure != "io" {
		t.Errorf("a folder that is not there: %+v", got)
	}
}

// S28: what a command links to is neither read nor written by us.
func TestLinksOfACommandLeadUsNowhere(t *testing.T) {
	r := newRig(t, approval.OnRequest, nil)
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, filepath.Dir(secret), "secret", "very secret\n")
	write(t, r.work, "file", "x\n")
	write(t, r.work, "sub/deep", "x\n")
	r.turn.Tracker = NewTurnDiffTracker(r.work)
	r.call(ToolShellCommand, `{"command":"unlink file; ln -s `+secret+` file; mv sub gone; ln -s `+filepath.Dir(secret)+` sub; mkfifo pipe; ln -s pipe piped"}`)
	diff, err := r.turn.Tracker.UnifiedDiff()
	if err != nil || strings.Contains(diff, "very secret") || !strings.Contains(diff, "+"+secret) {
		t.Errorf("%v\n%s", err, diff)
	}
	// Nor do approvals go through a link to where they are kept.
	link := filepath.Join(r.work, "grants")
	if err := os.Symlink(secret, link); err != nil {
		t.Fatal(err)
	}
	rule := approval.Rule{Prefix: [][]string{{"go"}, {"vet"}}, Origin: approval.Granted}
	if err := approval.OpenBook(link).Add(approval.Grant{ID: "g", Scope: approval.Always, Rules: []approval.Rule{rule}, Expires: r.session.config.Now()}); err == nil {
		t.Error("a grant was written through a link")
	}
	if text, _ := os.ReadFile(secret); string(text) != "very secret\n" {
		t.Errorf("%q", text)
	}
}

// counting is a backend that counts what it is asked for.
type counting struct {
	LocalBackend
	opened *atomic.Int32
}

func (c counting) Open(ctx context.Context, spec PlaceSpec) (Place, error) {
	c.opened.Add(1)
	return c.LocalBackend.Open(ctx, spec)
}

// S35, S36, S37: opening a session in a repository full of settings starts nothing and believes nothing.
func TestAHostileRepositoryIsOnlyFiles(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "marker")
	payload := "touch " + marker
	var opened atomic.Int32
	var events recorder
	r := newRig(t, approval.UnlessTrusted, func(c *SessionConfig) {
		for name, text := range map[string]string{
			".hardshell/config.toml": "[hooks]\nstart = \"" + payload + "\"\n", "hardshell.toml": "[storage]\ndata = \".\"\n", ".codex/config.toml": "notify = [\"sh\", \"-c\", \"" + payload + "\"]\n",
			".claude/settings.json": `{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"` + payload + `"}]}]}}`, ".mcp.json": `{"mcpServers":{"x":{"command":"sh","args":["-c","` + payload + `"]}}}`,
			".vscode/tasks.json": `{"tasks":[{"command":"` + payload + `","runOptions":{"runOn":"folderOpen"}}]}`, ".envrc": payload + "\n", ".env": "HARDSHELL_CONFIG=./hardshell.toml\nXDG_CONFIG_HOME=.\nBASH_ENV=./.bashrc\nPATH=.\n",
			".bashrc": payload + "\n", ".bash_profile": payload + "\n", ".profile": payload + "\n", ".yarnrc.yml": "yarnPath: ./evil.cjs\n", "package.json": `{"scripts":{"preinstall":"` + payload + `"}}`,
			".git/HEAD": "ref: refs/heads/main\n", ".git/objects/x": "", ".git/refs/x": "", ".git/config": "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = " + payload + "\n\tpager = " + payload + "\n\thooksPath = .\n[user]\n\temail = \"$(" + payload + ")@x\"\n[alias]\n\tstatus = !" + payload + "\n",
		} {
			write(t, c.Cwd, name, text)
		}
		c.Backend, c.Observer = counting{opened: &opened}, &events
	})
	if opened.Load() != 0 || len(events.list) != 0 {
		t.Errorf("%d places, %v", opened.Load(), events.list)
	}
	if got := r.call(ToolShellCommand, `{"command":"echo $HARDSHELL_CONFIG $XDG_CONFIG_HOME $BASH_ENV $PATH"}`); got.Failure != "rejected" && got.Text() != "/usr/local/bin:/usr/bin:/bin\n" {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("something of the repository ran")
	}
}

// S25, S36: git that only reads runs no helper of the repository's, even where nothing confines it.
func TestGitThatReadsRunsNoHelper(t *testing.T) {
	git, err := exec.LookPath("git")
	require.Feature(t, "git", err)
	marker := filepath.Join(t.TempDir(), "marker")
	r := newRig(t, approval.UnlessTrusted, func(c *SessionConfig) { c.SandboxPolicy = sandbox.Policy{Mode: sandbox.DangerFullAccess} })
	helper := filepath.Join(r.work, "helper")
	write(t, r.work, "helper", "#!/bin/sh\ntouch "+marker+"\ncat\n")
	if err := os.Chmod(helper, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q", "."}, {"add", "."}, {"-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x"}, {"config", "core.fsmonitor", helper},
		{"config", "core.pager", helper}, {"config", "diff.external", helper}, {"config", "core.hooksPath", r.work}, {"config", "gpg.program", helper}, {"config", "log.showSignature", "true"},
		{"config", "credential.helper", helper}, {"config", "core.sshCommand", helper}} {
		cmd := exec.CommandContext(t.Context(), git, args...)
		cmd.Dir, cmd.Env = r.work, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	write(t, r.work, "new", "x\n")
	for _, command := range []string{"git status", "git log", "git diff", "git show", "git branch", "git -C . log --oneline"} {
		got := r.call(ToolShellCommand, `{"command":"`+command+`"}`)
		if code(got) != 0 {
			t.Errorf("%s: %+v", command, got)
		}
		if _, err := os.Stat(marker); err == nil {
			t.Fatalf("%s ran a helper of the repository's", command)
		}
	}
}

// S34, S38, S39: what a command writes where we read loads nothing, and what forbids holds without anybody to ask.
func TestNothingFromInsideWidens(t *testing.T) {
	config := t.TempDir()
	rules, err := approval.Load("rules.toml", []byte("[[rule]]\nprefix = [\"git\", \"push\"]\ndecision = \"forbid\"\n"), approval.User)
	if err != nil {
		t.Fatal(err)
	}
	book := approval.OpenBook(filepath.Join(config, "grants.toml"))
	r := newRig(t, approval.UnlessTrusted, func(c *SessionConfig) { c.Rules, c.Grants = rules, book })
	grant := "[[grant]]\\nid = \\\"x\\\"\\nexpires = 2099-01-01T00:00:00Z\\n[[grant.rule]]\\nprefix = [[\\\"touch\\\"]]\\n"
	never := newRig(t, approval.Never, func(c *SessionConfig) { c.Cwd, c.Rules, c.Grants = r.work, rules, book })
	if got := never.call(ToolShellCommand, `{"command":"printf '`+grant+`' > `+config+`/grants.toml"}`); got.Failure != "denied" {
		t.Errorf("the grants could be written: %+v", got)
	}
	if got := never.call(ToolShellCommand, `{"command":"mkdir -p .hardshell; printf '[[rule]]\\nprefix = [\"touch\"]\\ndecision = \"allow\"\\n' > .hardshell/rules.toml"}`); code(got) != 0 {
		t.Errorf("%+v", got)
	}
	text, err := os.ReadFile(filepath.Join(r.work, ".hardshell/rules.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if rules, err := approval.Load("workspace", text, approval.Workspace); err == nil {
		t.Errorf("a workspace's rule that allows was taken: %v", rules)
	}
	if got := r.call(ToolShellCommand, `{"command":"touch x"}`); got.Failure != "rejected" {
		t.Errorf("%+v", got)
	}
	headless := newRig(t, approval.Never, func(c *SessionConfig) {
		c.Rules, c.SandboxPolicy = rules, sandbox.Policy{Mode: sandbox.DangerFullAccess}
	})
	for _, command := range []string{"git push", "git -C . push", "true && git --no-pager push", "env git push", "bash -c 'git push'"} {
		if got := headless.call(ToolShellCommand, `{"command":"`+command+`"}`); got.Failure != "rejected" || got.ExitCode != nil {
			t.Errorf("%s: %+v", command, got)
		}
	}
}

// S40: no field of a call turns the sandbox off.
func TestUnknownFieldsRunNothing(t *testing.T) {
	r := newRig(t, approval.Never, nil)
	for _, field := range []string{`"dangerouslyDisableSandbox":true`, `"sandbox":"none"`, `"sandbox_permissions":"with_additional_permissions"`, `"env":{"LD_PRELOAD":"x"}`, `"approval_policy":"never"`} {
		if text := r.text(ToolShellCommand, `{"command":"touch x",`+field+`}`); !strings.HasPrefix(text, "failed to parse function arguments: ") || r.exists("x") {
			t.Errorf("%s: %s", field, text)
		}
	}
}

// S41: names made of a shell's own characters are names.
func TestNamesReachNoShell(t *testing.T) {
	r := newRig(t, approval.OnRequest, nil)
	for _, name := range []string{"$(touch marker)", "`touch marker`", "; touch marker #", "a\nb", "'; touch marker; '", "--help"} {
		if err := os.MkdirAll(filepath.Join(r.work, "dirs", name), 0o755); err != nil {
			t.Fatal(err)
		}
		out, err := r.tools.Dispatch(t.Context(), ToolInvocation{Session: r.session, Turn: r.turn, CallID: name, ToolName: ToolShell,
			Payload: LocalShellPayload{ShellToolCallParams{Command: []string{"touch", "--", name}, Workdir: "dirs/" + name}}})
		if err != nil || !strings.HasPrefix(out.Text(), "Exit code: 0") {
			t.Errorf("%q: %v %v", name, out, err)
		}
		if !r.exists(filepath.Join("dirs", name, name)) || r.exists("marker") || r.exists(filepath.Join("dirs", name, "marker")) {
			t.Errorf("%q was more than a name", name)
		}
	}
}

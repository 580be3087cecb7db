package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/audit"
	own "github.com/hardshell-dev/hardshell/internal/config"
	"github.com/hardshell-dev/hardshell/internal/mcp"
	"github.com/hardshell-dev/hardshell/internal/telemetry"
	"github.com/hardshell-dev/hardshell/sandbox"
	tools "github.com/hardshell-dev/hardshell/terminal"
)

type mcpCommand struct {
	Serve   mcpServeCommand   `cmd:"" default:"withargs" help:"Serve one MCP client on stdin and stdout (the default)."`
	Install mcpInstallCommand `cmd:"" help:"Print the configuration that makes a client use hardshell."`
}

type mcpServeCommand struct {
	globals
	policyFlags
	Network  string   `enum:"off,full" default:"off" placeholder:"off|full" help:"What commands may reach: off (nothing but their own loopback) or full. Default: off."`
	Writable []string `placeholder:"DIR" sep:"none" help:"A further folder that commands may write, with workspace-write. May be given more than once."`
	Older    bool     `name:"older-tools" help:"Offer shell, container.exec and shell_command too, which keep nothing between calls."`
	OnCancel string   `name:"on-cancel" enum:"kill,detach" default:"kill" placeholder:"kill|detach" help:"What becomes of a command whose call the client cancels. Default: kill."`
	NoLogin  bool     `name:"no-login" help:"Commands do not get the environment of your login shell."`
}

func (mcpServeCommand) Help() string {
	return `An MCP client starts this. Commands run in a sandbox: they write the folder that it was started in and nothing else, and have
no network. What leaves the sandbox is asked in the client, where that can ask; else it is refused.

Example:

  hardshell mcp install claude --print
  hardshell mcp --cwd ~/project --approval untrusted
`
}

// Run serves the client at our stdin and stdout until it goes away.
func (c mcpServeCommand) Run(ctx context.Context, p *program) error {
	in, isReader := p.In.(io.ReadCloser)
	out, isWriter := p.Out.(io.WriteCloser)
	if !isReader || !isWriter {
		return fault.New(fault.Invalid, "mcp needs a stdin and a stdout of its own")
	}
	loaded, err := p.load(c.globals)
	if err != nil {
		return err
	}
	config, err := c.terminal(p)
	if err != nil {
		return err
	}
	data := loaded.Config.Storage.Data
	if err := c.guard(p, data, loaded.Path, &config); err != nil {
		return err
	}
	locks := filepath.Join(data, "locks")
	if err := os.MkdirAll(locks, 0o700); err != nil {
		return fmt.Errorf("make the folder of locks: %w", err)
	}
	record, err := audit.Open(filepath.Join(data, auditFolder), audit.Options{Writer: "mcp", Mask: telemetry.Redact, Failed: func(err error) {
		fmt.Fprintln(p.Err, "hardshell: the audit cannot be written:", err)
	}})
	if err != nil {
		return err
	}
	defer func() {
		if err := record.Close(); err != nil {
			fmt.Fprintln(p.Err, "hardshell: the audit is not complete:", err)
		}
	}()
	logger, err := telemetry.New(p.Err, telemetry.Options{Level: loaded.Config.Log.Level, Format: "text"})
	if err != nil {
		return err
	}
	counts := telemetry.NewMetrics()
	collector, stop, err := export(loaded.Config.Telemetry.OTLP, counts, logger)
	if err != nil {
		return err
	}
	defer stop()
	config.Observer = telemetry.Tee(record, counts, collector)
	opened := func(ctx context.Context, s *tools.Session) error {
		_, err := s.Live().Door(ctx, filepath.Join(data, answersFolder))
		if err != nil {
			fmt.Fprintln(p.Err, "hardshell:", err) // all but passwords works without
		}
		return nil
	}
	err = mcp.Serve(ctx, mcp.Stdio(in, out), mcp.Config{Terminal: config, Older: c.Older, Detach: c.OnCancel == "detach", Locks: locks, Opened: opened, Version: readBuild().Version})
	if err == nil {
		err = context.Cause(ctx) // a signal is the exit code
	}
	return err
}

// guard hides what decides about the agent from it: its data, its rules and what was approved. They are made where a
// command could make them. What else decides was named by somebody, and may not lie where the agent writes.
func (c mcpServeCommand) guard(p *program, data, settingsFile string, config *tools.SessionConfig) error {
	settings, err := p.settings()
	if err != nil {
		return err
	}
	if data, err = filepath.Abs(data); err != nil {
		return fmt.Errorf("find the data folder: %w", err)
	}
	if err := own.PrepareData(data); err != nil {
		return err
	}
	writable := append([]string{config.Cwd}, config.SandboxPolicy.WritableRoots...)
	hidden, err := p.hides(config.Cwd, writable)
	if err != nil {
		return err
	}
	for _, path := range []string{data, settings} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return fmt.Errorf("make a folder of our own: %w", err)
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return fmt.Errorf("find a folder of our own: %w", err)
		}
		for _, root := range writable {
			if within(root, []string{real}) {
				return fault.New(fault.Invalid, "%s is hardshell's own: no agent works there", root).WithTry("--cwd, with a project's folder")
			}
		}
		if !slices.Contains(hidden, real) {
			hidden = append(hidden, real)
		}
	}
	config.SandboxPolicy.Hidden = hidden
	if config.SandboxPolicy.Mode != sandbox.WorkspaceWrite {
		return nil // nothing can be written, or everything
	}
	for _, file := range append([]string{settingsFile}, c.Rules...) {
		for _, path := range spellings(file) {
			if within(path, writable) && !within(path, hidden) {
				return fault.New(fault.Invalid, "%s decides about the agent, and lies where the agent may write", file).
					WithTry("move it to %s, or another folder outside the workspace", settings)
			}
		}
	}
	return nil
}

// spellings are the paths by which a file can be replaced: as it was named, and with links resolved. There is none for "".
func spellings(file string) (paths []string) {
	abs, err := filepath.Abs(file)
	if file == "" || err != nil {
		return nil
	}
	paths = []string{abs}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		paths = append(paths, filepath.Join(dir, filepath.Base(abs)))
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		paths = append(paths, real)
	}
	return paths
}

// within says whether a path is one of the folders, or in one.
func within(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		rel, err := filepath.Rel(folder, path)
		return err == nil && filepath.IsLocal(rel)
	})
}

// terminal is what the client's session is opened with.
func (c mcpServeCommand) terminal(p *program) (tools.SessionConfig, error) {
	config, err := c.config(p)
	if err != nil {
		return config, err
	}
	config.DisableLogin = c.NoLogin
	if c.Network == "full" || config.SandboxPolicy.Mode == sandbox.DangerFullAccess {
		config.SandboxPolicy.Network = sandbox.NetworkFull
	}
	if len(c.Writable) > 0 && config.SandboxPolicy.Mode == sandbox.ReadOnly {
		return config, usageError{fault.New(fault.Invalid, "read-only has no writable folders").WithTry("--sandbox workspace-write")}
	}
	if config.SandboxPolicy.Mode == sandbox.WorkspaceWrite {
		config.SandboxPolicy.WritableRoots, err = folders("--writable", c.Writable)
	}
	return config, err
}

type mcpInstallCommand struct {
	Client string   `arg:"" enum:"codex,claude,cursor" help:"codex, claude (Claude Code) or cursor."`
	Print  bool     `help:"Print it: nothing is written. The only way there is yet."`
	URL    string   `placeholder:"URL" help:"Of a hardshell serve, such as http://127.0.0.1:7070: the tools run there, in a container. The key comes from $HARDSHELL_API_KEY."`
	Args   []string `arg:"" optional:"" passthrough:"" name:"options" help:"Options of hardshell mcp to start it with, after --."`
}

func (mcpInstallCommand) Help() string {
	return `Example:

  hardshell mcp install codex --print
  hardshell mcp install cursor --print -- --approval untrusted
  hardshell mcp install claude --print --url http://127.0.0.1:7070
`
}

// Run prints the configuration, and where it goes on stderr.
func (c mcpInstallCommand) Run(p *program) error {
	if !c.Print {
		return usageError{fault.New(fault.Invalid, "mcp install writes nothing yet: it prints what to put where").WithTry("hardshell mcp install %s --print", c.Client)}
	}
	if c.URL != "" {
		return c.overHTTP(p)
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	args := c.Args
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	where, text, err := mcpConfiguration(c.Client, exe, append([]string{"mcp"}, args...))
	if err != nil {
		return err
	}
	fmt.Fprintln(p.Err, where)
	_, err = io.WriteString(p.Out, text)
	return err
}

// overHTTP prints what a client of a server is told. The key itself is in none of it.
func (c mcpInstallCommand) overHTTP(p *program) error {
	at, err := url.Parse(c.URL)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.User != nil || at.RawQuery != "" || at.Fragment != "" {
		return usageError{fault.New(fault.Invalid, "%q is not the address of a server", c.URL).WithTry("--url http://127.0.0.1:7070")}
	}
	if len(c.Args) > 0 {
		return usageError{fault.New(fault.Invalid, "the server at --url is started by itself: options for hardshell mcp do nothing there")}
	}
	at.Path = strings.TrimSuffix(strings.TrimSuffix(at.Path, "/"), "/mcp") + "/mcp"
	if c.Client == "codex" {
		fmt.Fprintln(p.Err, "Add this to ~/.codex/config.toml:")
		_, err := fmt.Fprintf(p.Out, "[mcp_servers.hardshell]\nurl = %s\nbearer_token_env_var = \"HARDSHELL_API_KEY\"\ntool_timeout_sec = 60\n", tomlString(at.String()))
		return err
	}
	entry := map[string]any{"url": at.String(), "headers": map[string]string{"Authorization": "Bearer ${env:HARDSHELL_API_KEY}"}}
	where := "Put this in ~/.cursor/mcp.json, or in .cursor/mcp.json of a project:"
	if c.Client == "claude" {
		entry["type"], entry["headers"] = "http", map[string]string{"Authorization": "Bearer ${HARDSHELL_API_KEY}"}
		where = "Put this in .mcp.json of a project:"
	}
	body, err := json.MarshalIndent(map[string]any{"mcpServers": map[string]any{"hardshell": entry}}, "", "  ")
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	fmt.Fprintln(p.Err, where)
	_, err = fmt.Fprintf(p.Out, "%s\n", body)
	return err
}

// mcpConfiguration is what a client reads, and where from.
func mcpConfiguration(client, exe string, args []string) (where, text string, err error) {
	if client == "codex" {
		list := make([]string, len(args))
		for i, arg := range args {
			list[i] = tomlString(arg)
		}
		return "Add this to ~/.codex/config.toml:", "[mcp_servers.hardshell]\ncommand = " + tomlString(exe) + "\nargs = [" + strings.Join(list, ", ") +
			"]\ntool_timeout_sec = 60\n", nil
	}
	type server struct {
		Type    string   `json:"type,omitempty"`
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	where, entry := "Put this in ~/.cursor/mcp.json, or in .cursor/mcp.json of a project:", server{Command: exe, Args: args}
	if client == "claude" {
		where, entry.Type = "Put this in .mcp.json of a project, or for all of yours: claude mcp add --scope user hardshell -- "+shellWords(append([]string{exe}, args...)), "stdio"
	}
	body, err := json.MarshalIndent(map[string]any{"mcpServers": map[string]any{"hardshell": entry}}, "", "  ")
	return where, string(body) + "\n", err
}

// tomlString writes a basic string: JSON's escapes are TOML's.
func tomlString(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		return strconv.Quote(s)
	}
	return string(text)
}

// shellWords quotes words for a POSIX shell.
func shellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = word
		if word == "" || strings.ContainsFunc(word, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,@%+", r)
		}) {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

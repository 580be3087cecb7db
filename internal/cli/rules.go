package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// maxRules bounds a file of rules.
const maxRules = 1 << 20

// settings is the user's own configuration folder of hardshell.
func (p *program) settings() (string, error) {
	if dir := p.getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "hardshell"), nil
	}
	if home := p.getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "hardshell"), nil
	}
	return "", fault.New(fault.Invalid, "there is no home folder to keep rules and approvals in").WithTry("set HOME")
}

// grants is what the user approved for always.
func (p *program) grants() (*approval.Book, error) {
	dir, err := p.settings()
	if err != nil {
		return nil, err
	}
	return approval.OpenBook(filepath.Join(dir, "grants.toml")), nil
}

// rules are the user's own, those of further files, and those of the workspace, which may only tighten.
func (p *program) rules(workspace string, more []string) (rules []approval.Rule, err error) {
	dir, err := p.settings()
	if err != nil {
		return nil, err
	}
	own := filepath.Join(dir, "rules.toml")
	text, err := os.ReadFile(own)
	if err == nil {
		rules, err = approval.Load(own, text, approval.User)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, file := range more {
		added, err := readRules(file)
		if err != nil {
			return nil, err
		}
		rules = append(rules, added...)
	}
	theirs, err := workspaceRules(workspace)
	return append(rules, theirs...), err
}

func readRules(file string) ([]approval.Rule, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, unread("the rules", file, err).WithTry("a file of rules that exists")
	}
	return approval.Load(file, text, approval.User)
}

// workspaceRules reads .hardshell/rules.toml of a workspace. It is not trusted: it may tighten, no link leads it out of
// the workspace, and what is no file of a sensible size is no rules.
func workspaceRules(workspace string) ([]approval.Rule, error) {
	const name = ".hardshell/rules.toml"
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return nil, fmt.Errorf("look for the workspace's rules: %w", err)
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the workspace's rules cannot be read")
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxRules {
		return nil, fault.Wrap(fault.Invalid, err, "%s of the workspace is no file of rules", name)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxRules))
	if err != nil {
		return nil, fmt.Errorf("read the workspace's rules: %w", err)
	}
	return approval.Load(filepath.Join(workspace, name), text, approval.Workspace)
}

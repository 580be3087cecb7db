package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (completionCommand) Help() string {
	return `Example:

  source <(hardshell completion bash)
`
}

// Run prints a script that is made from the command table itself.
func (c completionCommand) Run(p *program) error {
	switch c.Shell {
	case "zsh":
		return zshCompletion(p.Out, p.model.Node)
	case "fish":
		return fishCompletion(p.Out, p.model.Node)
	}
	return bashCompletion(p.Out, p.model.Node)
}

// word is one thing that can be completed.
type word struct{ text, help string }

// words lists what may follow a command's path: its commands, the values of its arguments, its flags.
func words(n *kong.Node) []word {
	var list []word
	for _, child := range n.Children {
		if !child.Hidden {
			list = append(list, word{child.Name, child.Help})
		}
	}
	for _, arg := range n.Positional {
		for _, value := range arg.EnumSlice() {
			if value != "" {
				list = append(list, word{value, ""})
			}
		}
	}
	for _, group := range n.AllFlags(true) {
		for _, flag := range group {
			list = append(list, word{"--" + flag.Name, flag.Help})
		}
	}
	return list
}

// nodes lists a command and everything below it, with the words that lead there.
func nodes(n *kong.Node, path string, do func(path string, n *kong.Node)) {
	do(path, n)
	for _, child := range n.Children {
		if !child.Hidden {
			nodes(child, strings.TrimSpace(path+" "+child.Name), do)
		}
	}
}

// table writes the case branches that both bash and zsh read: a path, and its words.
func table(root *kong.Node) string {
	var b strings.Builder
	nodes(root, "", func(path string, n *kong.Node) {
		var texts []string
		for _, w := range words(n) {
			texts = append(texts, w.text)
		}
		fmt.Fprintf(&b, "    %q) choices=%q ;;\n", path, strings.Join(texts, " "))
	})
	return b.String()
}

// paths lists every command's path, for telling a command from an argument.
func paths(root *kong.Node) string {
	var b strings.Builder
	nodes(root, "", func(path string, _ *kong.Node) {
		if path != "" {
			fmt.Fprintf(&b, "|%s", path)
		}
	})
	return b.String() + "|"
}

func bashCompletion(w io.Writer, root *kong.Node) error {
	_, err := fmt.Fprintf(w, `# bash completion for hardshell
_hardshell() {
  local current="${COMP_WORDS[COMP_CWORD]}" path="" next choices="" i
  local known=%q
  for ((i = 1; i < COMP_CWORD; i++)); do
    [[ "${COMP_WORDS[i]}" == "--" ]] && { COMPREPLY=($(compgen -o default -- "$current")); return; }
    next="${path:+$path }${COMP_WORDS[i]}"
    [[ "$known" == *"|$next|"* ]] && path="$next"
  done
  case "$path" in
%s  esac
  COMPREPLY=($(compgen -W "$choices" -- "$current"))
}
complete -o default -F _hardshell hardshell
`, paths(root), table(root))
	return err
}

func zshCompletion(w io.Writer, root *kong.Node) error {
	_, err := fmt.Fprintf(w, `#compdef hardshell
# zsh completion for hardshell
_hardshell() {
  local at="" next choices="" i
  local known=%q
  for ((i = 2; i < CURRENT; i++)); do
    [[ "${words[i]}" == "--" ]] && { _files; return }
    next="${at:+$at }${words[i]}"
    [[ "$known" == *"|$next|"* ]] && at="$next"
  done
  case "$at" in
%s  esac
  compadd -- ${=choices}
  _files
}
compdef _hardshell hardshell
`, paths(root), table(root))
	return err
}

func fishCompletion(w io.Writer, root *kong.Node) error {
	var b strings.Builder
	b.WriteString(`# fish completion for hardshell
function __hardshell_at
    set -l path
    for token in (commandline -opc)[2..-1]
        contains -- "$path $token" $__hardshell_paths; and set path "$path $token"
    end
    test "$path" = "$argv[1]"
end
`)
	b.WriteString("set -g __hardshell_paths")
	nodes(root, "", func(path string, _ *kong.Node) {
		if path != "" {
			fmt.Fprintf(&b, " %s", fishQuote(" "+path))
		}
	})
	b.WriteString("\n")
	nodes(root, "", func(path string, n *kong.Node) {
		if path != "" {
			path = " " + path
		}
		for _, w := range words(n) {
			kind := "-f -a " + fishQuote(w.text)
			if name, ok := strings.CutPrefix(w.text, "--"); ok {
				kind = "-l " + name
			}
			fmt.Fprintf(&b, "complete -c hardshell -n %s %s -d %s\n", fishQuote("__hardshell_at "+fishQuote(path)), kind, fishQuote(w.help))
		}
	})
	_, err := io.WriteString(w, b.String())
	return err
}

// fishQuote writes a single-quoted word of fish.
func fishQuote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}

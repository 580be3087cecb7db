package command

import "strings"

// carried are, for programs that a rule may well allow, the options that run another program, load code, or write a
// file that the rule's author did not think of. A rule's prefix covers them only if it names them. Long options count in
// every abbreviation, short ones within a cluster.
var carried = map[string]string{
	"git":           "",
	"git push":      "--receive-pack --exec",
	"git fetch":     "--upload-pack --recurse-submodules",
	"git pull":      "--upload-pack --strategy -s --recurse-submodules",
	"git clone":     "--upload-pack -u --config -c --template --recurse-submodules --recursive --separate-git-dir",
	"git ls-remote": "--upload-pack --exec",
	"git archive":   "--output -o --exec --remote",
	"git rebase":    "--exec -x --strategy -s --interactive -i --edit-todo",
	"git commit":    "--gpg-sign -S --edit -e --template -t",
	"git merge":     "--gpg-sign -S --strategy -s --edit -e",
	"git init":      "--template --separate-git-dir",
	"git config":    "--edit -e --file -f --global --system --add --replace-all --unset",
	"git am":        "--gpg-sign -S --directory",
	"git apply":     "--directory --unsafe-paths",
	"git grep":      "--open-files-in-pager -O --textconv --ext-grep",

	"tar":   "--to-command --use-compress-program -I --checkpoint-action --rsh-command --info-script --new-volume-script -F --absolute-names -P --one-top-level --directory -C --rmt-command",
	"rsync": "--rsh -e --rsync-path --daemon --server --write-batch --log-file --backup-dir --temp-dir --files-from --remote-option -M",
	"ssh":   "-o -F -E -S -D -L -R -W -w -I",
	"scp":   "-o -F -S -D", "sftp": "-o -F -S -D -b",
	"curl": "--output -o --remote-name -O --config -K --dump-header -D --cookie-jar -c --trace --trace-ascii --output-dir --engine --libcurl --upload-file -T --hsts --alt-svc " +
		"--etag-save --stderr --netrc-file --proxy-insecure --remote-name-all --unix-socket",
	"wget": "--use-askpass --output-document -O --output-file -o --execute -e --post-file --body-file --append-output -a --directory-prefix -P --config --input-file -i --save-cookies --use-server-timestamps",
	"zip":  "--unzip-command -T -TT", "unzip": "-d",
	"go": "-exec -toolexec -vettool -fixtool -overlay -modfile -o -C -ldflags -gcflags -asmflags -gccgoflags -compiler -pkgdir -pgo -work -coverprofile -cpuprofile -memprofile -blockprofile " +
		"-mutexprofile -trace -outputdir -fuzzcachedir -gocoverdir -artifacts -debug-actiongraph -debug-trace -debug-runtime-trace",
	"go env": "-w -u", // they stay, and GOFLAGS can name a program
	"cargo":  "--config --manifest-path --target-dir --artifact-dir -Z", "rustc": "-C --codegen -o", "make": "--file -f --makefile --eval --directory -C --include-dir -I",
	"cmake": "-P -E -C", "man": "--pager -P --html -H --preprocessor -p", "less": "", "ag": "--pager", "fd": "--exec -x --exec-batch -X", "fdfind": "--exec -x --exec-batch -X", "bat": "--pager",
	"docker": "--volume -v --mount --privileged", "pip": "--target --prefix --root --python --config-settings --log -r --requirement -e --editable",
	"npm": "--prefix --script-shell --node-options --globalconfig --userconfig --git --editor --viewer --shell", "pytest": "-p --pyargs -c --rootdir --confcutdir --override-ini -o --basetemp --junitxml --junit-xml",
	"node":   "--require -r --import --eval -e --print -p --loader --experimental-loader",
	"eslint": "--config -c --rulesdir --resolve-plugins-relative-to --output-file -o --fix --parser --plugin --format -f", "tsc": "--outDir --outFile --plugins --project -p",
	"prettier": "--plugin --write -w --config", "jest": "--config -c --globalSetup --runner --testRunner --reporters", "patch": "--output -o --reject-file -r --directory -d",
	"gdb": "", "sort": "--output -o --compress-program", "gcc": "-B -fplugin -specs -wrapper -o", "kubectl": "--kubeconfig --exec-command", "gh": "",
}

// carriers lists the words of an unproven program that a prefix does not cover. Words that are not literal could be
// any option, so they count too. shift is the index of w[0] in the part.
func carriers(name string, w []Word, shift int) (findings []Finding) {
	options := strings.Fields(carried[name])
	spelt := spells
	if name == "go" {
		spelt = goSpells
		if len(w) > 1 {
			options = append(options, strings.Fields(carried[name+" "+w[1].Prefix])...)
		}
	}
	ended := false
	for i, x := range w {
		if i == 0 {
			continue
		}
		bad := func(why string) { findings = append(findings, Finding{shift + i, visible(x.Text) + " " + why, true}) }
		switch {
		case x.Form != Literal && !plainOperand(x):
			bad("could become an option")
			continue
		case transport(x.Prefix) && strings.HasPrefix(name, "git"):
			bad("is a transport that runs a program")
			continue
		case x.Prefix == "--":
			ended = true
		case strings.HasPrefix(name, "make") && strings.Contains(x.Prefix, "="):
			bad("sets a variable of the makefile")
			continue
		}
		if ended || !strings.HasPrefix(x.Prefix, "-") {
			continue
		}
		for _, option := range options {
			if spelt(x.Prefix, option) {
				bad("can run a program or write a file elsewhere")
				break
			}
		}
	}
	return findings
}

// spells reports whether a word could be a spelling of an option: cut short, with a value attached, or in a cluster.
func spells(word, option string) bool {
	name, _, _ := strings.Cut(word, "=")
	if strings.HasPrefix(option, "--") {
		return len(name) > 2 && strings.HasPrefix(option, name) || name == option[1:]
	}
	if len(option) > 2 { // one dash, a word: Go's and compilers' flags
		return strings.TrimLeft(name, "-") == option[1:] || strings.HasPrefix(word, option)
	}
	return len(word) > 1 && word[1] != '-' && strings.Contains(word[1:], option[1:])
}

// goSpells is spells for Go's flags: whole words behind one dash or two, and for tests behind "test." too.
func goSpells(word, option string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	return strings.TrimPrefix(name, "test.") == option[1:]
}

func transport(word string) bool { return strings.Contains(word, "::") }

package shell

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
)

// Inherit says which of the caller's variables a command starts from.
type Inherit string

// What may be inherited. The empty value is InheritCore.
const (
	InheritAll  Inherit = "all"
	InheritCore Inherit = "core" // who and where the user is, and PATH
	InheritNone Inherit = "none"
)

// Policy decides what a command sees of an environment. It is applied in the order of its fields: inherit, default
// excludes, exclude, set, include only. The zero value passes the core and nothing else.
type Policy struct {
	Inherit Inherit `json:"inherit,omitempty" toml:"inherit"`

	// Allow inherits more names than the core (or, with none, the only ones). A pattern does not bring in what the
	// default excludes take out; a name written out in full does.
	Allow []string `json:"allow,omitempty" toml:"allow"`

	// IgnoreDefaultExcludes lets secret-looking names ([DefaultExcludes]) through.
	IgnoreDefaultExcludes bool `json:"ignore_default_excludes,omitempty" toml:"ignore_default_excludes"`

	Exclude     []string          `json:"exclude,omitempty" toml:"exclude"`           // patterns of names to take out
	Set         map[string]string `json:"set,omitempty" toml:"set"`                   // put in, over what was inherited
	IncludeOnly []string          `json:"include_only,omitempty" toml:"include_only"` // if any: the last word, on Set too
}

// DefaultPolicy passes the core and the names by which tool chains find themselves, so that a command under the login
// environment runs the same python, node, ruby, java or go as the user's terminal.
func DefaultPolicy() Policy {
	return Policy{Inherit: InheritCore, Allow: ToolchainNames()}
}

// DefaultExcludes are the patterns of secret-looking names, taken out unless [Policy.IgnoreDefaultExcludes] says
// otherwise.
func DefaultExcludes() []string { return slices.Clone(defaultExcludes) }

var defaultExcludes = []string{
	"*KEY*", "*SECRET*", "*TOKEN*", // the three that everybody filters
	"*PASSWORD*", "*PASSWD*", "*PASSPHRASE*", "*_PASS", "*_PWD", // PGPASSWORD, MYSQL_PWD
	"*CREDENTIAL*", "*_AUTH", "*_PAT", "*COOKIE*",
	"*DATABASE_URL", "*_DSN", "*CONNECTION_STRING*", // addresses with a password inside
	"*WEBHOOK*", // addresses that are the password
}

// coreNames are inherited by InheritCore.
var coreNames = []string{"HOME", "LOGNAME", "PATH", "SHELL", "USER", "USERNAME", "TMPDIR", "TEMP", "TMP"}

// windowsCoreNames join them where programs do not start without.
var windowsCoreNames = []string{
	"PATHEXT", "COMSPEC", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "USERDOMAIN", "USERPROFILE", "HOMEDRIVE", "HOMEPATH",
	"PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432", "PROGRAMDATA", "APPDATA", "LOCALAPPDATA", "PSMODULEPATH",
	"PROCESSOR_ARCHITECTURE", "NUMBER_OF_PROCESSORS", "OS",
}

// ToolchainNames are variables that say where compilers, interpreters and their certificates are. None is a secret and
// none names a socket.
func ToolchainNames() []string {
	return []string{
		"VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_EXE", "CONDA_PYTHON_EXE", "CONDA_SHLVL", "PYENV_ROOT",
		"PYENV_VERSION", "PYENV_VIRTUALENV_INIT", "PYTHONPATH", "PIPX_HOME", "POETRY_HOME", "UV_PYTHON",
		"NVM_DIR", "NVM_BIN", "NVM_INC", "FNM_DIR", "FNM_MULTISHELL_PATH", "VOLTA_HOME", "NODE_PATH", "NPM_CONFIG_PREFIX",
		"PNPM_HOME", "BUN_INSTALL", "DENO_INSTALL", "COREPACK_HOME",
		"RBENV_ROOT", "RBENV_VERSION", "GEM_HOME", "GEM_PATH", "MY_RUBY_HOME", "RUBY_ROOT", "rvm_path",
		"GOPATH", "GOROOT", "GOBIN", "GONOSUMDB", "GOPRIVATE", "GOFLAGS", "GOTOOLCHAIN", "GOMODCACHE", "GOCACHE",
		"CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "JAVA_HOME", "JDK_HOME", "SDKMAN_DIR", "M2_HOME", "MAVEN_HOME",
		"GRADLE_HOME", "GRADLE_USER_HOME", "KOTLIN_HOME", "SCALA_HOME", "ANDROID_HOME", "ANDROID_SDK_ROOT",
		"DOTNET_ROOT", "GHCUP_INSTALL_BASE_PREFIX", "OPAM_SWITCH_PREFIX", "CAML_LD_LIBRARY_PATH", "OCAMLPATH",
		"ASDF_DIR", "ASDF_DATA_DIR", "MISE_DATA_DIR", "MISE_CONFIG_DIR", "HOMEBREW_PREFIX", "HOMEBREW_CELLAR",
		"HOMEBREW_REPOSITORY", "NIX_PATH", "NIX_PROFILES", "LOCALE_ARCHIVE",
		"LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH", "CC", "CXX", "CUDA_HOME",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "NIX_SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
		"NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "AWS_CA_BUNDLE",
		"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_DIRS", "TZ", "MANPATH", "INFOPATH",
	}
}

// Validate says whether the policy can be applied as written.
func (p Policy) Validate() error {
	switch p.Inherit {
	case "", InheritAll, InheritCore, InheritNone:
	default:
		return fault.New(fault.Invalid, "inherit is %q: it may be all, core or none", string(p.Inherit)).WithParam("inherit")
	}
	return checkVariables(p.Set, "set")
}

// checkVariables refuses what no environment can carry.
func checkVariables(vars map[string]string, param string) error {
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fault.New(fault.Invalid, "%q cannot be the name of a variable", name).WithParam(param)
		}
		if strings.IndexByte(vars[name], 0) >= 0 {
			return fault.New(fault.Invalid, "the value of %s holds a NUL byte", name).WithParam(fmt.Sprintf("%s.%s", param, name))
		}
	}
	return nil
}

// Apply returns what of the environment a command may see, as sorted NAME=value entries. What is no entry is left out;
// of a name that comes twice the last counts. Functions of a shell and the names that run code when one starts
// ([StartupHook]) are not inherited even by InheritAll: they would change what a command line means.
func (p Policy) Apply(environ []string) []string {
	return p.apply(environ, runtime.GOOS).entries()
}

func (p Policy) apply(environ []string, goos string) variables {
	env := newVariables(goos, len(environ))
	allow := compile(p.Allow)
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		if ok && name != "" && strings.IndexByte(entry, 0) < 0 && !StartupHook(name) && !isFunction(name, value) &&
			(p.inherits(name, goos) || allow.match(name)) {
			env.set(name, value)
		}
	}
	if !p.IgnoreDefaultExcludes {
		secret := compile(defaultExcludes)
		env.drop(func(name string) bool { return secret.match(name) && !named(p.Allow, name, goos) })
	}
	if len(p.Exclude) > 0 {
		out := compile(p.Exclude)
		env.drop(out.match)
	}
	for name, value := range p.Set {
		env.set(name, value)
	}
	if len(p.IncludeOnly) > 0 {
		only := compile(p.IncludeOnly)
		env.drop(func(name string) bool { return !only.match(name) })
	}
	return env
}

// inherits is the first step, Allow apart: does the policy start from this name?
func (p Policy) inherits(name, goos string) bool {
	switch p.Inherit {
	case InheritAll:
		return true
	case InheritNone:
		return false
	}
	return named(coreNames, name, goos) || goos == "windows" && named(windowsCoreNames, name, goos)
}

// named says whether name is one of names; Windows does not tell their case.
func named(names []string, name, goos string) bool {
	if goos != "windows" {
		return slices.Contains(names, name)
	}
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// StartupHook says whether a variable of this name makes a shell run code, or read the script otherwise, as it starts.
func StartupHook(name string) bool {
	switch name {
	case "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "BASH_XTRACEFD", "BASH_COMPAT", "POSIXLY_CORRECT":
		return true
	}
	return false
}

// isFunction says whether the entry is a shell's exported function: bash marks the name, others the value.
func isFunction(name, value string) bool {
	return strings.HasPrefix(name, "BASH_FUNC_") || strings.HasPrefix(value, "() {")
}

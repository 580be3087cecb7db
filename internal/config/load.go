package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"

	"github.com/hardshell-dev/hardshell/fault"
)

// Source says where a configuration is read from.
type Source struct {
	Path    string   // --config; empty = where its owner would have put it
	Environ []string // NAME=value
	UID     int      // whose data folder
}

func (s Source) getenv(name string) string {
	for _, entry := range slices.Backward(s.Environ) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// Loaded is a configuration and where each of its values came from.
type Loaded struct {
	Config  Config
	Path    string            // the file that was read; empty = none
	sources map[string]origin // by key; absent = default
	doc     document
}

// origin is where a value was set.
type origin struct {
	variable string // the variable, or
	at       place  // the place in the file
}

// Load reads file and environment over the defaults, follows references of secrets and checks every value.
func Load(s Source) (*Loaded, error) {
	l := &Loaded{Config: Default(), sources: map[string]origin{}}
	path, err := find(s)
	if err != nil {
		return nil, err
	}
	if path != "" {
		if err := l.readFile(path); err != nil {
			return nil, err
		}
	}
	if err := l.readEnviron(s); err != nil {
		return nil, err
	}
	if err := l.resolve(s); err != nil {
		return nil, err
	}
	return l, l.validate()
}

// find returns the file to read, or "" when there is none and none was named.
func find(s Source) (string, error) {
	if s.Path != "" {
		return s.Path, nil
	}
	if path := s.getenv("HARDSHELL_CONFIG"); path != "" {
		return path, nil
	}
	var places []string
	if dir := s.getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		places = append(places, filepath.Join(dir, "hardshell", "hardshell.toml"))
	} else if home := s.getenv("HOME"); filepath.IsAbs(home) {
		places = append(places, filepath.Join(home, ".config", "hardshell", "hardshell.toml"))
	}
	for _, path := range append(places, "/etc/hardshell/hardshell.toml") {
		switch _, err := os.Stat(path); {
		case err == nil:
			return path, nil
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
			return "", fault.Wrap(fault.Invalid, err, "the configuration cannot be read")
		}
	}
	return "", nil
}

// readFile decodes a file over what is there, strictly.
func (l *Loaded) readFile(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "the configuration cannot be read").
			WithTry("check the path, or leave it out: every key has a working default")
	}
	l.Path, l.doc = path, document{path: path, data: data}
	decoder := toml.NewDecoder(bytes.NewReader(data))
	err = decoder.DisallowUnknownFields().Decode(&l.Config)
	var unknown *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case errors.As(err, &unknown):
		var texts []string
		for i := range unknown.Errors {
			e := &unknown.Errors[i]
			key := strings.Join(e.Key(), ".")
			text := fmt.Sprintf("unknown key %q", key)
			if known := suggest(key); known != "" {
				text += fmt.Sprintf("; did you mean %q?", known)
			}
			texts = append(texts, l.doc.point(placeOf(e), text))
		}
		return fault.New(fault.Invalid, "%s", strings.Join(texts, "\n")).
			WithTry("hardshell config env (it lists every key)")
	case errors.As(err, &wrong):
		return fault.New(fault.Invalid, "%s", l.doc.point(placeOf(wrong), readable(wrong)))
	case err != nil:
		return fault.Wrap(fault.Invalid, err, "%s cannot be read", path)
	}
	for key, at := range l.doc.keys() {
		l.sources[key] = origin{at: at}
	}
	return nil
}

// mismatch matches go-toml's sentence about a value of the wrong type.
var mismatch = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`cannot decode TOML ([a-z ]+) into .*?(?:of type )?(\S+)$`)
})

// readable says a decoder's message in words of the file and not of Go.
func readable(e *toml.DecodeError) string {
	text := strings.TrimPrefix(e.Error(), "toml: ")
	m := mismatch().FindStringSubmatch(text)
	if m == nil {
		return text
	}
	wanted := map[string]string{"string": "a string", "int": "a whole number", "int64": "a whole number",
		"bool": "true or false", "[]string": "a list of strings", "config.Secret": "a string (env:NAME or file:PATH)"}[m[2]]
	if wanted == "" {
		wanted = "a table"
	}
	return fmt.Sprintf("%s wants %s, not %s", strings.Join(e.Key(), "."), wanted, m[1])
}

// readEnviron applies every HARDSHELL_SECTION__KEY, in order of name so that errors are stable. A variable with "__"
// that names no key is an error: a misspelt limit must not be a missing one.
func (l *Loaded) readEnviron(s Source) error {
	values := map[string]string{}
	for _, entry := range s.Environ {
		name, value, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, prefix) && strings.Contains(name, "__") {
			values[name] = value
		}
	}
	if data := s.getenv("HARDSHELL_DATA"); data != "" {
		l.Config.Storage.Data = data
		l.sources["storage.data"] = origin{variable: "HARDSHELL_DATA"}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		path := strings.Split(strings.TrimPrefix(name, prefix), "__")
		key, err := assign(reflect.ValueOf(&l.Config).Elem(), path, values[name])
		if errors.Is(err, errNoKey) {
			wrong := strings.ToLower(strings.Join(path, "."))
			e := fault.New(fault.Invalid, "the variable %s names no key", name).WithTry("hardshell config env (it lists every key)")
			if known := suggest(wrong); known != "" {
				e = e.WithTry("%s", variable(known))
			}
			return e
		}
		if err != nil {
			return fault.Wrap(fault.Invalid, err, "the variable %s is wrong", name)
		}
		l.sources[key] = origin{variable: name}
	}
	return nil
}

// resolve follows env:NAME and file:PATH, and makes paths absolute: those of a file are relative to its folder.
func (l *Loaded) resolve(s Source) error {
	for key, path := range map[string]*string{"storage.data": &l.Config.Storage.Data,
		"server.tls.cert": &l.Config.Server.TLS.Cert, "server.tls.key": &l.Config.Server.TLS.Key} {
		if *path == "" {
			continue
		}
		abs, err := l.absolute(key, *path, s)
		if err != nil {
			return l.wrong(key, err)
		}
		*path = abs
	}
	if err := l.resolveRules(s); err != nil {
		return err
	}
	if l.Config.Storage.Data == "" {
		data, err := dataFolder(s)
		if err != nil {
			return err
		}
		l.Config.Storage.Data = data
	}
	if err := l.follow("storage.container_files.s3.secret_access_key", &l.Config.Storage.ContainerFiles.S3.SecretAccessKey, s); err != nil {
		return err
	}
	var err error
	otlp := &l.Config.Telemetry.OTLP
	if otlp.Headers, err = l.followAll("telemetry.otlp.headers.", otlp.Headers, s); err != nil {
		return err
	}
	own := l.Config.Features.ServerTools.ShellLimits.AllowedDomainSecrets
	for _, name := range slices.Sorted(maps.Keys(own)) {
		secret := own[name]
		if err := l.follow(limitsKey+"allowed_domain_secrets."+name+".value", &secret.Value, s); err != nil {
			return err
		}
		own[name] = secret
	}
	for _, name := range slices.Sorted(maps.Keys(l.Config.Providers)) {
		p := l.Config.Providers[name]
		if p.Type == "" && p.BaseURL != "" {
			p.Type = ProviderChat
		}
		if err := l.follow("providers."+name+".api_key", &p.APIKey, s); err != nil {
			return err
		}
		if p.Headers, err = l.followAll("providers."+name+".headers.", p.Headers, s); err != nil {
			return err
		}
		l.Config.Providers[name] = p
	}
	return nil
}

// followAll is follow for a table of secrets.
func (l *Loaded) followAll(keys string, secrets map[string]Secret, s Source) (map[string]Secret, error) {
	out := make(map[string]Secret, len(secrets))
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		value := secrets[name]
		if err := l.follow(keys+name, &value, s); err != nil {
			return nil, err
		}
		out[name] = value
	}
	return out, nil
}

// follow replaces a reference by what it refers to.
func (l *Loaded) follow(key string, secret *Secret, s Source) error {
	if path, ok := strings.CutPrefix(secret.Reveal(), "file:"); ok {
		abs, err := l.absolute(key, path, s)
		if err != nil {
			return l.wrong(key, err)
		}
		*secret = NewSecret("file:" + abs)
	}
	value, err := secret.resolve(s.getenv)
	if err != nil {
		return l.wrong(key, err)
	}
	*secret = value
	return nil
}

// absolute expands "~/" and makes a path absolute.
func (l *Loaded) absolute(key, path string, s Source) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home := s.getenv("HOME")
		if home == "" {
			return "", fault.New(fault.Invalid, "%q needs HOME, which is not set", path)
		}
		return filepath.Join(home, rest), nil
	}
	if !filepath.IsAbs(path) && l.sources[key].at.line > 0 {
		path = filepath.Join(filepath.Dir(l.Path), path)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err, "the path %q cannot be made absolute", path)
	}
	return abs, nil
}

// Keys lists every key with its variable, its value and where the value came from.
func (l *Loaded) Keys() []Key {
	var keys []Key
	seen := map[string]bool{}
	walk(reflect.ValueOf(l.Config), "", func(key string, v reflect.Value) {
		source := "default"
		switch o, ok := l.sources[key]; {
		case ok && o.variable != "":
			source = o.variable
		case ok:
			source = fmt.Sprintf("%s:%d", l.Path, o.at.line)
		}
		seen[key] = true
		keys = append(keys, Key{Name: key, Variable: variable(key), Value: show(v), Source: source})
	})
	for _, key := range schema(reflect.TypeFor[Config](), "") {
		if strings.Contains(key, anyName) && key != "providers."+anyName && key != "providers."+anyName+".headers" {
			keys = append(keys, Key{Name: key, Variable: variable(key), Source: "not set"})
		}
	}
	return keys
}

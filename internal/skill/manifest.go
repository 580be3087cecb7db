package skill

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/hardshell-dev/hardshell/fault"
)

// ManifestFile is the file that makes a folder a skill. It stands at the root of the bundle.
const ManifestFile = "SKILL.md"

// Bounds of a manifest.
const (
	maxManifest    = 1 << 20 // bytes of SKILL.md; it is for a model to read
	maxFrontMatter = 16 << 10
	maxName        = 64
	maxDescription = 1024
)

// Names are those of the Agent Skills format: they become a folder, so they must be safe as one.
var namePattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
})

// Check says what is wrong with a manifest.
func (m Manifest) Check() error {
	switch {
	case m.Name == "":
		return invalid("The skill has no name.").WithTry("a line `name: my-skill` in the front matter of %s", ManifestFile)
	case len(m.Name) > maxName || !namePattern().MatchString(m.Name):
		return invalid("The skill's name %q must be at most %d characters of a-z, 0-9 and single hyphens between them.", m.Name, maxName)
	case strings.TrimSpace(m.Description) == "":
		return invalid("The skill has no description, by which a model could choose it.").
			WithTry("a line `description: …` in the front matter of %s", ManifestFile)
	case utf8.RuneCountInString(m.Description) > maxDescription:
		return invalid("The skill's description has %d characters; %d are possible.", utf8.RuneCountInString(m.Description), maxDescription)
	}
	return nil
}

func invalid(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, format, args...).WithCode("invalid_skill")
}

// readManifest reads the front matter of a SKILL.md. One without front matter has an empty manifest.
func readManifest(data []byte) (Manifest, error) {
	if len(data) > maxManifest {
		return Manifest{}, invalid("%s has %d bytes; %d are possible.", ManifestFile, len(data), maxManifest)
	}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return Manifest{}, invalid("%s must be UTF-8 text.", ManifestFile)
	}
	front, ok := frontMatter(bytes.TrimPrefix(data, []byte("\uFEFF")))
	if !ok {
		return Manifest{}, nil
	}
	if len(front) > maxFrontMatter {
		return Manifest{}, invalid("The front matter of %s has %d bytes; %d are possible.", ManifestFile, len(front), maxFrontMatter)
	}
	var m struct {
		Name        string `yaml:"name"`
		Description string `yaml:"description"`
	}
	if err := yaml.Unmarshal(front, &m); err != nil {
		return Manifest{}, fault.Wrap(fault.Invalid, err, "The front matter of %s can't be read as YAML.", ManifestFile).WithCode("invalid_skill")
	}
	return Manifest{Name: m.Name, Description: oneLine(m.Description)}, nil
}

// oneLine folds white space: a description is a line in a list, and must not look like another entry of it.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// frontMatter is what stands between a first line of --- and the next such line.
func frontMatter(data []byte) ([]byte, bool) {
	first, rest, ok := bytes.Cut(data, []byte("\n"))
	if !ok || !isFence(first) {
		return nil, false
	}
	for at := 0; at < len(rest); {
		line, _, more := bytes.Cut(rest[at:], []byte("\n"))
		if isFence(line) {
			return rest[:at], true
		}
		if !more {
			break
		}
		at += len(line) + 1
	}
	return nil, false
}

func isFence(line []byte) bool { return string(bytes.TrimRight(line, " \t\r")) == "---" }

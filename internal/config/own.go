package config

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pelletier/go-toml/v2"

	"github.com/hardshell-dev/hardshell/fault"
)

// Own returns the paths of an installation that commands on its machine are not to see: the data folder that its settings
// name, "" for the usual one, and the file that they stand in, "" if there is none. It reads nothing else of them, so that
// what is wrong elsewhere keeps nobody from running a command. A file that its user may not read is no setting of theirs.
func Own(s Source) (data, file string, err error) {
	l := Loaded{sources: map[string]origin{}}
	if l.Path, err = find(s); err != nil {
		return "", "", err
	}
	var settings struct {
		Storage struct{ Data string }
	}
	if l.Path != "" {
		text, err := os.ReadFile(l.Path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			l.Path = ""
		} else if err == nil {
			err = toml.Unmarshal(text, &settings)
		}
		if l.Path != "" && err != nil {
			return "", "", fault.Wrap(fault.Invalid, err, "where hardshell's own data lies cannot be read from %s", l.Path).WithTry("hardshell config check")
		}
	}
	named := cmp.Or(s.getenv("HARDSHELL_STORAGE__DATA"), s.getenv("HARDSHELL_DATA"))
	if named == "" && settings.Storage.Data != "" {
		named, l.sources["storage.data"] = settings.Storage.Data, origin{at: place{line: 1}}
	}
	if named != "" {
		if data, err = l.absolute("storage.data", named, s); err != nil {
			return "", "", err
		}
	}
	if l.Path != "" {
		if file, err = filepath.Abs(l.Path); err != nil {
			return "", "", fault.Wrap(fault.Invalid, err, "the path %q cannot be made absolute", l.Path)
		}
	}
	return data, file, nil
}

package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hardshell-dev/hardshell/fault"
)

// dataFolder returns the default data folder. For root it is the machine's and not the home's: HOME may be another
// user's under sudo, and a folder of root's inside it would be in that user's way.
func dataFolder(s Source) (string, error) {
	if dir := s.getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "hardshell"), nil
	}
	if s.UID == 0 {
		return "/var/lib/hardshell", nil
	}
	home := s.getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", fault.New(fault.Invalid, "there is no place for data: HOME is not set").WithTry("--data DIR, or HARDSHELL_DATA=DIR")
	}
	return filepath.Join(home, ".local", "share", "hardshell"), nil
}

// Database is the name of the database in the data folder.
const Database = "hardshell.db"

// PrepareData makes the data folder, for its owner alone. A folder that others can read is closed when it is empty or
// already ours, and refused otherwise: it may be somebody's home.
func PrepareData(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the data folder cannot be made").WithTry("--data DIR, with a folder that you may write")
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the data folder cannot be read")
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the data folder cannot be read")
	}
	_, err = os.Stat(filepath.Join(dir, Database))
	if len(entries) > 0 && errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Invalid, "the data folder %s can be read by others and holds something else", dir).
			WithTry("another --data DIR, or chmod 700 %s", dir)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fault.Wrap(fault.Invalid, err, "the data folder cannot be closed to others").WithTry("--data DIR, with a folder of your own")
	}
	return nil
}

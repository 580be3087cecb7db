//go:build unix

package tenant

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/require"
)

func TestAKeyFileThatIsNotOursAlone(t *testing.T) {
	s := newService(t)
	_, token := create(t, s, "acme", ScopeRun)
	write := func(path string, mode os.FileMode) {
		if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, lay := range map[string]func(t *testing.T, path string){
		"readable by the group": func(t *testing.T, path string) { write(path, 0o640) },
		"writable by others":    func(t *testing.T, path string) { write(path, 0o602) },
		"a link": func(t *testing.T, path string) {
			write(path+".real", 0o600)
			if err := os.Symlink(path+".real", path); err != nil {
				t.Fatal(err)
			}
		},
		"a dangling link": func(t *testing.T, path string) {
			if err := os.Symlink(path+".absent", path); err != nil {
				t.Fatal(err)
			}
		},
		"a pipe": func(t *testing.T, path string) {
			if err := unix.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"a folder": func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		},
		"of another user": func(t *testing.T, path string) {
			write(path, 0o600)
			require.Feature(t, "chown", os.Chown(path, 12345, -1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "admin.key")
			lay(t, path)
			if _, err := ReadKey(path); fault.KindOf(err) != fault.Forbidden {
				t.Errorf("read: %v, want fault.Forbidden", err)
			}
			before, _ := s.Keys(context.Background(), DefaultOrg)
			if created, err := s.Bootstrap(context.Background(), path); fault.KindOf(err) != fault.Forbidden || created {
				t.Errorf("bootstrap: created %v, %v; want fault.Forbidden", created, err)
			}
			if after, _ := s.Keys(context.Background(), DefaultOrg); len(after) != len(before) {
				t.Error("a key was made for a file that is refused")
			}
		})
	}
	path := filepath.Join(t.TempDir(), "admin.key")
	write(path, 0o600)
	if got, err := ReadKey(path); err != nil || got != token {
		t.Errorf("a good file: %q, %v", got, err)
	}
}

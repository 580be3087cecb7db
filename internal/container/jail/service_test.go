package jail

import (
	"context"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/internal/store"
)

const org = "org_test"

// service opens a service over the jail on a data folder.
func service(t testing.TB, data string) (*container.Service, context.Context) {
	t.Helper()
	s, _, ctx := serviceOf(t, data, data)
	return s, ctx
}

// serviceOf is a service whose rows are in another folder than its containers. A database has one user.
func serviceOf(t testing.TB, rows, data string) (*container.Service, *store.DB, context.Context) {
	t.Helper()
	require.Feature(t, "jail", New(Options{}).Supported(t.Context()))
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	db, err := store.Open(ctx, store.Options{Path: filepath.Join(rows, "hardshell.db")})
	if err != nil {
		t.Fatal(err)
	}
	s, err := container.New(ctx, container.Options{DB: db, Runtime: New(Options{}), Dir: filepath.Join(data, "containers")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		db.Close()
	})
	return s, db, ctx
}

func create(t testing.TB, s *container.Service, ctx context.Context) string {
	t.Helper()
	c, err := s.Create(ctx, org, container.CreateSpec{})
	if err != nil {
		t.Fatal(err)
	}
	return c.ID
}

func run(t testing.TB, s *container.Service, ctx context.Context, id, script string) container.Result {
	t.Helper()
	e, err := s.Exec(ctx, org, id, container.Command{Script: script})
	if err != nil {
		t.Fatalf("exec %.100q: %v", script, err)
	}
	r, err := e.Wait(ctx)
	if err != nil {
		t.Fatalf("wait for %.100q: %v", script, err)
	}
	return r
}

func TestServiceOverTheJail(t *testing.T) {
	s, ctx := service(t, t.TempDir())
	id := create(t, s, ctx)
	sent, err := s.Put(ctx, org, id, "in/data.csv", strings.NewReader("a,b\n1,2\n"), container.SourceUser)
	if err != nil {
		t.Fatal(err)
	}

	r := run(t, s, ctx, id, "cat in/data.csv; echo 3,4 >>in/data.csv; mkdir -p out && echo result >out/r.txt; echo warn >&2; exit 4")
	if r.ExitCode != 4 || r.Stdout.Text != "a,b\n1,2\n" || r.Stderr.Text != "warn\n" || r.Isolation.Got != "jail" || r.Duration <= 0 {
		t.Errorf("got %+v", r)
	}
	var changed []string
	for _, f := range r.Changed {
		changed = append(changed, f.Path)
		if f.Path == sent.Path && f.ID != sent.ID {
			t.Error("an appended file got another id")
		}
	}
	slices.Sort(changed)
	if want := []string{"/mnt/data/in/data.csv", "/mnt/data/out/r.txt"}; !slices.Equal(changed, want) || r.ChangedPartial {
		t.Errorf("changed %q (partial %v), want %q", changed, r.ChangedPartial, want)
	}
	f, info, err := s.OpenFile(ctx, org, id, r.Changed[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if data, err := io.ReadAll(f); err != nil || int64(len(data)) != info.Bytes {
		t.Errorf("read %q, %v", data, err)
	}

	// The modes and owner of what was sent.
	if r := run(t, s, ctx, id, "stat -c '%a %u' in in/data.csv"); r.Stdout.Text != "755 1000\n644 1000\n" {
		t.Errorf("modes %q, %q", r.Stdout.Text, r.Stderr.Text)
	}
	// What pages, asks or edits ends by itself.
	if r := run(t, s, ctx, id, `read answer || echo no answer; echo "$TERM $PAGER $GIT_PAGER $LANG $HOME $PWD"`); r.Stdout.Text != "no answer\ndumb cat cat C.UTF-8 /home/user /mnt/data\n" {
		t.Errorf("got %q", r.Stdout.Text)
	}
	// Scripts are exact bytes, however they begin and however long they are.
	if r := run(t, s, ctx, id, "-n 2>/dev/null; echo \"$0\"; nosuch"); r.Stdout.Text != "bash\n" || !strings.HasPrefix(r.Stderr.Text, "bash: ") {
		t.Errorf("got %+v", r)
	}
	long := "echo begin; cat; : " + strings.Repeat("x", 300<<10) + "\necho \"$0 end\"; exit 9"
	if r := run(t, s, ctx, id, long); r.ExitCode != 9 || r.Stdout.Text != "begin\nbash end\n" {
		t.Errorf("a long script: %+v", r)
	}
	if r := run(t, s, ctx, id, "ls -A /tmp"); r.Stdout.Text != "" {
		t.Errorf("left in /tmp: %q", r.Stdout.Text)
	}
	// A background process serves later calls.
	run(t, s, ctx, id, "mkfifo ask; (while read l <ask; do echo $l >>heard; done) >/dev/null 2>&1 &")
	run(t, s, ctx, id, "echo hello >ask; until [ -s heard ]; do sleep 0.01; done")
	files, _, err := s.Files(ctx, org, id, container.Page{Limit: 100})
	if err != nil || len(files) != 3 {
		t.Errorf("listed %+v, %v", files, err)
	}
	if err := s.Delete(ctx, org, id); err != nil {
		t.Fatal(err)
	}
}

func TestOneBoxPerContainer(t *testing.T) {
	s, ctx := service(t, t.TempDir())
	id := create(t, s, ctx)
	var wg sync.WaitGroup
	pids := make([]string, 12)
	for i := range pids {
		wg.Go(func() { pids[i] = run(t, s, ctx, id, "readlink /proc/self/ns/pid").Stdout.Text })
	}
	wg.Wait()
	if pids[0] == "" || len(slices.Compact(slices.Clone(pids))) != 1 {
		t.Errorf("namespaces %q", pids)
	}
}

func TestDisconnectStopsTheCommand(t *testing.T) {
	s, ctx := service(t, t.TempDir())
	id := create(t, s, ctx)
	client, leave := context.WithCancel(ctx)
	defer leave()
	e, err := s.Exec(client, org, id, container.Command{Script: "echo up; sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	for d, err := range e.Follow(ctx) {
		if err != nil || d.Stdout != "up\n" {
			t.Fatalf("first delta %+v, %v", d, err)
		}
		break
	}
	leave()
	begun := time.Now()
	r, err := e.Wait(ctx)
	if err != nil || !r.Cancelled || r.Stdout.Text != "up\n" {
		t.Errorf("got %+v, %v", r, err)
	}
	if d := time.Since(begun); d > time.Second {
		t.Errorf("it took %v", d)
	}
}

package jail

import (
	"context"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/blob"
	"github.com/hardshell-dev/hardshell/internal/blob/disk"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/internal/skill"
	"github.com/hardshell-dev/hardshell/internal/store"
)

// skilled is a service over the jail that has skills, blobs and a clock.
type skilled struct {
	*container.Service
	skills *skill.Service
	ctx    context.Context
	dir    string       // of the containers
	ahead  atomic.Int64 // nanoseconds that the service's clock is ahead
}

func openSkilled(t testing.TB) *skilled {
	t.Helper()
	require.Feature(t, "jail", New(Options{}).Supported(t.Context()))
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	data := t.TempDir()
	b := &skilled{ctx: ctx, dir: filepath.Join(data, "containers")}
	db, err := store.Open(ctx, store.Options{Path: filepath.Join(data, "hardshell.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	bytes, err := disk.Open(filepath.Join(data, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bytes.Close() })
	blobs := blob.NewStores("disk", map[string]blob.Store{"disk": bytes})
	if b.skills, err = skill.New(ctx, skill.Options{DB: db, Blobs: blobs, Dir: data}); err != nil {
		t.Fatal(err)
	}
	b.Service, err = container.New(ctx, container.Options{DB: db, Runtime: New(Options{}), Dir: b.dir, Blobs: blobs, Skills: b.skills,
		Limits: container.Limits{DefaultIdleTTL: time.Second}, // the reaper comes accordingly
		Clock:  func() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(ctx) })
	return b
}

// stored makes a skill with a program.
func (b *skilled) stored(t testing.TB, name, says string) container.SkillRequest {
	t.Helper()
	text := func(s string) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), nil }
	}
	s, err := b.skills.Create(b.ctx, org, []skill.Entry{
		{Name: "SKILL.md", Open: text("---\nname: " + name + "\ndescription: says " + says + "\n---\n")},
		{Name: "bin/say", Executable: true, Open: text("#!/bin/sh\necho " + says + "\n")}})
	if err != nil {
		t.Fatal(err)
	}
	return container.SkillRequest{Type: "skill_reference", SkillID: s.ID}
}

func inline(name, text string) container.SkillRequest {
	return container.SkillRequest{Type: "inline", Name: name, About: "is " + name, Source: &container.SkillSource{Type: "base64",
		MediaType: "text/markdown", Data: base64.StdEncoding.EncodeToString([]byte(text))}}
}

func TestSkillsAreMounted(t *testing.T) {
	b := openSkilled(t)
	c, err := b.Create(b.ctx, org, container.CreateSpec{IdleTTL: time.Minute, Skills: []container.SkillRequest{b.stored(t, "greeting", "hello"), inline("note", "# remember\n")}})
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, b.Service, b.ctx, c.ID, "/skills/greeting/bin/say; cat /skills/note/SKILL.md; ls /skills")
	if r.ExitCode != 0 || r.Stdout.Text != "hello\n# remember\ngreeting\nnote\n" {
		t.Errorf("%d %q %q", r.ExitCode, r.Stdout.Text, r.Stderr.Text)
	}
	// Nobody in the container can change what another turn will read.
	r = run(t, b.Service, b.ctx, c.ID, `for f in 'echo x > /skills/note/SKILL.md' 'touch /skills/new' 'rm -r /skills/greeting' 'chmod 777 /skills/note' 'mv /skills/note /skills/n' 'mount --bind /tmp /skills'; do
		if (eval "$f") 2>/dev/null; then echo "went through: $f"; fi; done; ls /skills`)
	if r.Stdout.Text != "greeting\nnote\n" {
		t.Errorf("%q", r.Stdout.Text)
	}
	// One that comes later is seen by a shell that runs.
	if err := b.AddSkills(b.ctx, org, c.ID, []container.SkillRequest{inline("later", "# late\n"), inline("note", "# remember\n")}); err != nil {
		t.Fatal(err)
	}
	if r = run(t, b.Service, b.ctx, c.ID, "cat /skills/later/SKILL.md"); r.Stdout.Text != "# late\n" {
		t.Errorf("%q %q", r.Stdout.Text, r.Stderr.Text)
	}
	err = b.AddSkills(b.ctx, org, c.ID, []container.SkillRequest{inline("note", "# another\n")})
	if e, ok := fault.As(err); !ok || e.Code != "skill_mount_conflict" {
		t.Errorf("another skill of that name: %v", err)
	}
	if list, err := b.Skills(b.ctx, org, c.ID); err != nil || len(list) != 3 || list[0].String() != "greeting (/skills/greeting/SKILL.md): says hello" {
		t.Errorf("%v, %v", list, err)
	}
	if list, err := b.Skills(b.ctx, "org_other", c.ID); err != nil || len(list) != 0 {
		t.Errorf("another organisation sees %v, %v", list, err)
	}
}

// A container that is brought back out of its archive has its skills again, but for one that was deleted meanwhile.
func TestSkillsComeBackWithTheirContainer(t *testing.T) {
	b := openSkilled(t)
	kept, gone := b.stored(t, "kept", "hello"), b.stored(t, "gone", "bye")
	c, err := b.Create(b.ctx, org, container.CreateSpec{IdleTTL: time.Minute, Skills: []container.SkillRequest{kept, gone, inline("note", "# remember\n")}})
	if err != nil {
		t.Fatal(err)
	}
	run(t, b.Service, b.ctx, c.ID, "echo file > file")
	b.ahead.Store(int64(24 * time.Hour))
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := b.Usable(b.ctx, org, c.ID); fault.KindOf(err) != fault.Expired {
			t.Fatalf("after its time: %v", err)
		}
		if _, err := os.Lstat(filepath.Join(b.dir, c.ID)); os.IsNotExist(err) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the folder is not archived")
		}
	}
	if err := b.skills.Delete(b.ctx, org, gone.SkillID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Restore(b.ctx, org, c.ID); err != nil {
		t.Fatal(err)
	}
	if r := run(t, b.Service, b.ctx, c.ID, "cat file; /skills/kept/bin/say; cat /skills/note/SKILL.md; ls /skills"); r.Stdout.Text != "file\nhello\n# remember\nkept\nnote\n" {
		t.Errorf("%q %q", r.Stdout.Text, r.Stderr.Text)
	}
	if list, err := b.Skills(b.ctx, org, c.ID); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestSkillsThatCannotBeMounted(t *testing.T) {
	b := openSkilled(t)
	for name, c := range map[string]struct {
		list        []container.SkillRequest
		code, param string
	}{
		"unknown":     {[]container.SkillRequest{{Type: "skill_reference", SkillID: "skill_x"}}, "invalid_skill_reference", "skills[0].skill_id"},
		"its version": {[]container.SkillRequest{inline("a", "x"), {Type: "skill_reference", SkillID: b.stored(t, "b", "x").SkillID, Version: "9"}}, "unsupported_skill_version", "skills[1].version"},
		"conflict":    {[]container.SkillRequest{inline("a", "x"), inline("a", "y")}, "skill_mount_conflict", "skills[1]"},
		"media type":  {[]container.SkillRequest{{Type: "inline", Name: "a", About: "b", Source: &container.SkillSource{Type: "base64", MediaType: "application/x-tar"}}}, "unsupported_inline_skill_media_type", "skills[0].source.media_type"},
		"no base64":   {[]container.SkillRequest{{Type: "inline", Name: "a", About: "b", Source: &container.SkillSource{Type: "base64", MediaType: "text/markdown", Data: "%"}}}, "invalid_inline_skill", "skills[0].source.data"},
		"a name":      {[]container.SkillRequest{inline("../x", "x")}, "invalid_inline_skill", "skills[0]"},
	} {
		_, err := b.Create(b.ctx, org, container.CreateSpec{Skills: c.list})
		if e, ok := fault.As(err); !ok || e.Code != c.code || e.Param != c.param || e.Kind != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list, _, err := b.List(b.ctx, org, container.Page{}); err != nil || len(list) != 0 {
		t.Errorf("a refused container is there: %v, %v", list, err)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "skill-*")); len(left) > 0 {
		t.Logf("in the temporary folder: %v", left) // of whoever runs beside us, or of us
	}
}

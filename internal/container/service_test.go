package container

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func TestCreateChecksItsRequest(t *testing.T) {
	b := newBench(t, Limits{MaxMemoryBytes: 4 << 30, MaxIdleTTL: time.Hour})
	tests := []struct {
		name string
		spec CreateSpec
		code string // empty: accepted
	}{
		{"nothing asked", CreateSpec{}, ""},
		{"all of it", CreateSpec{Name: "n", MemoryLimit: "4g", IdleTTL: time.Hour, Network: &NetworkPolicy{Type: "disabled"}}, ""},
		{"the longest name", CreateSpec{Name: strings.Repeat("ä", 255)}, ""},
		{"a longer one", CreateSpec{Name: strings.Repeat("ä", 256)}, "name_too_long"},
		{"no size", CreateSpec{MemoryLimit: "much"}, "invalid_memory_limit"},
		{"too much memory", CreateSpec{MemoryLimit: "16g"}, "memory_limit_exceeds_cap"},
		{"too little", CreateSpec{MemoryLimit: "1"}, "invalid_memory_limit"},
		{"too long a life", CreateSpec{IdleTTL: time.Hour + 1}, "expires_after_exceeds_cap"},
		{"an allowlist", CreateSpec{Network: &NetworkPolicy{Type: "allowlist", AllowedDomains: []string{"a.example"}}}, "network_policy_rejected"},
		{"an unknown policy", CreateSpec{Network: &NetworkPolicy{Type: "open"}}, "network_policy_rejected"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := b.Create(b.ctx, "org", tt.spec)
			if tt.code != "" {
				wantFault(t, err, fault.Invalid, tt.code)
				return
			}
			if err != nil || c.Status != Active || c.Name != tt.spec.Name || !id.Valid(id.Container, c.ID) {
				t.Fatalf("got %+v, %v", c, err)
			}
			got, err := b.Get(b.ctx, "org", c.ID)
			if err != nil || got.Name != c.Name || got.MemoryLimit != c.MemoryLimit || got.IdleTTL != c.IdleTTL || !got.Created.Equal(c.Created) ||
				(got.Network == nil) != (tt.spec.Network == nil) {
				t.Errorf("got %+v back, %v; made %+v", got, err, c)
			}
		})
	}
	if b.fake.opens != 0 || len(b.fake.specs) != 0 {
		t.Errorf("creating started something")
	}
}

// TestCreateIsRefusedWhereNoBoxCanBeHad: the rows that are there already can still be read, listed and deleted.
func TestCreateIsRefusedWhereNoBoxCanBeHad(t *testing.T) {
	b := newBench(t, Limits{})
	old := b.create(t)
	b.fake.unsupported = fault.New(fault.Isolation, "no namespaces here").WithTry("a kernel with namespaces")
	_, err := b.Create(b.ctx, "org", CreateSpec{Name: "new"})
	wantFault(t, err, fault.Isolation, "")
	if f, _ := fault.As(err); f.Try == "" {
		t.Errorf("%v has no remedy", err)
	}
	_, err = b.Create(b.ctx, "org", CreateSpec{MemoryLimit: "much"})
	wantFault(t, err, fault.Invalid, "invalid_memory_limit")
	if got, err := b.Get(b.ctx, "org", old.ID); err != nil || got.Status != Active {
		t.Errorf("the old one: %+v, %v", got, err)
	}
	if got, _, err := b.List(b.ctx, "org", Page{Limit: 10}); err != nil || len(got) != 1 {
		t.Errorf("list: %+v, %v", got, err)
	}
	if err := b.Delete(b.ctx, "org", old.ID); err != nil {
		t.Errorf("delete: %v", err)
	}
}

func TestReadRequest(t *testing.T) {
	size := func(s string) *string { return &s }
	tests := []struct {
		name string
		in   openai.ContainerRequest
		code string
	}{
		{"nothing", openai.ContainerRequest{}, ""},
		{"everything", openai.ContainerRequest{Name: "n", MemoryLimit: size("1g"), ExpiresAfter: &openai.ExpiresAfter{Anchor: "last_active_at", Minutes: 5},
			NetworkPolicy: &openai.NetworkPolicy{Type: "disabled"}, Skills: []byte(" [] ")}, ""},
		{"another anchor", openai.ContainerRequest{ExpiresAfter: &openai.ExpiresAfter{Anchor: "created_at", Minutes: 5}}, "invalid_expires_after"},
		{"no minutes", openai.ContainerRequest{ExpiresAfter: &openai.ExpiresAfter{Anchor: "last_active_at"}}, "invalid_expires_after"},
		{"files", openai.ContainerRequest{FileIDs: make([]string, 101)}, "invalid_file_id"},
		{"a skill without id", openai.ContainerRequest{Skills: []byte(`[{"type":"skill_reference"}]`)}, "invalid_skill_reference"},
		{"a skill of another kind", openai.ContainerRequest{Skills: []byte(`[{"type":"git"}]`)}, "invalid_skill_reference"},
		{"skills that are no list", openai.ContainerRequest{Skills: []byte(`{}`)}, "invalid_skill_reference"},
		{"an inline skill without source", openai.ContainerRequest{Skills: []byte(`[{"type":"inline","name":"a","description":"b"}]`)}, "invalid_inline_skill"},
		{"secrets", openai.ContainerRequest{NetworkPolicy: &openai.NetworkPolicy{Type: "disabled", DomainSecrets: []byte(`[{}]`)}}, "network_policy_rejected"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ReadRequest(tt.in)
			if tt.code == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantFault(t, err, fault.Invalid, tt.code)
		})
	}
	b := newBench(t, Limits{})
	spec, err := ReadRequest(openai.ContainerRequest{MemoryLimit: size("")})
	if err == nil {
		_, err = b.Create(b.ctx, "org", spec)
	}
	wantFault(t, err, fault.Invalid, "invalid_memory_limit")
}

func TestParseMemory(t *testing.T) {
	good := map[string]int64{"1g": 1 << 30, "64G": 64 << 30, "512mb": 512 << 20, "512M": 512 << 20, "2GB": 2 << 30,
		"20480k": 20 << 20, "20480KB": 20 << 20, "16777216": 16 << 20, "16777216b": 16 << 20}
	for in, want := range good {
		if got, err := ParseMemory(in); got != want || err != nil {
			t.Errorf("%q = %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "g", "-1g", "1.5g", "1 g", "1t", "+1g", "0", "15m", "9999999999g", "99999999999999999999", "1gg", "0x10g"} {
		if got, err := ParseMemory(in); err == nil {
			t.Errorf("%q = %d", in, got)
		}
	}
}

func TestAnotherOrganisationsContainerLooksAbsent(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	f, err := b.Put(b.ctx, "org", c.ID, "a.txt", strings.NewReader("x"), SourceUser)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]func(id string) error{
		"get":    func(id string) error { _, err := b.Get(b.ctx, "other", id); return err },
		"usable": func(id string) error { _, err := b.Usable(b.ctx, "other", id); return err },
		"delete": func(id string) error { return b.Delete(b.ctx, "other", id) },
		"exec":   func(id string) error { _, err := b.Exec(b.ctx, "other", id, Command{Script: "true"}); return err },
		"put": func(id string) error {
			_, err := b.Put(b.ctx, "other", id, "x", strings.NewReader(""), SourceUser)
			return err
		},
		"files":       func(id string) error { _, _, err := b.Files(b.ctx, "other", id, Page{}); return err },
		"file":        func(id string) error { _, err := b.File(b.ctx, "other", id, f.ID); return err },
		"open file":   func(id string) error { _, _, err := b.OpenFile(b.ctx, "other", id, f.ID); return err },
		"delete file": func(id string) error { return b.DeleteFile(b.ctx, "other", id, f.ID) },
	}
	for name, call := range calls {
		wantFault(t, call(c.ID), fault.NotFound, "container_not_found")
		wantFault(t, call("cntr_nonsense"), fault.NotFound, "container_not_found")
		_ = name
	}
	if list, more, err := b.List(b.ctx, "other", Page{}); len(list) != 0 || more || err != nil {
		t.Errorf("list of the other = %v, %v, %v", list, more, err)
	}
	if _, err := b.File(b.ctx, "org", b.create(t).ID, f.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a file through another container: %v", err)
	}
}

func TestListPages(t *testing.T) {
	b := newBench(t, Limits{})
	var made []string
	for i := range 7 {
		c, err := b.Create(b.ctx, "org", CreateSpec{Name: []string{"even", "odd"}[i%2]})
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, c.ID)
		b.clock.advance(time.Millisecond)
	}
	b.Delete(b.ctx, "org", made[3])
	ids := func(page Page) (string, bool) {
		list, more, err := b.List(b.ctx, "org", page)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for _, c := range list {
			for i, id := range made {
				if id == c.ID {
					out.WriteString(string(rune('0' + i)))
				}
			}
		}
		return out.String(), more
	}
	tests := []struct {
		page Page
		want string
		more bool
	}{
		{Page{}, "654210", false},
		{Page{Order: "asc"}, "012456", false},
		{Page{Limit: 2}, "65", true},
		{Page{Limit: 2, After: made[5]}, "42", true},
		{Page{Limit: 3, After: made[4]}, "210", false},
		{Page{Limit: 3, After: made[4], Order: "asc"}, "56", false},
		{Page{Name: "odd"}, "51", false},
		{Page{Name: "none"}, "", false},
	}
	for _, tt := range tests {
		if got, more := ids(tt.page); got != tt.want || more != tt.more {
			t.Errorf("%+v = %s, %v, want %s, %v", tt.page, got, more, tt.want, tt.more)
		}
	}
	for _, page := range []Page{{Limit: -1}, {Limit: 101}, {Order: "up"}, {After: "x"}} {
		if _, _, err := b.List(b.ctx, "org", page); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", page, err)
		}
	}
}

func TestOneBootHoweverManyRace(t *testing.T) {
	b := newBench(t, Limits{})
	b.fake.hold = make(chan struct{})
	c := b.create(t)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			if r := b.run(t, c.ID, "hello"); r.Stdout.Text != "hello\n" || r.Stderr.Text != "warning\n" || r.ExitCode != 0 {
				t.Errorf("got %+v", r)
			}
		})
	}
	impatient, cancel := context.WithCancel(b.ctx)
	cancel()
	if _, err := b.Exec(impatient, "org", c.ID, Command{Script: "true"}); err == nil {
		t.Error("a caller who went away got a command")
	}
	eventually(t, "a boot begins", func() bool { b.fake.mu.Lock(); defer b.fake.mu.Unlock(); return b.fake.opens > 0 })
	close(b.fake.hold)
	wg.Wait()
	if b.fake.opens != 1 {
		t.Errorf("%d boots", b.fake.opens)
	}
}

func TestAFailedBootIsToldAndTriedAgain(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	b.fake.openErr = fault.New(fault.Isolation, "no namespaces here")
	_, err := b.Exec(b.ctx, "org", c.ID, Command{Script: "true"})
	wantFault(t, err, fault.Isolation, "")
	b.fake.openErr = errors.New("out of descriptors")
	_, err = b.Exec(b.ctx, "org", c.ID, Command{Script: "true"})
	wantFault(t, err, fault.Unavailable, "")
	b.fake.openErr = nil
	if r := b.run(t, c.ID, "false"); r.ExitCode != 1 {
		t.Errorf("got %+v", r)
	}
}

func TestADeadBoxIsReplaced(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	running := b.exec(t, c.ID, "block")
	for d, err := range running.Follow(b.ctx) {
		if err != nil || d.Stdout == "" {
			t.Fatalf("first delta %+v, %v", d, err)
		}
		break
	}
	b.fake.mu.Lock()
	box := b.fake.living[c.ID]
	b.fake.mu.Unlock()
	box.die()
	r, err := running.Wait(b.ctx)
	if fault.KindOf(err) != fault.Unavailable || r.Stdout.Text != "begun\n" {
		t.Errorf("the command that ran: %+v, %v", r, err)
	}
	if r := b.run(t, c.ID, "hello"); r.ExitCode != 0 || b.fake.opens != 2 {
		t.Errorf("after it: %+v, %d boots", r, b.fake.opens)
	}
}

func TestIdleTimeCountsFromTheEndOfTheLastCommand(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	running := b.exec(t, c.ID, "block")
	for range 10 { // a long command
		b.clock.advance(15 * time.Minute)
		if err := b.reap(b.ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := b.Get(b.ctx, "org", c.ID); err != nil || got.Status != Active || !got.LastActive.Equal(b.clock.time()) {
		t.Fatalf("while it runs: %+v, %v", got, err)
	}
	running.Cancel()
	if r, err := running.Wait(b.ctx); err != nil || !r.Cancelled {
		t.Fatalf("cancelled: %+v, %v", r, err)
	}
	ended := b.clock.time()
	b.clock.advance(19 * time.Minute)
	if err := b.reap(b.ctx); err != nil {
		t.Fatal(err)
	}
	if got, _ := b.Get(b.ctx, "org", c.ID); got.Status != Active || !got.LastActive.Equal(ended) || !got.Expires().Equal(ended.Add(20*time.Minute)) {
		t.Fatalf("after 19 minutes: %+v", got)
	}
	if b.fake.boxes() != 1 {
		t.Fatal("its box is gone")
	}
	b.clock.advance(time.Minute)
	if err := b.reap(b.ctx); err != nil {
		t.Fatal(err)
	}
	if b.fake.boxes() != 0 {
		t.Error("an idle container's box lives on")
	}
	got, err := b.Get(b.ctx, "org", c.ID)
	if err != nil || got.Status != Expired || got.Ended.IsZero() || !got.Expires().Equal(got.Ended) {
		t.Errorf("after 20 minutes: %+v, %v", got, err)
	}
	_, err = b.Exec(b.ctx, "org", c.ID, Command{Script: "true"})
	wantFault(t, err, fault.Expired, "container_expired")
	_, err = b.Put(b.ctx, "org", c.ID, "x", strings.NewReader(""), SourceUser)
	wantFault(t, err, fault.Expired, "container_expired")
}

func TestExpiryIsToldBeforeTheReaperComes(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	b.run(t, c.ID, "true")
	f, err := b.Put(b.ctx, "org", c.ID, "kept.txt", strings.NewReader("kept"), SourceUser)
	if err != nil {
		t.Fatal(err)
	}
	b.clock.advance(21 * time.Minute)
	list, _, err := b.List(b.ctx, "org", Page{})
	if err != nil || len(list) != 1 || list[0].Status != Expired {
		t.Errorf("list: %+v, %v", list, err)
	}
	_, err = b.Usable(b.ctx, "org", c.ID)
	wantFault(t, err, fault.Expired, "container_expired")
	if b.fake.boxes() != 0 {
		t.Error("its box lives on")
	}
	// Its files stay for a day.
	files, _, err := b.Files(b.ctx, "org", c.ID, Page{})
	if err != nil || len(files) != 1 || files[0].ID != f.ID {
		t.Errorf("files: %+v, %v", files, err)
	}
	b.clock.advance(25 * time.Hour)
	if err := b.reap(b.ctx); err != nil {
		t.Fatal(err)
	}
	files, _, err = b.Files(b.ctx, "org", c.ID, Page{})
	if err != nil || len(files) != 0 {
		t.Errorf("files after a day: %+v, %v", files, err)
	}
	_, err = b.File(b.ctx, "org", c.ID, f.ID)
	wantFault(t, err, fault.NotFound, "file_not_found")
	if got, err := b.Get(b.ctx, "org", c.ID); err != nil || got.Status != Expired {
		t.Errorf("the container: %+v, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(b.dir, c.ID)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder: %v", err)
	}
}

func TestDeleteEndsEverything(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	f, err := b.Put(b.ctx, "org", c.ID, "a", strings.NewReader("x"), SourceUser)
	if err != nil {
		t.Fatal(err)
	}
	running := b.exec(t, c.ID, "block")
	if err := b.Delete(b.ctx, "org", c.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := running.Wait(b.ctx); fault.KindOf(err) != fault.Cancelled {
		t.Errorf("the command that ran: %v", err)
	}
	for name, err := range map[string]error{
		"get":    func() error { _, err := b.Get(b.ctx, "org", c.ID); return err }(),
		"file":   func() error { _, err := b.File(b.ctx, "org", c.ID, f.ID); return err }(),
		"exec":   func() error { _, err := b.Exec(b.ctx, "org", c.ID, Command{Script: "true"}); return err }(),
		"delete": b.Delete(b.ctx, "org", c.ID),
	} {
		t.Log(name)
		wantFault(t, err, fault.NotFound, "container_not_found")
	}
	if _, err := os.Stat(filepath.Join(b.dir, c.ID)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder: %v", err)
	}
}

func TestDeleteRacesWithCommands(t *testing.T) {
	b := newBench(t, Limits{})
	for range 20 {
		c := b.create(t)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				e, err := b.Exec(b.ctx, "org", c.ID, Command{Script: "hello"})
				if err == nil {
					e.Wait(b.ctx)
				}
			})
			wg.Go(func() { b.Put(b.ctx, "org", c.ID, "dir/x", strings.NewReader("x"), SourceUser) })
			wg.Go(func() { b.Files(b.ctx, "org", c.ID, Page{}) })
		}
		wg.Go(func() {
			if err := b.Delete(b.ctx, "org", c.ID); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		// A write that was begun before may have put its file into a folder just before that was to go.
		if err := b.reap(b.ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(b.dir, c.ID)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a folder came back: %v", err)
		}
	}
	if b.fake.boxes() != 0 {
		t.Errorf("%d boxes live on", b.fake.boxes())
	}
}

func TestRestartLeavesNoStrays(t *testing.T) {
	b := newBench(t, Limits{})
	kept, never, gone := b.create(t), b.create(t), b.create(t)
	b.run(t, kept.ID, "true")
	b.run(t, gone.ID, "true")
	if _, err := b.Put(b.ctx, "org", kept.ID, "a.txt", strings.NewReader("x"), SourceUser); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(b.ctx); err != nil {
		t.Fatal(err)
	}
	if b.fake.boxes() != 0 {
		t.Error("boxes outlive the service")
	}
	if _, err := b.Exec(b.ctx, "org", kept.ID, Command{Script: "true"}); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a closed service: %v", err)
	}
	// A crash between a deletion's row and its folder, and a folder without a row.
	if _, err := b.end(b.ctx, gone.ID, Deleted, millis(b.clock.time())); err != nil {
		t.Fatal(err)
	}
	stray := id.New(id.Container)
	for _, name := range []string{stray, "not-ours"} {
		if err := os.MkdirAll(filepath.Join(b.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b.restart(t, Limits{})
	if got := strings.Join(b.fake.reclaim, " "); got != kept.ID {
		t.Errorf("reclaimed %q, want %q", got, kept.ID)
	}
	for _, name := range []string{gone.ID, stray} {
		if _, err := os.Stat(filepath.Join(b.dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(b.dir, "not-ours")); err != nil {
		t.Errorf("a folder that is not a container's: %v", err)
	}
	if files, _, err := b.Files(b.ctx, "org", kept.ID, Page{}); err != nil || len(files) != 1 {
		t.Errorf("files after a restart: %+v, %v", files, err)
	}
	b.run(t, kept.ID, "true")
	b.run(t, never.ID, "true")
	if a, c := b.fake.specs[kept.ID].Slot, b.fake.specs[never.ID].Slot; a == c || a == b.fake.specs[b.create(t).ID].Slot {
		t.Errorf("slots %d and %d", a, c)
	}
}

func TestFacts(t *testing.T) {
	b := newBench(t, Limits{DefaultMemoryBytes: 1 << 30})
	f := b.Facts(b.ctx)
	if f.Workdir != "/mnt/data" || f.Network != "none" || f.Runtime != "fake" || f.DefaultTimeout != 300*time.Second ||
		f.MaxTimeout != 300*time.Second || f.MaxOutput != 8000 || f.Memory != "1g" || f.Available != nil || f.Isolation.Got != "" {
		t.Errorf("facts %+v", f)
	}
	b.run(t, b.create(t).ID, "true")
	if f = b.Facts(b.ctx); f.Isolation.Got != "fake" {
		t.Errorf("isolation %+v", f.Isolation)
	}
}

package container

import (
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
)

// A container that is ended before its time is gone for commands, and its files are found by their ids alone, by whose they
// are: at once, and out of the archive.
func TestEndKeepsTheFiles(t *testing.T) {
	b, _ := withBlobs(t, Limits{})
	c := b.create(t)
	b.run(t, c.ID, "write")
	files, _, err := b.Files(b.ctx, "org", c.ID, Page{Order: "asc"})
	if err != nil || len(files) != 2 {
		t.Fatalf("%+v, %v", files, err)
	}
	if err := b.End(b.ctx, "other", c.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another organisation ends it: %v", err)
	}
	if err := b.End(b.ctx, "org", c.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Usable(b.ctx, "org", c.ID); fault.KindOf(err) != fault.Expired {
		t.Errorf("it can be used: %v", err)
	}
	if _, err := b.Exec(b.ctx, "org", c.ID, Command{Script: "write"}); fault.KindOf(err) != fault.Expired {
		t.Errorf("a command runs in it: %v", err)
	}
	b.fake.mu.Lock()
	living := b.fake.living[c.ID]
	b.fake.mu.Unlock()
	if living != nil {
		t.Error("its box lives on")
	}
	found := func(when string) {
		t.Helper()
		for _, want := range files {
			got, err := b.FileByID(b.ctx, "org", want.ID)
			if err != nil || got != want {
				t.Errorf("%s: %+v, %v, want %+v", when, got, err, want)
			}
			if b.text(t, c.ID, want.ID) == "" {
				t.Errorf("%s: %s is empty", when, want.Path)
			}
		}
	}
	found("at once")
	b.archived(t, c.ID)
	found("archived")
	for _, id := range []string{"", "cfile_x", "file_1", files[0].ID + "x"} {
		if _, err := b.FileByID(b.ctx, "org", id); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%q: %v", id, err)
		}
	}
	if _, err := b.FileByID(b.ctx, "other", files[0].ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another organisation finds it: %v", err)
	}
	if err := b.End(b.ctx, "org", c.ID); err != nil {
		t.Errorf("ended twice: %v", err)
	}
}

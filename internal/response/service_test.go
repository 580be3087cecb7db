package response

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func TestAnotherOrganisationsResponseLooksAbsent(t *testing.T) {
	s := newService(t)
	ended, running := begin(t, s, Begin{Store: true}), begin(t, s, Begin{Store: true})
	announce(t, ended)
	finish(t, ended, openai.Completed)
	const unknown = "resp_00000000000000000000000000"
	calls := map[string]func(id string) error{
		"get":       func(id string) error { return second(s.Get(within(t), "other", id)) },
		"subscribe": func(id string) error { return second(s.Subscribe(within(t), "other", id, -1)) },
		"cancel":    func(id string) error { return second(s.Cancel(within(t), "other", id)) },
		"delete":    func(id string) error { return s.Delete(within(t), "other", id) },
		"chain":     func(id string) error { return second(s.Chain(within(t), "other", id)) },
		"input":     func(id string) error { return second(s.InputItems(within(t), "other", id)) },
	}
	for name, call := range calls {
		want := call(unknown)
		for _, r := range []*Run{ended, running} {
			got := call(r.ID())
			w, g := must2(fault.As(want)), must2(fault.As(got))
			if g.Kind != fault.NotFound || g.Code != w.Code || g.Param != w.Param || g.Cause != nil ||
				strings.ReplaceAll(g.Message, r.ID(), unknown) != w.Message {
				t.Errorf("%s: %v; an unknown id gives %v", name, got, want)
			}
		}
	}
	if running.Context().Err() != nil {
		t.Error("another organisation has cancelled it")
	}
	finish(t, running, openai.Completed)
}

func must2[T any](v T, ok bool) T {
	if !ok {
		panic("no value")
	}
	return v
}

func message(id, role, text string) openai.Item {
	return openai.NewItem(openai.Message{Type: openai.TypeMessage, ID: id, Role: role, Content: openai.Content{{Type: "input_text", Text: text}}})
}

// turn is a finished response with one input and one output item.
func turn(t testing.TB, s *Service, n int, previous, container string) *Run {
	t.Helper()
	r := begin(t, s, Begin{Store: true, PreviousID: previous, Input: []openai.Item{message(fmt.Sprint("msg_in", n), "user", "<q>")}})
	if container != "" {
		r.SetContainer(container)
	}
	if err := r.Emit(openai.NewItemEvent(openai.EventItemDone, 0, message(fmt.Sprint("msg_out", n), "assistant", "a"))); err != nil {
		t.Fatal(err)
	}
	finish(t, r, openai.Completed)
	return r
}

func TestChain(t *testing.T) {
	s := newService(t)
	first := turn(t, s, 0, "", "cntr_1")
	second := turn(t, s, 1, first.ID(), "")
	third := turn(t, s, 2, second.ID(), "")
	c, err := s.Chain(within(t), org, third.ID())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, i := range c.Items {
		ids = append(ids, i.ID)
	}
	if got, want := strings.Join(ids, " "), "msg_in0 msg_out0 msg_in1 msg_out1 msg_in2 msg_out2"; got != want || c.ContainerID != "cntr_1" {
		t.Errorf("chain %s, container %q; want %s", got, c.ContainerID, want)
	}
	if !bytes.Contains(c.Items[0].Raw, []byte("<q>")) {
		t.Errorf("the item came back changed: %s", c.Items[0].Raw)
	}
	input, err := s.InputItems(within(t), org, second.ID())
	if err != nil || len(input) != 1 || input[0].ID != "msg_in1" {
		t.Errorf("input %+v, %v", input, err)
	}

	silent := begin(t, s, Begin{Store: true})
	if _, err := s.Chain(within(t), org, silent.ID()); !isConflict(err) {
		t.Errorf("a running one: %v, want fault.Conflict", err)
	}
	finish(t, silent, openai.Completed)
	if c, err := s.Chain(within(t), org, silent.ID()); err != nil || len(c.Items) != 0 {
		t.Errorf("one without items: %+v, %v", c, err)
	}
	if err := s.Delete(within(t), org, first.ID()); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{third.ID(), first.ID(), "resp_none"} {
		_, err := s.Chain(within(t), org, id)
		if f, ok := fault.As(err); !ok || f.Kind != fault.NotFound || f.Code != "previous_response_not_found" || f.Param != "previous_response_id" {
			t.Errorf("chain of %s: %v", id, err)
		}
	}
}

func TestALongChain(t *testing.T) {
	s := newService(t)
	id := ""
	for n := range maxTurns {
		id = turn(t, s, n, id, "").ID()
	}
	if c, err := s.Chain(within(t), org, id); err != nil || len(c.Items) != 2*maxTurns {
		t.Errorf("%d turns: %d items, %v", maxTurns, len(c.Items), err)
	}
	id = turn(t, s, maxTurns, id, "").ID()
	if _, err := s.Chain(within(t), org, id); fault.KindOf(err) != fault.Invalid {
		t.Errorf("%d turns: %v, want fault.Invalid", maxTurns+1, err)
	}
}

func TestDeleteAndCancel(t *testing.T) {
	s := newService(t)
	r := begin(t, s, Begin{Store: true})
	announce(t, r)
	go func() {
		<-r.Context().Done()
		r.Finish(within(t), End{Status: openai.Cancelled})
	}()
	for range 2 { // the second finds it ended
		if resp, err := s.Cancel(within(t), org, r.ID()); err != nil || resp.Status != openai.Cancelled {
			t.Fatalf("cancel: %+v, %v", resp, err)
		}
	}
	running := begin(t, s, Begin{Store: true})
	announce(t, running)
	go func() {
		<-running.Context().Done()
		running.Finish(within(t), End{Status: openai.Cancelled})
	}()
	for _, id := range []string{r.ID(), running.ID()} {
		if err := s.Delete(within(t), org, id); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(within(t), org, id); fault.KindOf(err) != fault.NotFound {
			t.Errorf("after delete: %v", err)
		}
	}
}

func TestALiveResponseIsSeenAsItStands(t *testing.T) {
	s := newService(t)
	r := begin(t, s, Begin{Store: true, Background: true, Object: openai.Response{Metadata: map[string]string{"k": "v"}}})
	status := func() string { return must(s.Get(within(t), org, r.ID())).Status }
	if got := status(); got != openai.Queued {
		t.Errorf("status %s before the start", got)
	}
	announce(t, r)
	for i, ev := range []openai.Event{ // index 1 opens before 0
		openai.NewItemEvent(openai.EventItemAdded, 1, message("msg_b", "assistant", "")),
		openai.NewItemEvent(openai.EventItemAdded, 0, message("msg_a", "assistant", "")),
		openai.NewItemEvent(openai.EventItemDone, 1, message("msg_b", "assistant", "done")),
	} {
		if err := r.Emit(ev); err != nil {
			t.Fatal(err)
		}
		if got := len(r.Output()); got != min(i+1, 2) {
			t.Errorf("%d items after event %d", got, i)
		}
	}
	resp, err := s.Get(within(t), org, r.ID())
	if err != nil || resp.Status != openai.InProgress || len(resp.Output) != 2 || resp.Output[0].ID != "msg_a" ||
		!bytes.Contains(resp.Output[1].Raw, []byte("done")) || resp.Metadata["k"] != "v" {
		t.Errorf("%+v, %v", resp, err)
	}
	if err := r.Emit(openai.NewItemEvent(openai.EventItemAdded, -1, message("m", "assistant", ""))); err == nil {
		t.Error("a negative index is taken")
	}
	if err := r.Emit(openai.NewLifecycle(openai.EventCompleted, *resp)); err == nil {
		t.Error("a terminal event is taken from outside")
	}
	finish(t, r, openai.Completed)
	wantLog(t, stored(t, s, r.ID()), 0)
}

func TestBackgroundMustBeStored(t *testing.T) {
	_, err := newService(t).Begin(within(t), Begin{Org: org, Background: true})
	if f, ok := fault.As(err); !ok || f.Kind != fault.Invalid || f.Param != "background" {
		t.Errorf("%v, want fault.Invalid", err)
	}
}

func TestDomainSecretsAreNotStored(t *testing.T) {
	const secret = "s3cr3t-value"
	shell := func(key string) string {
		return `{"type":"shell","environment":{"type":"container_auto","network_policy":{"type":"allowlist","allowed_domains":["a.org"],` +
			key + `:[{"domain":"a.org","name":"K","value":"` + secret + `"}]}}}`
	}
	escaped := `"domain\u005fsecrets"`
	tools := map[string]string{
		"plain": shell(`"domain_secrets"`), "escaped": shell(escaped), "another case": shell(`"Domain_Secrets"`),
		"twice":                     strings.Replace(shell(`"domain_secrets"`), `"allowed_domains"`, escaped+`:["`+secret+`"],"allowed_domains"`, 1),
		"hidden by a second policy": strings.Replace(shell(`"domain_secrets"`), `}}}`, `},"network_policy":{"type":"disabled"}}}`, 1),
		"in a list":                 `{"type":"shell","environment":{"network_policy":[{"domain_secrets":"` + secret + `"}]}}`,
		"broken":                    `{"type":"shell","environment":{"network_policy":{"domain_secrets":"` + secret + `"`,
	}
	for name, tool := range tools {
		clean := withoutSecrets([]json.RawMessage{json.RawMessage(tool)})
		if !json.Valid(clean[0]) || bytes.Contains(clean[0], []byte(secret)) {
			t.Errorf("%s: %s", name, clean[0])
		}
	}
	for _, same := range []string{`{"type":"function","name":"f","parameters":{"n":1.50,"a":"<\n>"}}`, shell(`"other"`)} {
		if got := withoutSecret(json.RawMessage(same)); string(got) != same {
			t.Errorf("changed without need: %s", got)
		}
	}

	dir := t.TempDir()
	s := serve(t, openDB(t, filepath.Join(dir, "hardshell.db")), Options{})
	r := begin(t, s, Begin{Store: true, Object: openai.Response{Tools: []json.RawMessage{json.RawMessage(tools["plain"])}}})
	announce(t, r)
	if err := r.Sync(within(t)); err != nil {
		t.Fatal(err)
	}
	finish(t, r, openai.Completed)
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if b := must(os.ReadFile(filepath.Join(dir, f.Name()))); bytes.Contains(b, []byte(secret)) {
			t.Errorf("%s holds the secret", f.Name())
		}
	}
}

func TestSegmentsAndMemoryAreLetGo(t *testing.T) {
	db := openDB(t, filepath.Join(t.TempDir(), "hardshell.db"))
	s := serve(t, db, Options{})
	slow, fast := begin(t, s, Begin{Store: true}), begin(t, s, Begin{Store: true})
	for i := range 20_000 {
		say(t, fast, fmt.Sprint(i))
		if i%100 == 0 {
			say(t, slow, "still here")
			if err := fast.Sync(within(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(t, func() bool { // the last blocks are on their way
		fast.mu.Lock()
		defer fast.mu.Unlock()
		return len(fast.ring.frames) < 2*restEvents && len(fast.segments) < 50
	})
	finish(t, fast, openai.Completed)
	finish(t, slow, openai.Completed)
	noSegments(t, s)
	wantLog(t, stored(t, s, slow.ID()), 0)
	wantLog(t, stored(t, s, fast.ID()), 0)
}

// noSegments waits until no segment is left. One that nobody needs goes with the next flush; where none comes, it is
// asked for. A flush that is on its way while a response ends lets go of its segment a moment later.
func noSegments(t *testing.T, s *Service) {
	t.Helper()
	until(t, func() bool {
		if err := s.log.clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		return count(t, s.db, `SELECT COUNT(*) FROM event_segment`) == 0
	})
}

func TestEmitHardlyAllocates(t *testing.T) {
	s := newService(t)
	r := begin(t, s, Begin{})
	go r.Wait(within(t)) // nobody reads: events are let go
	until(t, func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.unwatched })
	ev := openai.NewDelta(openai.EventTextDelta, "msg_06d8n2m4kq3v7t9x1c5b0z8yrw", 0, 0, strings.Repeat("word ", 10))
	var before, after runtime.MemStats
	const events = 50_000
	runtime.ReadMemStats(&before)
	for range events {
		if err := r.Emit(ev); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if per := float64(after.Mallocs-before.Mallocs) / events; per > 0.1 {
		t.Errorf("%.2f allocations an event", per)
	}
	finish(t, r, openai.Completed)
}

func BenchmarkEmit(b *testing.B) {
	for _, store := range []bool{false, true} {
		b.Run(fmt.Sprint("store ", store), func(b *testing.B) {
			s := newService(b)
			r := begin(b, s, Begin{Store: store})
			go r.Wait(within(b))
			ev := openai.NewDelta(openai.EventTextDelta, "msg_06d8n2m4kq3v7t9x1c5b0z8yrw", 0, 0, strings.Repeat("word ", 10))
			b.ReportAllocs()
			for b.Loop() {
				if err := r.Emit(ev); err != nil {
					b.Fatal(err)
				}
			}
			finish(b, r, openai.Completed)
		})
	}
}

func FuzzParseSegment(f *testing.F) {
	frames := []Frame{{Seq: 7, Data: []byte(`{"type":"a"}`)}, {Seq: 8, Data: []byte(`{}`)}}
	f.Add(appendSlice(appendSlice([]byte{segmentVersion}, "resp_1", 1, frames), "resp_2", 9, frames[:1]))
	f.Add([]byte{segmentVersion, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, blob []byte) {
		slices, err := parseSegment(blob)
		if err != nil {
			return
		}
		again := []byte{segmentVersion}
		for _, s := range slices {
			if len(s.events) == 0 {
				return // never written
			}
			var frames []Frame
			for i, data := range s.events {
				frames = append(frames, Frame{Seq: s.first + int64(i), Data: data})
			}
			again = appendSlice(again, s.id, s.fence, frames)
		}
		if back, err := parseSegment(again); err != nil || len(back) != len(slices) {
			t.Fatalf("%d slices came back as %d, %v", len(slices), len(back), err)
		}
	})
}

func FuzzUnpack(f *testing.F) {
	var p packer
	for _, b := range must(p.pack([]Frame{{Seq: 3, Data: []byte(`{"type":"a"}`)}, {Seq: 4, Data: []byte("x")}})) {
		f.Add(b.data)
	}
	f.Add([]byte{blockPlain, 1, 'x'})
	f.Fuzz(func(t *testing.T, data []byte) {
		var p packer
		frames, err := p.unpack(block{first: 3, last: 4, data: data}, 3)
		for i, fr := range frames {
			if err == nil && fr.Seq != int64(3+i) {
				t.Fatalf("frame %d has number %d", i, fr.Seq)
			}
		}
	})
}

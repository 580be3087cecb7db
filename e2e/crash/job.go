package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// job is one response from its request to its end.
type job struct {
	name, id string

	mu       sync.Mutex
	seen     map[int64][]byte // what any reader got, by number
	top      int64            // the highest number that any reader got; -1 for none
	terminal bool
	order    int
}

// book is every job there was.
type book struct {
	mu     sync.Mutex
	jobs   map[string]*job
	open   []*job
	made   int
	closed bool
	wrong  wrong
}

// wrong counts what readers found, and keeps the first of each.
type wrong struct {
	events                    int64
	lost, repeated, differing int64
	first                     []string
}

func (b *book) add(j *job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.jobs[j.id] = j
	b.open = append(b.open, j)
}

// next names a new job when there are too few open ones.
func (b *book) next(most int) (name string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.open) >= most {
		return "", false
	}
	b.made++
	return fmt.Sprintf("j%d", b.made), true
}

// pick returns an open job, or nil; over says that none will come any more.
func (b *book) pick(rng *rand.Rand) (j *job, over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.open) == 0 {
		return nil, b.closed
	}
	return b.open[rng.IntN(len(b.open))], false
}

// end takes a job off the open ones.
func (b *book) end(j *job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, o := range b.open {
		if o == j {
			b.open = append(b.open[:i], b.open[i+1:]...)
			return
		}
	}
}

func (b *book) over() {
	b.mu.Lock()
	b.closed, b.open = true, nil
	b.mu.Unlock()
}

// drained waits until every job has ended.
func (b *book) drained(ctx context.Context) error {
	for limit := time.Now().Add(3 * time.Minute); ; {
		b.mu.Lock()
		left := len(b.open)
		b.mu.Unlock()
		if left == 0 {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%d responses do not come to an end", left)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (b *book) report(what *int64, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if *what++; len(b.wrong.first) < 8 {
		b.wrong.first = append(b.wrong.first, fmt.Sprintf(format, args...))
	}
}

// threshold is, in tokens, what two turns of a job take, so that room is made before the third.
const threshold = 650

// keepOpen begins responses so that there is always work to interrupt. A request whose answer was lost is sent again
// under its key: it must not begin another.
func keepOpen(ctx context.Context, srv *server, b *book, most int, fail context.CancelCauseFunc) {
	for ctx.Err() == nil {
		name, ok := b.next(most)
		if !ok {
			pause(ctx, 5*time.Millisecond)
			continue
		}
		body := fmt.Sprintf(`{"model":"mock/m","background":true,"tools":[{"type":"shell"}],"input":"job:%s;",
			"context_management":[{"type":"compaction","compact_threshold":%d}]}`, name, threshold)
		for {
			id, err := create(ctx, srv, name, body)
			if err == nil {
				b.add(&job{name: name, id: id, seen: map[int64][]byte{}, top: -1, order: b.made})
				break
			}
			var refused refusal
			if errors.As(err, &refused) && refused.status < 500 {
				fail(fmt.Errorf("create %s: %w", name, err))
				return
			}
			// The answer may be lost and the response not: it is asked for until it is known.
			if !pause(context.WithoutCancel(ctx), 10*time.Millisecond) {
				return
			}
		}
	}
}

type refusal struct {
	status int
	body   string
}

func (r refusal) Error() string { return fmt.Sprintf("HTTP %d: %.300s", r.status, r.body) }

func create(ctx context.Context, srv *server, name, body string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	res, err := srv.do(ctx, http.MethodPost, "/v1/responses", []byte(body), "Idempotency-Key", "crash-"+name)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return "", err
	}
	var o struct{ ID string }
	if res.StatusCode != http.StatusOK || json.Unmarshal(raw, &o) != nil || o.ID == "" {
		return "", refusal{res.StatusCode, string(raw)}
	}
	return o.ID, nil
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// judge reads every log once more and compares.
func (b *book) judge(ctx context.Context, srv *server, r *result) error {
	var errs []error
	for _, j := range b.jobs {
		errs = append(errs, b.judgeOne(ctx, srv, j, r))
	}
	r.responses, r.events = len(b.jobs), b.wrong.events
	r.lost, r.repeated, r.differing = b.wrong.lost, b.wrong.repeated, b.wrong.differing
	if err := srv.stop(); err != nil {
		errs = append(errs, err)
	}
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		left := srv.strays()
		if len(left) == 0 {
			break
		}
		if time.Now().After(limit) {
			r.strays = len(left)
			errs = append(errs, fmt.Errorf("processes are left: %s", strings.Join(left, "; ")))
			break
		}
	}
	if b.wrong.lost+b.wrong.repeated+b.wrong.differing > 0 {
		errs = append(errs, errors.New(strings.Join(b.wrong.first, "\n")))
	}
	return errors.Join(errs...)
}

func (b *book) judgeOne(ctx context.Context, srv *server, j *job, r *result) error {
	log, err := sealed(ctx, srv, j.id)
	if err != nil {
		return fmt.Errorf("%s (%s): %w", j.id, j.name, err)
	}
	for n, data := range j.seen {
		switch {
		case n >= int64(len(log)):
			b.report(&b.wrong.differing, "%s: a reader saw event %d, the log ends at %d", j.id, n, len(log)-1)
		case !bytes.Equal(log[n], data):
			b.report(&b.wrong.differing, "%s: event %d was\n%s\nand is\n%s", j.id, n, data, log[n])
		}
	}
	if err := checkLog(log); err != nil {
		return fmt.Errorf("%s (%s): %w", j.id, j.name, err)
	}
	return j.checkEffects(ctx, srv, log[len(log)-1], r)
}

// checkLog wants one terminal event, the last.
func checkLog(log [][]byte) error {
	for n, data := range log {
		typ, number := head(data)
		if number != int64(n) {
			return fmt.Errorf("event %d has the number %d", n, number)
		}
		if terminal(typ) != (n == len(log)-1) {
			return fmt.Errorf("event %d of %d is %s", n, len(log), typ)
		}
	}
	return nil
}

// notRun is what a call ends with that the model had not finished writing when the server died.
const notRun = "shell: The server stopped before the call was complete; it was not run."

// checkEffects wants each command to have run once, with all of its output told.
func (j *job) checkEffects(ctx context.Context, srv *server, last []byte, r *result) error {
	var end struct {
		Type     string
		Response struct {
			Status string
			Error  json.RawMessage
			Output []struct {
				Type   string
				Output []struct {
					Stdout, Stderr string
					Outcome        struct {
						Type     string
						ExitCode *int `json:"exit_code"`
					}
				}
				Environment struct {
					ContainerID string `json:"container_id"`
				}
			}
		}
	}
	if err := json.Unmarshal(last, &end); err != nil {
		return err
	}
	if end.Response.Status != "completed" {
		return fmt.Errorf("%s (%s) ended as %s: %s", j.id, j.name, end.Response.Status, end.Response.Error)
	}
	container, turn := "", 0
	for _, item := range end.Response.Output {
		if item.Environment.ContainerID != "" {
			container = item.Environment.ContainerID
		}
		if item.Type == "compaction" {
			r.compactions++
		}
		if item.Type != "shell_call_output" {
			continue
		}
		if len(item.Output) == 1 && strings.HasPrefix(item.Output[0].Stderr, notRun) {
			r.broken++ // the server died in the middle of the model's turn
			continue
		}
		for _, o := range item.Output {
			t := token(j.name, turn)
			if o.Outcome.ExitCode == nil || *o.Outcome.ExitCode != 0 {
				r.interrupted++
				return fmt.Errorf("%s (%s): command %d was not seen to its end: %+v", j.id, j.name, turn, o)
			}
			var want strings.Builder
			for i := 1; i <= lines; i++ {
				fmt.Fprintf(&want, "%s line %d\n", t, i)
			}
			if o.Stdout != want.String() || o.Stderr != t+" done\n" {
				return fmt.Errorf("%s (%s): command %d printed %q and %q", j.id, j.name, turn, o.Stdout, o.Stderr)
			}
		}
		turn++
	}
	if turn != turns || container == "" {
		return fmt.Errorf("%s (%s): %d commands in container %q", j.id, j.name, turn, container)
	}
	ran, err := ran(ctx, srv, container)
	if err != nil {
		return fmt.Errorf("%s (%s): %w", j.id, j.name, err)
	}
	for i := range turns {
		switch n := strings.Count(ran, token(j.name, i)+"\n"); {
		case n > 1:
			r.twice++
			return fmt.Errorf("%s (%s): command %d ran %d times", j.id, j.name, i, n)
		case n == 0:
			return fmt.Errorf("%s (%s): command %d is told to have run and did not", j.id, j.name, i)
		}
	}
	res, err := srv.do(ctx, http.MethodDelete, "/v1/containers/"+container, nil)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// ran is what the commands noted in their workspace.
func ran(ctx context.Context, srv *server, container string) (string, error) {
	get := func(path string) ([]byte, error) {
		res, err := srv.do(ctx, http.MethodGet, path, nil)
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		raw, err := io.ReadAll(res.Body)
		if err == nil && res.StatusCode != http.StatusOK {
			err = refusal{res.StatusCode, string(raw)}
		}
		return raw, err
	}
	raw, err := get("/v1/containers/" + container + "/files?limit=100")
	if err != nil {
		return "", err
	}
	var list struct{ Data []struct{ ID, Path string } }
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", err
	}
	for _, f := range list.Data {
		if f.Path == "/mnt/data/ran" {
			raw, err := get("/v1/containers/" + container + "/files/" + f.ID + "/content")
			return string(raw), err
		}
	}
	return "", nil
}

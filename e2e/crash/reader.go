package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// head is the type and the number of an event.
func head(data []byte) (string, int64) {
	var ev struct {
		Type   string
		Number *int64 `json:"sequence_number"`
	}
	if json.Unmarshal(data, &ev) != nil || ev.Number == nil {
		return ev.Type, -1
	}
	return ev.Type, *ev.Number
}

func terminal(typ string) bool {
	return typ == "response.completed" || typ == "response.incomplete" || typ == "response.failed"
}

// readOn is one client: it follows a response from a number of its choice to the end, resuming behind the last event
// that it got whenever the stream breaks off; then it takes another.
func readOn(ctx context.Context, srv *server, b *book, rng *rand.Rand, fail context.CancelCauseFunc) {
	for ctx.Err() == nil {
		j, over := b.pick(rng)
		if over {
			return
		}
		if j == nil {
			pause(ctx, 5*time.Millisecond)
			continue
		}
		j.mu.Lock()
		last := rng.Int64N(j.top+2) - 1 // from the start up to the newest that anybody has
		j.mu.Unlock()
		for ctx.Err() == nil {
			next, done, err := follow(ctx, srv, b, j, last)
			if done {
				b.end(j)
				break
			}
			var refused refusal
			if errors.As(err, &refused) && refused.status < 500 {
				fail(fmt.Errorf("read %s behind %d: %w", j.id, last, err))
				return
			}
			last = next
			if rng.IntN(20) == 0 {
				break // a client that does not come back
			}
			pause(ctx, time.Duration(rng.Int64N(int64(20*time.Millisecond))))
		}
	}
}

// follow reads one stream. It returns the number of the last event that it got.
func follow(ctx context.Context, srv *server, b *book, j *job, last int64) (next int64, done bool, err error) {
	path := "/v1/responses/" + j.id + "?stream=true"
	if last >= 0 {
		path += fmt.Sprintf("&starting_after=%d", last)
	}
	res, err := srv.do(ctx, http.MethodGet, path, nil, "Accept", "text/event-stream")
	if err != nil {
		return last, false, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(res.Body)
		return last, false, refusal{res.StatusCode, string(raw)}
	}
	for data, err := range events(res.Body) {
		if err != nil {
			return last, false, err
		}
		typ, n := head(data)
		switch {
		case n <= last:
			b.report(&b.wrong.repeated, "%s: event %d came again behind %d", j.id, n, last)
		case n != last+1:
			b.report(&b.wrong.lost, "%s: event %d came behind %d", j.id, n, last)
		}
		j.mu.Lock()
		before, known := j.seen[n]
		if !known {
			j.seen[n] = data
		}
		j.top = max(j.top, n)
		j.mu.Unlock()
		if known && !bytes.Equal(before, data) {
			b.report(&b.wrong.differing, "%s: event %d was\n%s\nand is\n%s", j.id, n, before, data)
		}
		b.mu.Lock()
		b.wrong.events++
		b.mu.Unlock()
		if last = n; terminal(typ) {
			return last, true, nil
		}
	}
	return last, false, nil
}

// events reads the data of an event stream. A stream that breaks off within an event gives all that was whole.
func events(r io.Reader) func(yield func([]byte, error) bool) {
	return func(yield func([]byte, error) bool) {
		in := bufio.NewReaderSize(r, 64<<10)
		var data []byte
		for {
			line, err := in.ReadBytes('\n')
			if err != nil {
				if err != io.EOF {
					yield(nil, err)
				}
				return
			}
			text := strings.TrimRight(string(line), "\r\n")
			switch {
			case text == "":
				if data != nil && string(data) != "[DONE]" && !yield(data, nil) {
					return
				}
				data = nil
			case strings.HasPrefix(text, "data: "):
				data = []byte(text[6:])
			}
		}
	}
}

// sealed reads the log of a response that has ended.
func sealed(ctx context.Context, srv *server, id string) (log [][]byte, err error) {
	res, err := srv.do(ctx, http.MethodGet, "/v1/responses/"+id+"?stream=true", nil, "Accept", "text/event-stream")
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(res.Body)
		return nil, refusal{res.StatusCode, string(raw)}
	}
	for data, err := range events(res.Body) {
		if err != nil {
			return nil, err
		}
		log = append(log, data)
	}
	if len(log) == 0 {
		return nil, errors.New("its log is empty")
	}
	return log, nil
}

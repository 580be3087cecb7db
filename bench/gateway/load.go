package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// target is one way to the mock.
type target struct {
	name    string
	at      string // the process's address
	key     string
	dialect dialect
	store   bool
	pid     int // of the process between the mock and us; 0 = none
	client  *http.Client
	out     *figures
}

func newClient() *http.Client {
	return &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{MaxIdleConns: 4096, MaxIdleConnsPerHost: 4096, DisableCompression: true}}
}

// load is one kind of work.
type load struct {
	stream  bool
	workers int
}

// sample is what one run of a target saw.
type sample struct {
	whole  []time.Duration // request to last byte
	first  []time.Duration // request to first text delta
	events int64
	done   int64
	cut    int64
	busy   time.Duration
	cpu    time.Duration // that the process between took
	fault  error         // the first thing that went wrong
}

var wanted = []byte(said)

// errCut is a stream that ended before its end mark or with another text.
var errCut = errors.New("cut")

// run sends count requests from the load's workers, each sending its next when the last is answered.
func (t *target) run(ctx context.Context, count int, l load) (sample, error) {
	var total sample
	var mu sync.Mutex
	var wg sync.WaitGroup
	left := int64(count)
	ask := t.question("mock", l.stream)
	start, before := time.Now(), busy(t.pid)
	for range l.workers {
		wg.Go(func() {
			var s sample
			w := reader{in: bufio.NewReaderSize(nil, 32<<10)}
			for ctx.Err() == nil && atomic.AddInt64(&left, -1) >= 0 {
				w.text = w.text[:0]
				began := time.Now()
				first, err := w.ask(ctx, t, ask, began)
				took := time.Since(began)
				if err == nil && !bytes.Equal(w.text, wanted) {
					err = fmt.Errorf("%w: %d bytes of text, %d wanted", errCut, len(w.text), len(wanted))
				}
				switch {
				case err == nil:
					s.done++
					s.events += chunks
					s.whole = append(s.whole, took)
					s.first = append(s.first, first)
				case ctx.Err() != nil:
				case errors.Is(err, errCut):
					s.cut++
					s.fault = err
				default:
					s.fault = err
					mu.Lock()
					total.fault = err
					mu.Unlock()
					return
				}
			}
			mu.Lock()
			defer mu.Unlock()
			total.merge(s)
		})
	}
	wg.Wait()
	total.busy, total.cpu = time.Since(start), busy(t.pid)-before
	if total.fault != nil && !errors.Is(total.fault, errCut) {
		return total, fmt.Errorf("%s: %w", t.name, total.fault)
	}
	return total, nil
}

func (s *sample) merge(o sample) {
	s.whole, s.first = append(s.whole, o.whole...), append(s.first, o.first...)
	s.events += o.events
	s.done += o.done
	s.cut += o.cut
	if s.fault == nil {
		s.fault = o.fault
	}
}

// reader reads answers and collects their text.
type reader struct {
	in    *bufio.Reader
	text  []byte
	event func(delta []byte) // called for each delta of a stream, if set
}

// question is a request that is sent again and again.
type question struct {
	url, body string
	stream    bool
}

func (t *target) question(model string, stream bool) question {
	return question{t.at + t.dialect.path(model, stream), t.dialect.body(model, stream, t.store), stream}
}

// ask sends one request and reads the answer to its end. The text is in r.text.
func (r *reader) ask(ctx context.Context, t *target, q question, began time.Time) (first time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, q.url, strings.NewReader(q.body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	if t.key != "" {
		req.Header.Set("Authorization", "Bearer "+t.key)
	}
	res, err := t.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	r.in.Reset(res.Body)
	if res.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(res.Body, 500))
		return 0, fmt.Errorf("%s: %s", res.Status, said)
	}
	if !q.stream {
		raw, err := io.ReadAll(r.in)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", errCut, err)
		}
		r.text = append(r.text, between(raw, t.dialect.text)...)
		return 0, nil
	}
	next := r.line
	if t.dialect.framed {
		next = r.frame
	}
	ended := false
	for {
		data, err := next()
		if delta := between(data, t.dialect.delta); len(delta) > 0 {
			if first == 0 {
				first = time.Since(began)
			}
			if r.event != nil {
				r.event(delta)
			} else {
				r.text = append(r.text, delta...)
			}
		} else if bytes.Contains(data, t.dialect.end) {
			ended = true
		}
		if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.EOF) && !ended {
			return first, fmt.Errorf("%w: %w", errCut, err)
		}
		if err != nil {
			return first, nil
		}
	}
}

// line reads one line and gives the data that it holds. Of a long one it gives the parts: what is looked for stands at
// the beginning, and deltas are short.
func (r *reader) line() ([]byte, error) {
	line, err := r.in.ReadSlice('\n')
	data, _ := bytes.CutPrefix(line, []byte("data: "))
	if errors.Is(err, bufio.ErrBufferFull) {
		err = nil
	}
	return data, err
}

// frame reads one binary message. Its sums are not looked at: the text is.
func (r *reader) frame() ([]byte, error) {
	head, err := r.in.Peek(4)
	if err != nil {
		return nil, err // at the end of the stream, io.EOF
	}
	message, err := r.in.Peek(int(binary.BigEndian.Uint32(head)))
	if err != nil {
		return nil, fmt.Errorf("within a message: %w", io.ErrUnexpectedEOF)
	}
	_, err = r.in.Discard(len(message))
	return message, err
}

// between returns what stands between a mark and the next quote. The texts here hold no escapes.
func between(b, mark []byte) []byte {
	i := bytes.Index(b, mark)
	if i < 0 {
		return nil
	}
	b = b[i+len(mark):]
	if before, _, ok := bytes.Cut(b, []byte{'"'}); ok {
		return before
	}
	return nil
}

func (s settings) pacedModel() string {
	return fmt.Sprintf("paced-%d-%d", s.lagRate, int(s.lagTime.Seconds()*float64(s.lagRate)))
}

// paced reads many slow streams at once and measures how old each delta is when it arrives.
func (t *target) paced(ctx context.Context, s settings) error {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var lags []time.Duration
	var cut int64
	var failure error
	ask := t.question(s.pacedModel(), true)
	want := int(s.lagTime.Seconds() * float64(s.lagRate))
	start := time.Now()
	for range s.lagStreams {
		wg.Go(func() {
			mine := make([]time.Duration, 0, want)
			r := reader{in: bufio.NewReaderSize(nil, 8<<10), event: func(delta []byte) {
				// A delta may be several chunks that were put together: each was made at its own time.
				for field := range bytes.FieldsSeq(delta) {
					if born, err := strconv.ParseInt(string(field), 10, 64); err == nil {
						mine = append(mine, time.Duration(time.Now().UnixNano()-born))
					}
				}
			}}
			_, err := r.ask(ctx, t, ask, time.Now())
			mu.Lock()
			defer mu.Unlock()
			lags = append(lags, mine...)
			if len(mine) != want {
				cut++
			}
			if err != nil && !errors.Is(err, errCut) {
				failure = err
			}
		})
	}
	wg.Wait()
	t.out.Paced = &paced{Events: len(lags), PerSecond: float64(len(lags)) / time.Since(start).Seconds(),
		LagP50: millis(percentile(lags, .5)), LagP99: millis(percentile(lags, .99)), Cut: cut}
	if failure != nil {
		return fmt.Errorf("%s, paced: %w", t.name, failure)
	}
	return nil
}

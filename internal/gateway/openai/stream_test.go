package openai

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/sse"
)

// golden is a stream byte for byte: the frames as they were stored, then the end mark.
const golden = `event: response.created
data: {"type":"response.created","sequence_number":0,"note":"<ü>"}

event: response.in_progress
data: {"type":"response.in_progress","sequence_number":1,"note":"<ü>"}

event: response.completed
data: {"type":"response.completed","sequence_number":2,"note":"<ü>"}

data: [DONE]

`

func TestStreamGolden(t *testing.T) {
	h := open(t, time.Minute)
	run := newRun()
	run.play(0, "response.created", "response.in_progress")
	run.play(2, "response.completed")
	close(run.frames)
	h.agent.run = run
	res, body := h.do(t, "POST", "/v1/responses", []byte(`{"model":"m","stream":true}`), nil)
	if body != golden {
		t.Errorf("the stream is\n%s\nwant\n%s", body, golden)
	}
	for name, want := range map[string]string{"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	select {
	case <-run.cancelled:
		t.Error("a stream that was read to its end cancelled its run")
	default:
	}
}

func TestStoredStreamFromTheStartAndFromANumber(t *testing.T) {
	for query, want := range map[string]string{
		"?stream=true":                   golden,
		"?stream=true&starting_after=0":  golden[strings.Index(golden, "event: response.in_progress"):],
		"?stream=true&starting_after=1":  golden[strings.Index(golden, "event: response.completed"):],
		"?stream=true&starting_after=99": "data: [DONE]\n\n",
	} {
		// openai-go asks for a stream in a body.
		for query, said := range map[string]string{query: "", strings.Replace(query, "stream=true", "", 1): `{"stream":true}`} {
			h := open(t, time.Minute)
			run := newRun()
			for n, typ := range []string{"response.created", "response.in_progress", "response.completed"} {
				run.play(int64(n), typ)
			}
			close(run.frames)
			h.responses.runs["resp_1"] = run
			if _, body := h.do(t, "GET", "/v1/responses/resp_1"+query, []byte(said), nil); body != want {
				t.Errorf("%s %s:\n%s\nwant\n%s", query, said, body, want)
			}
		}
	}
}

// connect opens a stream and returns its body; hanging up cancels.
func (h *house) connect(t *testing.T, method, path, body string) (*http.Response, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, h.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+keyOne)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res, cancel
}

func TestSilenceIsFilledFromTheFirstByte(t *testing.T) {
	h := open(t, 20*time.Millisecond)
	run := newRun()
	h.agent.run = run
	// The run has nothing to say yet: headers must come all the same, then comments.
	res, _ := h.connect(t, "POST", "/v1/responses", `{"model":"m","stream":true}`)
	lines := bufio.NewScanner(res.Body)
	for n := 0; n < 3; {
		if !lines.Scan() {
			t.Fatalf("the stream ended after %d keepalives: %v", n, lines.Err())
		}
		switch lines.Text() {
		case ": keepalive":
			n++
		case "":
		default:
			t.Fatalf("in silence came %q", lines.Text())
		}
	}
	run.play(0, "response.created")
	run.play(1, "response.completed")
	close(run.frames)
	var rest []string
	for lines.Scan() {
		if text := lines.Text(); text != "" && text != ": keepalive" {
			rest = append(rest, text)
		}
	}
	if got, want := strings.Join(rest, "\n"), `event: response.created
data: {"type":"response.created","sequence_number":0,"note":"<ü>"}
event: response.completed
data: {"type":"response.completed","sequence_number":1,"note":"<ü>"}
data: [DONE]`; got != want {
		t.Errorf("after the silence:\n%s\nwant\n%s", got, want)
	}
}

func TestClientThatHangsUpCancelsItsRun(t *testing.T) {
	t.Run("stream", func(t *testing.T) {
		h := open(t, time.Minute)
		h.agent.run = newRun()
		h.agent.run.play(0, "response.created")
		_, hangUp := h.connect(t, "POST", "/v1/responses", `{"model":"m","stream":true}`)
		hangUp()
		awaitCancel(t, h.agent.run)
	})
	t.Run("no stream", func(t *testing.T) {
		h := open(t, time.Minute)
		h.agent.run = newRun()
		ctx, hangUp := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "POST", h.url+"/v1/responses", strings.NewReader(`{"model":"m"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+keyOne)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if res, err := http.DefaultClient.Do(req); err == nil {
				res.Body.Close()
				t.Error("an answer came before the run ended")
			}
		}()
		h.agent.run.play(0, "taken") // the channel is read only once the door waits
		for deadline := time.Now().Add(patient); len(h.agent.run.frames) > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the request never reached the run")
			}
		}
		hangUp()
		awaitCancel(t, h.agent.run)
		<-done
	})
}

func awaitCancel(t *testing.T, run *fakeRun) {
	t.Helper()
	start := time.Now()
	select {
	case <-run.cancelled:
		t.Logf("cancelled %v after the client was gone", time.Since(start).Round(time.Microsecond))
	case <-time.After(patient):
		t.Fatal("the run goes on without its client")
	}
}

func TestReaderThatHangsUpCancelsNothing(t *testing.T) {
	h := open(t, 5*time.Millisecond)
	run := newRun()
	h.responses.runs["resp_1"] = run
	run.play(0, "response.created")
	_, hangUp := h.connect(t, "GET", "/v1/responses/resp_1?stream=true", "")
	hangUp()
	// A second reader proves that the run lives on; by its end the first one's handler has long returned.
	res, _ := h.connect(t, "GET", "/v1/responses/resp_1?stream=true", "")
	run.play(1, "response.completed")
	close(run.frames)
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	select {
	case <-run.cancelled:
		t.Error("a reader that hung up cancelled the run")
	default:
	}
}

// TestStuckReaderIsCutOff opens a stream and never reads: the write deadline must end it and free the run.
func TestStuckReaderIsCutOff(t *testing.T) {
	h := openImpatient(t, time.Minute, 100*time.Millisecond)
	run := newRun()
	run.frames = make(chan []response.Frame)
	h.agent.run = run
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := `{"model":"m","stream":true}`
	fmt.Fprintf(conn, "POST /v1/responses HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
		strings.TrimPrefix(h.url, "http://"), keyOne, len(body), body)
	big := []response.Frame{{Type: "response.output_text.delta", Data: make([]byte, 1<<20)}}
	giveUp := time.After(patient)
	for sent := 0; ; sent++ {
		select {
		case run.frames <- big:
		case <-run.cancelled:
			t.Logf("cut off after %d MiB", sent)
			return
		case <-giveUp:
			t.Fatalf("a reader that is stuck holds its run, after %d MiB", sent)
		}
	}
}

// TestSlowBodyIsCutOff sends half a body and no more, as a stranger and as a client with a key.
func TestSlowBodyIsCutOff(t *testing.T) {
	for key, status := range map[string]int{keyOne: 400, "wrong": 401} {
		h := openImpatient(t, time.Minute, 100*time.Millisecond)
		conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /v1/responses HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\n{", strings.TrimPrefix(h.url, "http://"), key)
		conn.SetReadDeadline(time.Now().Add(patient))
		in := bufio.NewReader(conn)
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%d was due: %v", status, err)
		}
		if res.StatusCode != status {
			t.Errorf("%s, want %d", res.Status, status)
		}
		io.Copy(io.Discard, res.Body)
		if _, err := in.ReadByte(); err != io.EOF {
			t.Errorf("%d: the connection stays open: %v", status, err)
		}
	}
}

func TestFailureInMidStreamCutsIt(t *testing.T) {
	h := open(t, time.Minute)
	run := newRun()
	run.failure = fault.Wrap(fault.Unavailable, errBroken, "The log broke.")
	run.play(0, "response.created")
	h.agent.run = run
	res, _ := h.connect(t, "POST", "/v1/responses", `{"model":"m","stream":true}`)
	frames := sse.NewReader(res.Body)
	if e, err := frames.Next(); err != nil || e.Name != "response.created" {
		t.Fatalf("first event %q: %v", e.Name, err)
	}
	close(run.frames)
	e, err := frames.Next()
	var told struct {
		Type, Code string
		Number     int64 `json:"sequence_number"`
		Error      struct{ Code, Message string }
	}
	if err != nil || e.Name != "error" || json.Unmarshal(e.Data, &told) != nil || told.Type != "error" || told.Code != "unavailable" ||
		told.Error.Code != told.Code || !strings.Contains(told.Error.Message, "The log broke.") || told.Number != 0 || strings.Contains(string(e.Data), errBroken.Error()) {
		t.Errorf("a broken stream says %s: %s, %v", e.Name, e.Data, err)
	}
	if e, err := frames.Next(); err == nil || err == io.EOF {
		t.Errorf("a broken stream ended with %q, %v; want a visible cut", e.Name, err)
	}
	awaitCancel(t, run)
}

// writes records each write of a batch.
type writes struct {
	http.ResponseWriter
	sizes []int
}

func (w *writes) Flush() {}

func (w *writes) Write(p []byte) (int, error) { w.sizes = append(w.sizes, len(p)); return len(p), nil }

func TestBatchesStayBelowTheChunkThatReadersSplit(t *testing.T) {
	w := &writes{ResponseWriter: httptest.NewRecorder()}
	run := newRun()
	var batch []response.Frame
	for i := range 100 {
		batch = append(batch, response.Frame{Seq: int64(i), Type: "response.output_text.delta", Data: make([]byte, 900)})
	}
	batch = append(batch, response.Frame{Seq: 100, Type: "response.completed", Data: make([]byte, 40<<10)})
	run.frames <- batch
	close(run.frames)
	d := Door{Keepalive: time.Minute}
	if err := d.stream(w, httptest.NewRequest("GET", "/", nil), run.Subscribe(-1)); err != nil {
		t.Fatal(err)
	}
	for i, n := range w.sizes {
		if n > 16<<10 && i != len(w.sizes)-2 { // the frame that alone is larger comes before [DONE]
			t.Errorf("write %d of %d has %d bytes", i, len(w.sizes), n)
		}
	}
	if len(w.sizes) > 10 {
		t.Errorf("%d writes for 101 frames that were ready at once", len(w.sizes))
	}
}

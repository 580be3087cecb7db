package providertest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// FuzzStream holds that no event stream breaks the law or panics, that each ends the turn once, and that how its bytes
// come changes nothing. It begins with the bodies of testdata/answers/*.http; open is that of [Answers].
func FuzzStream(f *testing.F, open func(*http.Client) llm.Provider) {
	FuzzFramed(f, "testdata/answers/*.http", "text/event-stream", func(body []byte) []byte { return body }, open)
}

// FuzzFramed is FuzzStream for a framing whose sums no fuzzer guesses: encode makes a stream of the given media type out
// of what files hold behind their first empty line.
func FuzzFramed(f *testing.F, files, mediaType string, encode func([]byte) []byte, open func(*http.Client) llm.Provider) {
	names, _ := filepath.Glob(files)
	if len(names) == 0 {
		f.Fatalf("no files %s", files)
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		_, body, ok := bytes.Cut(raw, []byte("\r\n\r\n"))
		if !ok {
			_, body, _ = bytes.Cut(raw, []byte("\n\n"))
		}
		f.Add(body)
	}
	head := []byte("HTTP/1.1 200 OK\r\nContent-Type: " + mediaType + "\r\n\r\n")
	f.Fuzz(func(t *testing.T, body []byte) {
		raw := append(bytes.Clone(head), encode(body)...)
		var said [2]string
		for i, split := range []Split{Splits[0], OneByte} {
			a := Collect(t, t.Context(), open(Recorded(raw, split.How)), llm.Request{Model: "m", Items: []openai.Item{openai.UserText("a")}})
			if a.Err != nil {
				if _, ok := fault.As(a.Err); !ok {
					t.Errorf("the turn ends with what is no fault: %v", a.Err)
				}
			} else if a.Final == nil {
				t.Error("the turn has no end")
			}
			said[i] = Dump(Together(a.Events))
		}
		if said[0] != said[1] {
			t.Errorf("the split changes the events:\n%s\n%s", said[0], said[1])
		}
	})
}

// FuzzRequest holds that every request is translated or refused: what body makes of it is JSON, or a fault that says 400
// (but for a shell item, which is a defect of ours), and the same each time. It begins with testdata/requests.
func FuzzRequest(f *testing.F, seal string, body func(llm.Request) ([]byte, error)) {
	names, _ := filepath.Glob("testdata/requests/*.in.json")
	if len(names) == 0 {
		f.Fatal("no files testdata/requests/*.in.json")
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var c requestCase
		if json.Unmarshal(raw, &c) != nil {
			return // the door reads requests, and refuses such a one
		}
		r := c.request(seal)
		got, err := body(r)
		if why := answered(r, got, err, nil); why != nil {
			t.Error(why)
		}
		again, err2 := body(r)
		if !bytes.Equal(got, again) || (err == nil) != (err2 == nil) {
			t.Errorf("another time it becomes another one:\n%s %v\n%s %v", got, err, again, err2)
		}
	})
}

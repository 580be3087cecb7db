package chat

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func say(words ...string) string {
	var b strings.Builder
	for _, w := range words {
		fmt.Fprintf(&b, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", w)
	}
	return b.String()
}

const stopChunk = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"

// Text that comes together is one delta, whatever stands around it; its order and its bytes stay.
func TestDeltasThatComeTogether(t *testing.T) {
	long := strings.Repeat("x", 1500)
	call := "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}}]}\n\n"
	think := "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n"
	tests := []struct {
		name, in string
		want     []string // deltas of text
	}{
		{"all at once", say("a", "b", "c") + stopChunk, []string{"abc"}},
		{"a comment between", say("a") + ": hi\n\n" + say("b") + stopChunk, []string{"a", "b"}},
		{"a name before the data", say("a") + "event: message\n" + say("b") + stopChunk, []string{"ab"}},
		{"an id before the data", say("a") + "id: 1\n" + say("b") + stopChunk, []string{"a", "b"}},
		{"an empty frame between", say("a") + "data:\n\n" + say("b") + stopChunk, []string{"a", "b"}},
		{"an escape that takes the slow way", say("a") + "data: {\"choices\":[{\"delta\":{\"content\":\"\\u00e9\"}}]}\n\n" + say("b") + stopChunk, []string{"a", "é", "b"}},
		{"thoughts between", say("a") + think + say("b") + stopChunk, []string{"a", "b"}},
		{"a call behind", say("a", "b") + call + stopChunk, []string{"ab"}},
		{"long ones are not put together without end", say(long, long, long) + stopChunk, []string{long + long, long}},
		{"the end of the stream", say("a", "b"), []string{"ab"}},
		{"an error behind", say("a", "b") + "data: {\"error\":{\"message\":\"no\"}}\n\n", []string{"ab"}},
	}
	for _, tt := range tests {
		for _, how := range []struct {
			name string
			read func(io.Reader) io.Reader
			one  bool // a read gives more than a frame
		}{
			{"whole", func(r io.Reader) io.Reader { return r }, true},
			{"byte by byte", iotest.OneByteReader, false},
		} {
			t.Run(tt.name+"/"+how.name, func(t *testing.T) {
				p := New(Options{Options: upstream.Options{Name: "t", BaseURL: "http://upstream.example", MaxTries: 1,
					Client: providertest.Streamed(tt.in, how.read)}})
				a := providertest.Collect(t, t.Context(), p, providertest.Hello())
				var got []string
				for _, ev := range a.Events {
					if d, ok := ev.(*openai.DeltaEvent); ok && d.Type == openai.EventTextDelta {
						got = append(got, d.Delta)
					}
				}
				if how.one && !slices.Equal(got, tt.want) {
					t.Errorf("deltas %.40q, want %.40q", got, tt.want)
				}
				if strings.Join(got, "") != strings.Join(tt.want, "") {
					t.Errorf("text %.40q, want %.40q", got, tt.want)
				}
			})
		}
	}
}

// A delta is said when nothing more has come, however long the next one takes, also when half of it or a comment is there.
func TestADeltaThatComesAloneIsNotHeld(t *testing.T) {
	for name, tail := range map[string]string{"alone": "", "before a comment": ": keepalive\n\n", "before half a frame": "data: {\"choi",
		"before a name": "event: x\n\n"} {
		t.Run(name, func(t *testing.T) {
			heard := make(chan struct{})
			p := serve(t, upstream.Options{}, func(w http.ResponseWriter, r *http.Request) {
				providertest.WriteStream(w, say("a")+tail)
				select {
				case <-heard:
				case <-r.Context().Done():
					return
				case <-time.After(20 * time.Second):
					t.Error("the delta was held back")
				}
				providertest.WriteStream(w, "\n\n"+say("b")+stopChunk)
			})
			var text strings.Builder
			for ev, err := range p.Stream(t.Context(), providertest.Hello()) {
				if err != nil {
					if name == "before half a frame" {
						break // that frame was never made whole
					}
					t.Fatal(err)
				}
				if d, ok := ev.(*openai.DeltaEvent); ok {
					if text.WriteString(d.Delta); text.String() == "a" {
						close(heard)
					}
				}
			}
			if name != "before half a frame" && text.String() != "ab" {
				t.Errorf("text %q", text.String())
			}
		})
	}
}

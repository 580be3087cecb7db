package openai

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hardshell-dev/hardshell/internal/response"
)

// packets records what was written and when, in milliseconds of the bubble's clock.
type packets struct {
	http.ResponseWriter
	start time.Time
	seen  []string
}

func (p *packets) Flush() {}

func (p *packets) Write(b []byte) (int, error) {
	var names []string
	for line := range strings.Lines(string(b)) {
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			names = append(names, strings.TrimSpace(name))
		} else if strings.HasPrefix(line, ": ") || strings.HasPrefix(line, "data: [") {
			names = append(names, strings.TrimSpace(line))
		}
	}
	p.seen = append(p.seen, fmt.Sprintf("%g %s", float64(time.Since(p.start).Microseconds())/1000, strings.Join(names, " ")))
	return len(b), nil
}

func TestWhatSharesAPacket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &packets{ResponseWriter: httptest.NewRecorder(), start: time.Now()}
		e := &eventWriter{w: p, rc: http.NewResponseController(p), every: 10 * time.Second}
		e.begin()
		at := func(d time.Duration, types ...string) {
			time.Sleep(time.Until(p.start.Add(d)))
			var frames []response.Frame
			for _, typ := range types {
				frames = append(frames, response.Frame{Type: typ, Data: []byte("{}")})
			}
			if err := e.write(frames); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		const ms = time.Millisecond
		at(0, "response.created", "response.in_progress")
		at(ms/2, "one")    // takes the opening words along, at once
		at(ms*6/10, "two") // follows within a millisecond: held
		at(ms*7/10, "three")
		at(50*ms, "four") // alone: at once
		at(51*ms, "five") // a millisecond later: at once
		time.Sleep(time.Until(p.start.Add(20 * time.Second)))
		synctest.Wait()
		at(20*time.Second, "six")
		at(20*time.Second, "seven")
		if err := e.finish("data: [DONE]\n\n"); err != nil {
			t.Fatal(err)
		}
		e.end()
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{
			"0.5 response.created response.in_progress one",
			"1 two three", // by the timer that the opening words had set: early is fine, late is not
			"50 four",
			"51 five",
			"10051 : keepalive",
			"20000 six",
			"20000 seven data: [DONE]",
		}; !slices.Equal(p.seen, want) {
			t.Errorf("packets:\n%s\nwant\n%s", strings.Join(p.seen, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestOpeningWordsGoAloneWhenNothingFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &packets{ResponseWriter: httptest.NewRecorder(), start: time.Now()}
		e := &eventWriter{w: p, rc: http.NewResponseController(p), every: 10 * time.Second}
		e.begin()
		if err := e.write([]response.Frame{{Type: "response.created", Data: []byte("{}")}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		e.end()
		if want := []string{"1 response.created"}; !slices.Equal(p.seen, want) {
			t.Errorf("packets %q, want %q", p.seen, want)
		}
	})
}

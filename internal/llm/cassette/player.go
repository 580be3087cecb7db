package cassette

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"time"
)

// maxBody bounds the body of a request that is played to.
const maxBody = 64 << 20

// PlayOptions says how a cassette is played. The zero value plays at once, piece by piece as the file has it.
type PlayOptions struct {
	Split uint64  // not 0: the pieces are cut at random places of this seed instead
	Speed float64 // 1: with the waits of the file, 2: twice as fast; 0: without

	// Played is told of each request and the exchange that answers it, -1 for none. nil: nobody is.
	Played func(r *http.Request, exchange int)
}

// Player answers requests out of a cassette. It is safe for many at once.
//
// A request is answered by an exchange of its method whose path its own ends with; a placeholder of the scrubber stands
// for any part of a path. An exchange with contains or lacks answers each request whose body they fit, the first one that
// fits each time, and comes before those without. The others go by the recorded body: an equal one, else, since a
// conversation carries ids and times, the first that was not played yet. A question that is asked again gets its answer
// again, but one that was no success is followed by what was recorded behind it.
type Player struct {
	cassette *Cassette
	o        PlayOptions
	paths    []*regexp.Regexp
	bodies   []any

	mu     sync.Mutex
	played []bool
	last   map[string]int // the exchange that answered a body
	asked  uint64
}

// NewPlayer makes a player.
func NewPlayer(c *Cassette, o PlayOptions) *Player {
	p := &Player{cassette: c, o: o, played: make([]bool, len(c.Exchanges)), last: map[string]int{}}
	for _, x := range c.Exchanges {
		p.paths = append(p.paths, pathPattern(x.Request.Path))
		var body any
		if len(x.Request.Body) > 0 {
			_ = json.Unmarshal(x.Request.Body, &body) // it was read as JSON before
		}
		p.bodies = append(p.bodies, body)
	}
	return p
}

// placeholders are what the scrubber wrote, as quoted in an expression.
var placeholders = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`scrubbed-[a-z]+-[0-9]+`) })

func pathPattern(path string) *regexp.Regexp {
	return regexp.MustCompile(placeholders().ReplaceAllString(regexp.QuoteMeta(path), `[^/]+`) + "$")
}

// choose finds the exchange that answers, -1 if none does.
func (p *Player) choose(method, path string, body []byte) int {
	var fits []int
	for i, x := range p.cassette.Exchanges {
		if x.Request.Method != method || !p.paths[i].MatchString(path) {
			continue
		}
		if len(x.Request.Contains)+len(x.Request.Lacks) == 0 {
			fits = append(fits, i)
		} else if x.Request.fits(body) {
			return i
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	question := method + " " + path + "\n" + string(body)
	before, again := p.last[question]
	if again && p.cassette.Exchanges[before].succeeded() {
		return before
	}
	chosen := -1
	var value any
	if json.Unmarshal(body, &value) == nil {
		for _, i := range fits {
			if !p.played[i] && p.bodies[i] != nil && reflect.DeepEqual(value, p.bodies[i]) {
				chosen = i
				break
			}
		}
	}
	for _, i := range fits {
		if chosen < 0 && !p.played[i] {
			chosen = i
		}
	}
	if chosen < 0 && again {
		chosen = before
	}
	if chosen >= 0 {
		p.played[chosen], p.last[question] = true, chosen
	}
	return chosen
}

func (r Request) fits(body []byte) bool {
	for _, s := range r.Contains {
		if !bytes.Contains(body, []byte(s)) {
			return false
		}
	}
	for _, s := range r.Lacks {
		if bytes.Contains(body, []byte(s)) {
			return false
		}
	}
	return true
}

// succeeded says that nobody has a reason to ask again.
func (x Exchange) succeeded() bool { return x.Status < 400 && x.End == Complete }

// ServeHTTP implements [http.Handler].
func (p *Player) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, "the request cannot be read: "+err.Error())
		return
	}
	i := p.choose(r.Method, r.URL.EscapedPath(), body)
	if p.o.Played != nil {
		p.o.Played(r, i)
	}
	if i < 0 {
		refuse(w, http.StatusNotFound, fmt.Sprintf("the cassette holds no answer to %s %s", r.Method, r.URL.Path))
		return
	}
	x := p.cassette.Exchanges[i]
	for name, value := range x.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(x.Status)
	flush := http.NewResponseController(w)
	_ = flush.Flush() // who cannot flush sends all the same
	for _, piece := range p.cut(x.Pieces) {
		if !p.wait(r.Context(), piece.After) {
			return
		}
		if _, err := w.Write(piece.Data); err != nil {
			return // nobody listens
		}
		_ = flush.Flush()
	}
	if x.End != Complete {
		panic(http.ErrAbortHandler) // what net/http breaks a connection off by
	}
}

// refuse answers in the shape that every dialect's client finds a message in.
func refuse(w http.ResponseWriter, status int, message string) {
	raw, err := json.Marshal(map[string]any{"error": map[string]string{"message": message, "type": "cassette", "code": "cassette"}})
	if err != nil {
		raw = []byte("{}")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(raw, '\n'))
}

// wait waits as long as the file says, at the chosen speed. It says false when nobody listens any more.
func (p *Player) wait(ctx context.Context, d time.Duration) bool {
	if p.o.Speed <= 0 || d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(time.Duration(float64(d) / p.o.Speed))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// maxCut bounds a piece of random length, in bytes: often within a line, sometimes within a character.
const maxCut = 97

// cut splits the pieces where the seed says. The n-th request is always cut the same.
func (p *Player) cut(pieces []Piece) []Piece {
	if p.o.Split == 0 {
		return pieces
	}
	p.mu.Lock()
	p.asked++
	random := rand.New(rand.NewPCG(p.o.Split, p.asked))
	p.mu.Unlock()
	body := Exchange{Pieces: pieces}.Body()
	var out []Piece
	for len(body) > 0 {
		n := min(1+random.IntN(maxCut), len(body))
		out, body = append(out, Piece{Data: body[:n]}), body[n:]
	}
	return out
}

// Describe is one line for people: what is asked, and how it is answered.
func (x Exchange) Describe() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s: %d, %d bytes, %s", x.Request.Method, x.Request.Path, x.Status, len(x.Body()), x.End))
}

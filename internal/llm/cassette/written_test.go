package cassette_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/anthropic"
	"github.com/hardshell-dev/hardshell/internal/llm/bedrock"
	"github.com/hardshell-dev/hardshell/internal/llm/cassette"
	"github.com/hardshell-dev/hardshell/internal/llm/chat"
	"github.com/hardshell-dev/hardshell/internal/llm/gemini"
	"github.com/hardshell-dev/hardshell/internal/llm/openai"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// dialects are the cassettes of this room, each with the provider that reads it.
var dialects = map[string]func(upstream.Options) llm.Provider{
	"openai":    func(o upstream.Options) llm.Provider { return openai.New(openai.Options{Options: o}) },
	"chat":      func(o upstream.Options) llm.Provider { return chat.New(chat.Options{Options: o}) },
	"anthropic": func(o upstream.Options) llm.Provider { return anthropic.New(anthropic.Options{Options: o}) },
	"bedrock": func(o upstream.Options) llm.Provider {
		return bedrock.New(bedrock.Options{Options: o, Region: "eu-central-1"})
	},
	"gemini": func(o upstream.Options) llm.Provider { return gemini.New(gemini.Options{Options: o}) },
}

func read(t testing.TB, dialect string) *cassette.Cassette {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + dialect + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	c, err := cassette.Parse(raw)
	if err != nil {
		t.Fatalf("%s: %v", dialect, err)
	}
	return c
}

// No cassette that was not recorded passes for one, and each has its dialect's test below.
func TestEachCassetteSaysWhereItComesFrom(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) != len(dialects) {
		t.Fatalf("%d cassettes, %d dialects, %v", len(files), len(dialects), err)
	}
	for _, file := range files {
		dialect := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		c := read(t, dialect)
		if dialects[dialect] == nil {
			t.Errorf("%s is of no dialect", file)
		}
		if c.Head.Origin != cassette.Written || c.Head.About == "" || c.Torn {
			t.Errorf("%s: origin %q, about %q, torn %v", file, c.Head.Origin, c.Head.About, c.Torn)
		}
		for _, source := range c.Head.Sources {
			if !strings.HasPrefix(source, "https://") {
				t.Errorf("%s: the source %q is no address", file, source)
			}
		}
	}
}

// fiveTurns is the run that every cassette of this room holds: what the model says and calls in each turn.
var fiveTurns = []string{
	`reasoning "I should look first. "; message "Two things to see."; function_call shell {"commands":["one"]}`,
	`function_call shell {"commands":["two"]}; function_call shell {"commands":["three"]}`,
	`message "The third failed: I repair it."; function_call shell {"commands":["repair"]}`,
	`function_call shell {"commands":["verify"]}`,
	`message "All is well: \"ümläuts\", 漢字 and 🦀.\nThat was out-one to out-verify."`,
}

// said is a turn's items as fiveTurns has them.
func said(t testing.TB, dialect string, a providertest.Answer) string {
	t.Helper()
	var all []string
	for _, item := range a.Items {
		switch item.Type {
		case wire.TypeReasoning:
			if shown := (providertest.Answer{Items: []wire.Item{item}}).Thinking(); shown != "" {
				all = append(all, fmt.Sprintf("reasoning %q", shown))
			} else if dialect != "gemini" { // whose signature of a call has an item of its own, under seal
				t.Error("a reasoning item that shows nothing")
			}
		case wire.TypeMessage:
			all = append(all, fmt.Sprintf("message %q", (providertest.Answer{Items: []wire.Item{item}}).Text()))
		case wire.TypeFunctionCall:
			var f wire.FunctionCall
			var arguments bytes.Buffer
			if err := item.Decode(&f); err != nil {
				t.Fatal(err)
			}
			if err := json.Compact(&arguments, []byte(f.Arguments)); err != nil {
				t.Fatalf("arguments %q: %v", f.Arguments, err)
			}
			all = append(all, "function_call "+f.Name+" "+arguments.String())
		default:
			t.Errorf("an item of type %s", item.Type)
		}
	}
	return strings.Join(all, "; ")
}

// begin is the first question of the run.
func begin() llm.Request {
	return llm.Request{Model: "m", Instructions: "Be exact.", Items: []wire.Item{wire.UserText("go")}, Tools: []wire.Tool{providertest.Shell}, Shell: "shell"}
}

// reply adds what the model said, and what its commands printed.
func reply(t testing.TB, r *llm.Request, a providertest.Answer) {
	t.Helper()
	r.Items = append(r.Items, a.Items...)
	for _, c := range a.Calls() {
		var asked struct{ Commands []string }
		if err := json.Unmarshal([]byte(c.Arguments), &asked); err != nil || len(asked.Commands) != 1 {
			t.Fatalf("arguments %q: %v", c.Arguments, err)
		}
		code := 0
		if asked.Commands[0] == "three" {
			code = 3
		}
		r.Items = append(r.Items, wire.NewItem(wire.FunctionCallOutput{Type: wire.TypeFunctionCallOutput, CallID: c.CallID,
			Output: wire.OutputText(fmt.Sprintf(`{"command":%q,"stdout":"out-%s\n","stderr":"","exit_code":%d}`, asked.Commands[0], asked.Commands[0], code))}))
	}
}

// Every dialect's cassette, cut anywhere, gives the same items by its real provider over HTTP.
func TestTheSameItemsInEveryDialect(t *testing.T) {
	for dialect, open := range dialects {
		t.Run(dialect, func(t *testing.T) {
			c := read(t, dialect)
			for _, seed := range []uint64{0, 1, 2, 3, 4, 5} {
				var fits []int
				player := cassette.NewPlayer(c, cassette.PlayOptions{Split: seed, Played: func(_ *http.Request, i int) { fits = append(fits, i) }})
				p := open(upstream.Options{Name: dialect, BaseURL: providertest.Serve(t, player), APIKey: "sk-test", MaxTries: 1})
				r := begin()
				for n, want := range fiveTurns {
					a := providertest.Collect(t, t.Context(), p, r)
					if a.Err != nil || a.Final == nil || a.Final.Status != wire.Completed {
						t.Fatalf("seed %d, turn %d: %v", seed, n+1, a.Err)
					}
					if got := said(t, dialect, a); got != want {
						t.Fatalf("seed %d, turn %d:\n got %s\nwant %s", seed, n+1, got, want)
					}
					u := a.Final.Usage
					if u == nil || u.InputTokens != int64(100+10*n) || u.OutputTokens != int64(20+n) || u.InputTokensDetails.CachedTokens != 40 {
						t.Errorf("seed %d, turn %d: usage %+v", seed, n+1, u)
					}
					reply(t, &r, a)
				}
				if !slices.Equal(fits, []int{0, 1, 2, 3, 4}) {
					t.Errorf("seed %d: played %v", seed, fits)
				}
			}
		})
	}
}

// What is played is what stands in the file, to the byte, however it is cut.
func TestPlayedByteForByte(t *testing.T) {
	for dialect := range dialects {
		c := read(t, dialect)
		for _, seed := range []uint64{0, 7} {
			url := providertest.Serve(t, cassette.NewPlayer(c, cassette.PlayOptions{Split: seed}))
			res, err := http.Post(url+c.Exchanges[0].Request.Path, "application/json", strings.NewReader(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || !bytes.Equal(body, c.Exchanges[0].Body()) || res.Header.Get("Content-Type") != c.Exchanges[0].Headers["Content-Type"] {
				t.Errorf("%s, seed %d: %d bytes of %d, %q, %v", dialect, seed, len(body), len(c.Exchanges[0].Body()), res.Header.Get("Content-Type"), err)
			}
		}
	}
}

// A cassette that is written is the one that was read.
func TestWrittenAndReadAgain(t *testing.T) {
	for dialect := range dialects {
		c := read(t, dialect)
		raw, err := c.Head.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range c.Exchanges {
			if raw, err = x.Append(raw); err != nil {
				t.Fatal(err)
			}
		}
		again, err := cassette.Parse(raw)
		if err != nil || len(again.Exchanges) != len(c.Exchanges) {
			t.Fatalf("%s: %v", dialect, err)
		}
		for i := range c.Exchanges {
			if !bytes.Equal(again.Exchanges[i].Body(), c.Exchanges[i].Body()) || len(again.Exchanges[i].Pieces) != len(c.Exchanges[i].Pieces) {
				t.Errorf("%s: exchange %d differs", dialect, i)
			}
		}
	}
}

package agent

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/anthropic"
	"github.com/hardshell-dev/hardshell/internal/llm/bedrock"
	"github.com/hardshell-dev/hardshell/internal/llm/cassette"
	"github.com/hardshell-dev/hardshell/internal/llm/chaos"
	"github.com/hardshell-dev/hardshell/internal/llm/chat"
	"github.com/hardshell-dev/hardshell/internal/llm/gemini"
	responsesapi "github.com/hardshell-dev/hardshell/internal/llm/openai"
	upstreamhttp "github.com/hardshell-dev/hardshell/internal/llm/upstream"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// chaotic are providers by a request's prompt_cache_key: each has a server of its own, whose seed that is.
type chaotic map[string]llm.Provider

func (c chaotic) Models(context.Context) ([]openai.Model, error) { return nil, nil }

func (c chaotic) Stream(ctx context.Context, r llm.Request) iter.Seq2[openai.Event, error] {
	p := c[r.PromptCacheKey]
	r.PromptCacheKey = ""
	return p.Stream(ctx, r)
}

// chaosSeeds is how many runs of each dialect are under way at once.
const chaosSeeds = 12

// A run of five turns over HTTP, through each dialect's provider, on an upstream that misbehaves: it ends once, what it
// says it did it did, and no command is run twice.
func TestNoCommandIsRunTwiceUnderChaos(t *testing.T) {
	open := map[string]func(upstreamhttp.Options) llm.Provider{
		"openai": func(o upstreamhttp.Options) llm.Provider {
			return responsesapi.New(responsesapi.Options{Options: o})
		},
		"chat":      func(o upstreamhttp.Options) llm.Provider { return chat.New(chat.Options{Options: o}) },
		"anthropic": func(o upstreamhttp.Options) llm.Provider { return anthropic.New(anthropic.Options{Options: o}) },
		"bedrock": func(o upstreamhttp.Options) llm.Provider {
			return bedrock.New(bedrock.Options{Options: o, Region: "eu-central-1"})
		},
		"gemini": func(o upstreamhttp.Options) llm.Provider { return gemini.New(gemini.Options{Options: o}) },
	}
	for dialect, provider := range open {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel() // it waits more than it works
			raw, err := os.ReadFile("../llm/cassette/testdata/" + dialect + ".jsonl")
			if err != nil {
				t.Fatal(err)
			}
			tape, err := cassette.Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			g, models := newGround(t), chaotic{}
			g.model = models
			for _, command := range []string{"one", "two", "three", "repair", "verify"} {
				g.scripts[command] = script{deltas: []container.Delta{{Stdout: "out-" + command + "\n"}}}
			}
			for seed := range uint64(chaosSeeds) {
				server := httptest.NewServer(chaos.New(cassette.NewPlayer(tape, cassette.PlayOptions{Split: seed}), chaos.Options{Seed: seed, MaxDelay: 5 * time.Millisecond}))
				defer server.Close()
				models[fmt.Sprint(seed)] = provider(upstreamhttp.Options{Name: dialect, BaseURL: server.URL, APIKey: "sk-test", MaxRetryWait: time.Minute,
					Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
			}
			h := newHouse(t, g)
			var begun []started
			for seed := range chaosSeeds {
				begun = append(begun, h.play(t, strings.Replace(plainQuestion, `"model"`, fmt.Sprintf(`"prompt_cache_key":"%d","model"`, seed), 1)))
			}
			called, completed, failed := map[string]int{}, 0, 0
			for seed, r := range begun {
				log, resp := h.await(r.id)
				checkLog(t, log)
				commands := map[string]int{}
				for _, item := range resp.Output {
					var c openai.ShellCall
					if item.Type == openai.TypeShellCall && item.Decode(&c) == nil {
						for _, command := range c.Action.Commands {
							commands[command]++
							called[command]++
						}
					}
				}
				for command, n := range commands {
					if n != 1 {
						t.Errorf("seed %d: %s was called %d times", seed, command, n)
					}
				}
				switch {
				case resp.Status == openai.Completed && len(commands) == len(g.scripts):
					completed++
				case resp.Status == openai.Failed && resp.Error != nil:
					failed++
				default:
					t.Errorf("seed %d: %s, %+v, commands %v", seed, resp.Status, resp.Error, commands)
				}
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			for command, n := range g.starts {
				if n > called[command] {
					t.Errorf("%s was started %d times, and called %d times", command, n, called[command])
				}
			}
			if completed == 0 || failed == 0 {
				t.Errorf("%d completed, %d failed: no chaos", completed, failed)
			}
		})
	}
}

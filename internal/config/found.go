package config

import (
	"context"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// probeTime bounds the look for a local server. Starting never waits longer for one that is not there.
const probeTime = 200 * time.Millisecond

// known are upstreams that speak Chat Completions and whose key has a customary variable.
var known = []struct{ name, variable, baseURL string }{
	{"openrouter", "OPENROUTER_API_KEY", "https://openrouter.ai/api/v1"},
	{"groq", "GROQ_API_KEY", "https://api.groq.com/openai/v1"},
	{"mistral", "MISTRAL_API_KEY", "https://api.mistral.ai/v1"},
	{"deepseek", "DEEPSEEK_API_KEY", "https://api.deepseek.com/v1"},
	{"together", "TOGETHER_API_KEY", "https://api.together.xyz/v1"},
	{"fireworks", "FIREWORKS_API_KEY", "https://api.fireworks.ai/inference/v1"},
	{"cerebras", "CEREBRAS_API_KEY", "https://api.cerebras.ai/v1"},
	{"xai", "XAI_API_KEY", "https://api.x.ai/v1"},
}

// WithFound adds the providers that can be used without configuration: those whose key is in the environment, an
// Ollama on its usual port of this machine, and the built-in scripted one. A configured provider of the same name
// stays as it is.
func WithFound(ctx context.Context, c Config, environ []string) Config {
	s := Source{Environ: environ}
	providers := map[string]Provider{ProviderScripted: {Type: ProviderScripted, Origin: "built in"}}
	for _, k := range known {
		if key := strings.TrimSpace(s.getenv(k.variable)); key != "" {
			providers[k.name] = Provider{Type: ProviderChat, BaseURL: k.baseURL, APIKey: NewSecret(key), Origin: "from " + k.variable}
		}
	}
	if key := strings.TrimSpace(s.getenv("OPENAI_API_KEY")); key != "" {
		providers["openai"] = Provider{Type: ProviderOpenAI, APIKey: NewSecret(key), Origin: "from OPENAI_API_KEY"}
	}
	if key := strings.TrimSpace(s.getenv("ANTHROPIC_API_KEY")); key != "" {
		providers["anthropic"] = Provider{Type: ProviderAnthropic, APIKey: NewSecret(key), Origin: "from ANTHROPIC_API_KEY"}
		if base := strings.TrimSpace(s.getenv("ANTHROPIC_BASE_URL")); base != "" && checkURL(base) == nil {
			p := providers["anthropic"]
			p.BaseURL = base
			providers["anthropic"] = p
		}
	}
	if key := strings.TrimSpace(s.getenv("AWS_BEARER_TOKEN_BEDROCK")); key != "" {
		providers["bedrock"] = Provider{Type: ProviderBedrock, APIKey: NewSecret(key), Origin: "from AWS_BEARER_TOKEN_BEDROCK"}
	}
	for _, variable := range []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"} { // the latter wins, as with Google's own tools
		if key := strings.TrimSpace(s.getenv(variable)); key != "" {
			providers["gemini"] = Provider{Type: ProviderGemini, APIKey: NewSecret(key), Origin: "from " + variable}
		}
	}
	if base := strings.TrimRight(strings.TrimSpace(s.getenv("OPENAI_BASE_URL")), "/"); base != "" && checkURL(base) == nil {
		p := providers["openai"]
		if p.Origin == "" {
			p.Origin = "from OPENAI_BASE_URL"
		}
		p.Type, p.BaseURL = ProviderChat, base
		providers["openai"] = p
	}
	if _, configured := c.Providers["ollama"]; !configured {
		if base, ok := ollama(ctx, s.getenv("OLLAMA_HOST")); ok {
			providers["ollama"] = Provider{Type: ProviderChat, BaseURL: base, Origin: "on " + strings.TrimPrefix(strings.TrimSuffix(base, "/v1"), "http://")}
		}
	}
	maps.Copy(providers, c.Providers)
	c.Providers = providers
	return c
}

// ProviderNames lists the providers, the built-in one last.
func (c Config) ProviderNames() []string {
	names := slices.Sorted(maps.Keys(c.Providers))
	slices.SortStableFunc(names, func(a, b string) int { return rank(c.Providers[a]) - rank(c.Providers[b]) })
	return names
}

func rank(p Provider) int {
	if p.Type == ProviderScripted {
		return 1
	}
	return 0
}

// ollama asks the usual port whether an Ollama answers. OLLAMA_HOST is honoured as Ollama's own client reads it; an
// address to listen on everywhere means this machine.
func ollama(ctx context.Context, host string) (string, bool) {
	host = strings.TrimRight(strings.TrimPrefix(strings.TrimSpace(host), "http://"), "/")
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = host, "11434"
	}
	if name == "" || name == "0.0.0.0" || name == "::" {
		name = "127.0.0.1"
	}
	base := "http://" + net.JoinHostPort(name, port)
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/api/version", nil)
	if err != nil {
		return "", false
	}
	transport := &http.Transport{DisableKeepAlives: true} // no proxy: it is this machine, or a named one
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return "", false
	}
	answer.Body.Close()
	return base + "/v1", answer.StatusCode == http.StatusOK
}

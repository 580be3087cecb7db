package config

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
)

// Provider is one upstream of models, under the name that stands before the slash of "provider/model".
type Provider struct {
	// Type is the dialect: chat (any Chat Completions server; also when there is only a base_url), openai (the Responses
	// API, OpenAI's or Azure's), anthropic (the Messages API), bedrock (Amazon's Converse), gemini (Google's, by
	// the Gemini API or Vertex AI) or scripted (built in, no model
	// at all).
	Type string `toml:"type"`
	// BaseURL is the root of the API, with its version: https://api.openai.com/v1. Empty means the vendor's own, except
	// of chat, which has none.
	BaseURL string `toml:"base_url"`
	// APIKey is sent as the dialect has it: as a bearer token or in a header of its own. Write env:NAME or file:PATH.
	APIKey Secret `toml:"api_key"`
	// Models are the models to offer. Empty asks the provider for its list.
	Models []string `toml:"models"`
	// Headers are sent with every request. Values may be env:NAME or file:PATH.
	Headers map[string]Secret `toml:"headers"`
	// MaxTokensField is the name of the output limit of chat: max_completion_tokens or max_tokens. Empty means what the
	// provider's host is known to take.
	MaxTokensField string `toml:"max_tokens_field"`
	// MaxTokens is the output limit of anthropic and bedrock where a request sets none. 0 means what the model is known
	// to allow.
	MaxTokens int64 `toml:"max_tokens"`
	// Cache has anthropic cache what requests repeat, for 5m or 1h. Empty leaves it to the request.
	Cache string `toml:"cache"`
	// Version is the version of anthropic's API: 2023-06-01 or 2026-10-21. Empty means the first, which still knows
	// temperature and top_p.
	Version string `toml:"version"`
	// APIVersion is Azure's api-version, for an openai provider that needs one.
	APIVersion string `toml:"api_version"`
	// NativeShell gives openai's models the vendor's own shell tool, whose calls are run here all the same: on or off.
	// Empty means those that are known to have it.
	NativeShell string `toml:"native_shell"`
	// Region is bedrock's. Empty means the one in base_url, else AWS_REGION, else us-east-1. Without an api_key requests are
	// signed with the credentials that AWS's own tools would find.
	Region string `toml:"region"`
	// Profile is the section of AWS's shared files that bedrock's credentials are read from. Empty means AWS_PROFILE, else
	// default.
	Profile string `toml:"profile"`
	// Project and Location have gemini ask Vertex AI. Empty means GOOGLE_CLOUD_PROJECT, else the credentials' own project;
	// and GOOGLE_CLOUD_LOCATION, else global. So does a gemini provider without any of these, an api_key and a base_url.
	Project  string `toml:"project"`
	Location string `toml:"location"`
	// CredentialsFile is a service account's file, or one that gcloud laid down, for Vertex AI. Empty finds credentials as
	// Google's own tools do.
	CredentialsFile string `toml:"credentials_file"`
	// Scripts is a folder of scripts, NAME.json each, that a scripted provider plays as the model NAME.
	Scripts string `toml:"scripts"`
	// ConnectTimeoutSecs bounds making a connection. 0 means 10.
	ConnectTimeoutSecs int `toml:"connect_timeout_secs"`
	// FirstByteTimeoutSecs bounds the wait for the head of an answer. 0 means 300.
	FirstByteTimeoutSecs int `toml:"first_byte_timeout_secs"`
	// IdleTimeoutSecs bounds the silence within an answer. 0 means 300.
	IdleTimeoutSecs int `toml:"idle_timeout_secs"`
	// MaxTries is how often a model call is tried before its first byte, the first try among them. 0 means 3.
	MaxTries int `toml:"max_tries"`
	// MaxConcurrent is how many calls may be under way at once; others wait. 0 sets no limit.
	MaxConcurrent int `toml:"max_concurrent"`

	// Origin says where an automatically found provider came from; empty for a configured one.
	Origin string `toml:"-"`
}

// The values of providers.NAME.type that this version serves.
const (
	ProviderChat      = "chat"
	ProviderOpenAI    = "openai"
	ProviderAnthropic = "anthropic"
	ProviderBedrock   = "bedrock"
	ProviderGemini    = "gemini"
	ProviderScripted  = "scripted"
)

// providerTypes are those that this version serves.
var providerTypes = []string{ProviderChat, ProviderOpenAI, ProviderAnthropic, ProviderBedrock, ProviderGemini, ProviderScripted}

// ofTypes are the keys that some types alone have, and whether one is set.
var ofTypes = []struct {
	key   string
	types []string
	set   func(Provider) bool
}{
	{"max_tokens_field", []string{ProviderChat}, func(p Provider) bool { return p.MaxTokensField != "" }},
	{"max_tokens", []string{ProviderAnthropic, ProviderBedrock}, func(p Provider) bool { return p.MaxTokens != 0 }},
	{"cache", []string{ProviderAnthropic}, func(p Provider) bool { return p.Cache != "" }},
	{"version", []string{ProviderAnthropic}, func(p Provider) bool { return p.Version != "" }},
	{"region", []string{ProviderBedrock}, func(p Provider) bool { return p.Region != "" }},
	{"profile", []string{ProviderBedrock}, func(p Provider) bool { return p.Profile != "" }},
	{"project", []string{ProviderGemini}, func(p Provider) bool { return p.Project != "" }},
	{"location", []string{ProviderGemini}, func(p Provider) bool { return p.Location != "" }},
	{"credentials_file", []string{ProviderGemini}, func(p Provider) bool { return p.CredentialsFile != "" }},
	{"api_version", []string{ProviderOpenAI}, func(p Provider) bool { return p.APIVersion != "" }},
	{"scripts", []string{ProviderScripted}, func(p Provider) bool { return p.Scripts != "" }},
	{"native_shell", []string{ProviderOpenAI}, func(p Provider) bool { return p.NativeShell != "" }},
}

func (l *Loaded) checkProviders() (string, *fault.Error) {
	for _, name := range slices.Sorted(maps.Keys(l.Config.Providers)) {
		p, key := l.Config.Providers[name], "providers."+name
		if !providerName().MatchString(name) {
			return key + ".type", invalid("%q cannot stand before the slash of provider/model", name).WithTry("lower-case letters, digits, - and _")
		}
		if err := oneOf(p.Type, providerTypes...); err != nil {
			return key + ".type", err
		}
		if p.Type == ProviderScripted && p.BaseURL != "" {
			return key + ".base_url", invalid("the scripted model calls nobody").WithTry("leave base_url out")
		}
		if p.Scripts != "" && !filepath.IsAbs(p.Scripts) {
			return key + ".scripts", invalid("%q depends on where the server is started", p.Scripts).WithTry("an absolute path")
		}
		if p.Type == ProviderChat || p.BaseURL != "" {
			if err := checkURL(p.BaseURL); err != nil {
				return key + ".base_url", err
			}
		}
		if key, err := checkWire(key, p); err != nil {
			return key, err
		}
	}
	return "", nil
}

// checkWire checks what is sent to a provider.
func checkWire(key string, p Provider) (string, *fault.Error) {
	if strings.ContainsAny(p.APIKey.Reveal(), " \r\n\t") {
		return key + ".api_key", invalid("a key has no blanks and no line breaks")
	}
	for header, value := range p.Headers {
		if !headerName().MatchString(header) {
			return key + ".headers." + header, invalid("%q is not the name of an HTTP header", header)
		}
		if strings.ContainsAny(value.Reveal(), "\r\n\x00") {
			return key + ".headers." + header, invalid("a header's value has no line breaks")
		}
	}
	for _, own := range ofTypes {
		if own.set(p) && !slices.Contains(own.types, p.Type) {
			return key + "." + own.key, invalid("this is for providers of type %s", strings.Join(own.types, " or "))
		}
	}
	for _, word := range []struct {
		key, value string
		allowed    []string
	}{
		{"max_tokens_field", p.MaxTokensField, []string{"max_completion_tokens", "max_tokens"}},
		{"cache", p.Cache, []string{"5m", "1h"}},
		{"version", p.Version, []string{"2023-06-01", "2026-10-21"}},
		{"native_shell", p.NativeShell, []string{"on", "off"}},
	} {
		if word.value == "" {
			continue
		}
		if err := oneOf(word.value, word.allowed...); err != nil {
			return key + "." + word.key, err
		}
	}
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789-"
	for _, part := range []struct{ key, value, allowed string }{ // of a path, and of a host's name
		{"project", p.Project, letters + ".:"}, {"location", p.Location, letters},
	} {
		if strings.Trim(part.value, part.allowed) != "" {
			return key + "." + part.key, invalid("%q is no %s of Google Cloud", part.value, part.key)
		}
	}
	if p.CredentialsFile != "" && !p.APIKey.Empty() {
		return key + ".credentials_file", invalid("a key and a file of credentials do not go together").WithTry("one of api_key and credentials_file")
	}
	for _, number := range []struct {
		key   string
		value int64
	}{
		{"max_tokens", p.MaxTokens}, {"connect_timeout_secs", int64(p.ConnectTimeoutSecs)},
		{"first_byte_timeout_secs", int64(p.FirstByteTimeoutSecs)}, {"idle_timeout_secs", int64(p.IdleTimeoutSecs)},
		{"max_tries", int64(p.MaxTries)}, {"max_concurrent", int64(p.MaxConcurrent)},
	} {
		if number.value < 0 || number.value > 1e9 {
			return key + "." + number.key, invalid("%d is out of bounds", number.value)
		}
	}
	return "", nil
}

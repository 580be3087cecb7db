package cassette

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Scrubber takes out of exchanges what is secret or names somebody: the values of the headers that carry keys and
// cookies, in the clear, in base64, in hexadecimal and as a URL or JSON writes them; what keys and tokens are known to
// look like; ids of requests, organisations, projects and accounts; and addresses of mail. The same value becomes the
// same placeholder, so that what belonged together still does.
//
// It fails closed. Of headers those of a short list are kept. What it cannot look into is refused, and so is an exchange
// in which something is still found afterwards, such as a key that a model tells in pieces.
type Scrubber struct {
	mu      sync.Mutex
	secrets []form            // what to look for, the longest first
	known   map[string]bool   // values that have their forms
	names   map[string]string // placeholders by value
	counts  map[string]int
}

// form is one way in which a secret may be written.
type form struct {
	text    string
	secret  string
	kind    string
	encoded bool // a part of a longer run of base64, which goes as a whole
}

// shortest is the least length of a secret: a shorter one is none, and would take the words out of every sentence.
const shortest = 6

// NewScrubber makes a Scrubber that knows some secrets already.
func NewScrubber(secrets ...string) *Scrubber {
	s := &Scrubber{known: map[string]bool{}, names: map[string]string{}, counts: map[string]int{}}
	for _, secret := range secrets {
		s.learn("key", secret, shortest)
	}
	return s
}

// learn adds a value of at least least bytes.
func (s *Scrubber) learn(kind, value string, least int) {
	value = strings.TrimSpace(value)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(value) < least || s.known[value] || placeholders().MatchString(value) {
		return
	}
	s.known[value] = true
	add := func(text string, encoded bool) {
		if len(text) >= min(least, shortest) && !slices.ContainsFunc(s.secrets, func(f form) bool { return f.text == text }) {
			s.secrets = append(s.secrets, form{text, value, kind, encoded})
		}
	}
	add(value, false)
	if quoted, err := openai.Marshal(value); err == nil {
		add(string(quoted[1:len(quoted)-1]), false)
	}
	for _, escaped := range []string{url.QueryEscape(value), url.PathEscape(value)} {
		add(escaped, false)
		add(lowerEscapes(escaped), false)
	}
	add(hex.EncodeToString([]byte(value)), false)
	add(strings.ToUpper(hex.EncodeToString([]byte(value))), false)
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for shift := range 3 {
			add(core(encoding, value, shift), true)
		}
	}
	slices.SortStableFunc(s.secrets, func(a, b form) int { return len(b.text) - len(a.text) })
}

// core is how a value is written in base64 behind shift other bytes, without what its neighbours have a part in.
func core(encoding *base64.Encoding, value string, shift int) string {
	text := encoding.EncodeToString(append(make([]byte, shift), value...))
	from := []int{0, 2, 3}[shift]
	to := len(text)
	if (shift+len(value))%3 != 0 {
		to--
	}
	if to-from < 8 { // of a short secret less than this is left, which stands anywhere
		return ""
	}
	return text[from:to]
}

var escapes = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`%[0-9A-F]{2}`) })

func lowerEscapes(s string) string { return escapes().ReplaceAllStringFunc(s, strings.ToLower) }

// credentials are the words in the names of headers whose values are secrets.
var credentials = []string{"auth", "key", "token", "secret", "cookie", "session", "credential", "signature", "passw"}

// naming are the words in the names of headers whose values name somebody.
var naming = []string{"organi", "project", "account", "tenant", "user-id", "request-id", "requestid", "trace"}

// unspoken are headers whose values say nothing of anybody, and stand in many a body.
var unspoken = []string{"Accept", "Accept-Encoding", "Accept-Language", "Cache-Control", "Connection", "Content-Encoding", "Content-Length", "Content-Type",
	"Date", "Server", "Transfer-Encoding", "User-Agent", "Vary", "Via", "Anthropic-Version", "Openai-Version", "Retry-After"}

func hasWord(name string, words []string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(name, word) })
}

// learnHeaders learns what the headers that are not kept carry.
func (s *Scrubber) learnHeaders(h http.Header) {
	for name, values := range h {
		for _, value := range values {
			switch {
			case hasWord(name, credentials):
				s.learnCredential(name, value)
			case hasWord(name, naming):
				s.learn("id", value, 4)
			case !slices.Contains(unspoken, name):
				s.learn("id", value, 12)
			}
		}
	}
}

func (s *Scrubber) learnCredential(name, value string) {
	s.learn("key", value, shortest)
	scheme, rest, _ := strings.Cut(value, " ")
	s.learn("key", rest, shortest)
	if strings.EqualFold(scheme, "Basic") {
		if pair, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest)); err == nil {
			s.learn("key", string(pair), shortest)
			_, password, _ := strings.Cut(string(pair), ":")
			s.learn("key", password, shortest)
		}
	}
	if hasWord(name, []string{"cookie"}) || strings.HasPrefix(scheme, "AWS4") { // pairs
		for part := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ';' || r == ',' || r == ' ' }) {
			if _, v, ok := strings.Cut(part, "="); ok {
				s.learn("key", strings.Trim(v, `"`), 8)
			}
		}
	}
}

// learnQuery learns the values of a query that are not kept.
func (s *Scrubber) learnQuery(query string) {
	values, err := url.ParseQuery(query)
	if err != nil {
		s.learn("key", query, shortest)
	}
	kept, _ := url.ParseQuery(cleanQuery(query))
	for name, all := range values {
		for _, v := range all {
			if !kept.Has(name) {
				s.learn("key", v, shortest)
			}
		}
	}
}

// pattern is what something secret is known to look like. The last group, or all of it, is replaced.
type pattern struct {
	kind string
	*regexp.Regexp
}

// patterns are compiled when the first exchange comes.
var patterns = sync.OnceValue(func() []pattern {
	var all []pattern
	for _, p := range [][2]string{
		{"key", `-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`},
		{"key", `\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}`},
		{"key", `\b(?:gsk|hf|npm|gh[pousr]|github_pat|hsk|r8)_[A-Za-z0-9_-]{16,}`},
		{"key", `\b(?:xai|xox[abeprs]|glpat|pplx|nvapi)-[A-Za-z0-9_-]{16,}`},
		{"key", `\bAIza[0-9A-Za-z_-]{30,}`},
		{"key", `\b(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}\b`},
		{"key", `\bABSK[A-Za-z0-9+/=]{20,}`},
		{"key", `\bya29\.[A-Za-z0-9_.-]{10,}`},
		{"key", `\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`},
		{"key", `(?i)\bbearer\s+([A-Za-z0-9._~+/=-]{12,})`},
		{"key", `(?i)(?:signature|x-amz-signature|x-amz-security-token)=([A-Za-z0-9%+/=_-]{16,})`},
		{"id", `\borg-[A-Za-z0-9]{6,}`},
		{"id", `\b(?:proj|req|wrkspc|acct)_[A-Za-z0-9]{8,}`},
		{"id", `\buser-[A-Za-z0-9]{16,}`},
		{"id", `(?i)\barn(?::|%3A)aws[^"\s/]*?(?::|%3A)([0-9]{12})(?::|%3A)`},
		{"project", `/projects/([^/"\s]+)/`},
		{"answer", `\b(?:resp_[A-Za-z0-9]{16,}|chatcmpl-[A-Za-z0-9]{12,}|gen-[A-Za-z0-9-]{16,})`},
		{"email", `[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}`},
		{"key", `\\*"(?:api_?[kK]ey|access_?[tT]oken|refresh_?[tT]oken|id_token|client_?[sS]ecret|secret|password|private_?[kK]ey|authorization|cookie)\\*"\s*:\s*\\*"((?:[^"\\]|\\[^"])+)`},
		{"id", `\\*"(?:request_?[iI]d|response_?[iI]d|organi[sz]ation(?:_id)?|org_id|project(?:_id)?|account_id|user(?:_?[iI]d)?|session_id|safety_identifier|prompt_cache_key)\\*"\s*:\s*\\*"((?:[^"\\]|\\[^"])+)`},
	} {
		all = append(all, pattern{p[0], regexp.MustCompile(p[1])})
	}
	return all
})

// reserved are addresses of mail that are nobody's.
var reserved = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)@(?:[a-z0-9-]+\.)*(?:example\.(?:com|org|net)|example|test|invalid|localhost)$`)
})

// edit puts a text in place of bytes.
type edit struct {
	from, to int
	text     string
}

// edits are what must be replaced in a text, in order and apart from each other.
func (s *Scrubber) edits(text string) []edit {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []edit
	for _, f := range s.secrets {
		for at := 0; ; {
			i := strings.Index(text[at:], f.text)
			if i < 0 {
				break
			}
			from, to := at+i, at+i+len(f.text)
			at = to
			if f.encoded {
				from, to = run(text, from, to)
			}
			all = append(all, edit{from, to, s.nameLocked(f.kind, f.secret)})
		}
	}
	for _, p := range patterns() {
		for _, m := range p.FindAllStringSubmatchIndex(text, -1) {
			from, to := m[len(m)-2], m[len(m)-1]
			value := text[from:to]
			if p.kind == "email" && reserved().MatchString(value) || wholePlaceholder(value) {
				continue
			}
			all = append(all, edit{from, to, s.nameLocked(p.kind, value)})
		}
	}
	slices.SortStableFunc(all, func(a, b edit) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return b.to - a.to
	})
	var apart []edit
	for _, e := range all {
		if n := len(apart); n > 0 && e.from < apart[n-1].to {
			apart[n-1].to = max(apart[n-1].to, e.to)
			continue
		}
		apart = append(apart, e)
	}
	return apart
}

// run is the whole run of base64 around a part of it.
func run(text string, from, to int) (int, int) {
	in := func(c byte) bool {
		return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("+/_-=", c) >= 0
	}
	for from > 0 && in(text[from-1]) {
		from--
	}
	for to < len(text) && in(text[to]) {
		to++
	}
	return from, to
}

func wholePlaceholder(s string) bool { return placeholders().FindString(s) == s && s != "" }

// nameLocked is the placeholder of a value.
func (s *Scrubber) nameLocked(kind, value string) string {
	name, ok := s.names[value]
	if !ok {
		s.counts[kind]++
		name = fmt.Sprintf("scrubbed-%s-%d", kind, s.counts[kind])
		s.names[value] = name
	}
	return name
}

// text scrubs a text. Marks are offsets in it, in order; those of the same places in the new one are returned.
func (s *Scrubber) text(text string, marks ...int) (string, []int) {
	var b strings.Builder
	at, moved := 0, make([]int, 0, len(marks))
	for _, e := range s.edits(text) {
		for len(marks) > 0 && marks[0] <= e.from {
			moved, marks = append(moved, b.Len()+marks[0]-at), marks[1:]
		}
		b.WriteString(text[at:e.from])
		b.WriteString(e.text)
		for len(marks) > 0 && marks[0] < e.to {
			moved, marks = append(moved, b.Len()), marks[1:]
		}
		at = e.to
	}
	for _, mark := range marks {
		moved = append(moved, b.Len()+mark-at)
	}
	b.WriteString(text[at:])
	return b.String(), moved
}

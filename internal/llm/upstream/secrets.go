package upstream

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// shortest is the least length of a secret in a header: a shorter one is none, and would hide every "1" of a message.
const shortest = 6

// passing is how many secrets of requests are remembered. The tokens among them, which are asked for anew now and then,
// are few and stay as long as they are used; a signature is another one in each request.
const passing = 256

// credentials are the headers whose values are secrets, whoever set them.
var credentials = []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "X-Amz-Security-Token"}

// secrets are the words that no error may show: a server that quotes a request in its error would else show them.
type secrets struct {
	mu    sync.RWMutex
	fixed []string // of the configuration
	last  []string // of requests, the one used last behind the others
}

// add hides a word of the configuration.
func (s *secrets) add(word string) {
	if word == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fixed = append(s.fixed, word)
}

// addHeader hides a header's value: all of it, and alone what stands behind the name of a scheme.
func (s *secrets) addHeader(value string) {
	for _, word := range []string{value, bare(value)} {
		if len(word) >= shortest {
			s.add(word)
		}
	}
}

// bare is what is secret of a credential: what stands behind the name of its scheme, and of a signed request's the
// signature, as the rest of it is none.
func bare(value string) string {
	if scheme, rest, ok := strings.Cut(value, " "); ok {
		value = strings.TrimSpace(rest)
		if strings.HasPrefix(scheme, "AWS4-") {
			_, value, _ = strings.Cut(value, "Signature=")
		}
	}
	return value
}

// sent hides the credentials of a request, some of which were made for it alone.
func (s *secrets) sent(h http.Header) {
	for _, name := range credentials {
		for _, value := range h[name] {
			s.use(bare(value))
		}
	}
}

// use remembers a word as the one used last.
func (s *secrets) use(word string) {
	s.mu.RLock()
	known := len(word) < shortest || slices.Contains(s.fixed, word) || len(s.last) > 0 && s.last[len(s.last)-1] == word
	s.mu.RUnlock()
	if known {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.last, word); i >= 0 {
		s.last = slices.Delete(s.last, i, i+1)
	} else if len(s.last) == passing {
		s.last = slices.Delete(s.last, 0, 1)
	}
	s.last = append(s.last, word)
}

// hide takes them out of a text, the longer ones first: one may be a part of another.
func (s *secrets) hide(text string) string {
	s.mu.RLock()
	all := slices.Concat(s.fixed, s.last)
	s.mu.RUnlock()
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, word := range all {
		text = strings.ReplaceAll(text, word, hidden)
	}
	return text
}

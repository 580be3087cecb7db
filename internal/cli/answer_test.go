package cli

import (
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/terminal/session"
)

// Which session is meant is never guessed.
func TestWhichSessionIsAnswered(t *testing.T) {
	one, two, same := session.Waiting{Session: 1001}, session.Waiting{Session: 1002}, session.Waiting{Session: 1001, Name: "another agent's"}
	for name, c := range map[string]struct {
		asked int
		all   []session.Waiting
		want  int // 0 is an error
		kind  fault.Kind
	}{
		"the only one":       {0, []session.Waiting{one}, 1001, 0},
		"the one that is":    {1002, []session.Waiting{one, two}, 1002, 0},
		"nobody asks":        {0, nil, 0, fault.NotFound},
		"another one asks":   {1002, []session.Waiting{one}, 0, fault.NotFound},
		"several ask":        {0, []session.Waiting{one, two}, 0, fault.Invalid},
		"two of that number": {1001, []session.Waiting{one, two, same}, 0, fault.Conflict},
	} {
		got, err := answerCommand{Session: c.asked}.choose(c.all)
		if got.Session != c.want || (err == nil) != (c.want != 0) || err != nil && fault.KindOf(err) != c.kind {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestOneLineIsThePassword(t *testing.T) {
	for in, want := range map[string]string{"word\n": "word", "word\r\nmore\n": "word", "no end": "no end", " spaces \n": " spaces ", "\n": ""} {
		if got, err := readSecret(strings.NewReader(in)); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	if _, err := readSecret(strings.NewReader("")); fault.KindOf(err) != fault.Invalid {
		t.Errorf("nothing: %v", err)
	}
}

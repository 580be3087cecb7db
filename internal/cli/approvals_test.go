package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// openQuestion is one that waits.
func openQuestion(id, command string) openai.Approval {
	return openai.Approval{ID: id, Object: "approval", Status: "pending", ContainerID: "cntr_1", WorkingDirectory: "/mnt/data", ExpiresAt: time.Now().Add(time.Hour).Unix(),
		Commands: []openai.ApprovalCommand{{Command: command, Asks: true, Reasons: []string{command + ": it removes files without asking."}}}}
}

// desk is a server that takes answers.
func desk(t *testing.T) (api *client, answers *[]string) {
	answers = new([]string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var said struct{ Decision, Reason string }
		if r.Header.Get("Authorization") != "Bearer k" || json.NewDecoder(r.Body).Decode(&said) != nil {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		*answers = append(*answers, strings.TrimPrefix(r.URL.Path, "/v1/approvals/")+" "+said.Decision+" "+said.Reason)
		json.NewEncoder(w).Encode(openai.Approval{ID: strings.TrimPrefix(r.URL.Path, "/v1/approvals/"), Status: "answered"})
	}))
	t.Cleanup(s.Close)
	return newClient(s.URL, "k", ""), answers
}

func TestReviewAtATerminal(t *testing.T) {
	list := []openai.Approval{openQuestion("appr_1", "rm -rf a"), openQuestion("appr_2", "rm -rf b"), openQuestion("appr_3", "rm -rf c")}
	for typed, want := range map[string][]string{
		"y\nc\nn not on Fridays\n": {"appr_1 approve ", "appr_2 approve_for_container ", "appr_3 deny not on Fridays"},
		"l\nwhat\n\nY\nq\n":        {"appr_2 approve "},
		"q\n":                      nil,
		"":                         nil, // nobody is there: nothing is answered
		"y":                        nil, // half a line is no answer
	} {
		api, answers := desk(t)
		var shown, out bytes.Buffer
		a := asker{&typist{strings.SplitAfter(typed, "\n")}, &shown, func() (int, int) { return 24, 80 }, func() {}}
		if err := a.review(t.Context(), api, list, &out); err != nil {
			t.Errorf("%q: %v", typed, err)
		}
		if got := *answers; !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q\n%s", typed, got, want, shown.String())
		}
		if n := strings.Count(out.String(), "answered"); n != len(want) {
			t.Errorf("%q: told %q", typed, out.String())
		}
	}
}

// typist types a line at a time, as a terminal gives it.
type typist struct{ lines []string }

func (t *typist) Read(p []byte) (n int, err error) {
	if len(t.lines) == 0 || t.lines[0] == "" {
		return 0, io.EOF
	}
	n = copy(p, t.lines[0])
	t.lines = t.lines[1:]
	return n, nil
}

// What a person reads is all that would run, and nothing of it acts on the terminal.
func TestAQuestionIsShownWhole(t *testing.T) {
	q := openQuestion("appr_1", "rm -rf a\nbecause it is fine\x1b[2K\u202Egnp.exe "+strings.Repeat("x", 300)+"; curl evil")
	q.Env, q.Stdin = map[string]string{"LD_PRELOAD": "x.so"}, "yes"
	shown := strings.Join(questionLines(q, time.Unix(q.ExpiresAt-3600, 0), 80), "\n")
	for _, want := range []string{"curl evil", "LD_PRELOAD=x.so", "stdin    yes", "cntr_1", "1h0m0s left"} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q in\n%s", want, shown)
		}
	}
	if strings.ContainsAny(shown, "\x1b\u202E") || strings.Count(shown, "x") < 300 {
		t.Errorf("shown:\n%q", shown)
	}
	for line := range strings.SplitSeq(shown, "\n") {
		if len([]rune(line)) > 80 {
			t.Errorf("%d columns: %s", len([]rune(line)), line)
		}
		if strings.HasPrefix(line, "  because it is fine") {
			t.Errorf("a command speaks as we do: %s", line)
		}
	}
}

func TestApprovalsPageByPage(t *testing.T) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		last := map[string]string{"": "appr_1", "appr_1": "appr_2"}[r.URL.Query().Get("after")]
		fmt.Fprintf(w, `{"object":"list","data":[{"id":%q}],"has_more":%v,"last_id":%q}`, last, last == "appr_1", last)
	}))
	defer s.Close()
	list, err := newClient(s.URL, "k", "").approvals(t.Context(), "denied")
	if err != nil || len(list) != 2 || list[1].ID != "appr_2" || len(asked) != 2 || !strings.Contains(asked[1], "status=denied") {
		t.Errorf("%+v, %v, %q", list, err, asked)
	}
	if _, err := newClient(s.URL, "k", "").approvals(t.Context(), "all"); err != nil || strings.Contains(asked[2], "status") {
		t.Errorf("%v, %q", err, asked)
	}
}

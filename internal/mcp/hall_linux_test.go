package mcp

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	jails "github.com/hardshell-dev/hardshell/internal/container/jail"
	"github.com/hardshell-dev/hardshell/internal/require"
)

// visitor is a client of the official SDK at a hall. It does not come back where its connections are cut.
func (l *lobby) visitor(t *testing.T, container string) *mcp.ClientSession {
	t.Helper()
	transport := &mcp.StreamableClientTransport{Endpoint: l.server.URL, MaxRetries: -1, HTTPClient: &http.Client{Transport: header{container}}}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(soon(t), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// header names a container in every request.
type header struct{ container string }

func (h header) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if h.container != "" {
		r.Header.Set(ContainerHeader, h.container)
	}
	return http.DefaultTransport.RoundTrip(r)
}

func shellOf(t *testing.T, s *mcp.ClientSession, arguments string) (*mcp.CallToolResult, reply) {
	t.Helper()
	result, err := s.CallTool(soon(t), &mcp.CallToolParams{Name: "exec_command", Arguments: json.RawMessage(arguments)})
	if err != nil {
		t.Fatal(err)
	}
	return result, read(t, result)
}

var placeName = regexp.MustCompile(`[Cc]ontainer (cntr_[a-z0-9]+)`)

// What a client left running that has gone away is ended.
func TestWhatAClientThatGoesAwayLeaves(t *testing.T) {
	require.Feature(t, "jail", jails.New(jails.Options{}).Supported(t.Context()))
	l := newLobby(t, jails.New(jails.Options{}), func(c *HallConfig) { c.Away = 50 * time.Millisecond })
	_, first := shellOf(t, l.visitor(t, ""), `{"cmd":"echo up; exec sleep 4001","wait_for":{"pattern":"up"}}`)
	place := placeName.FindStringSubmatch(first.text)
	if place == nil {
		t.Fatalf("%+v", first)
	}
	l.server.CloseClientConnections()
	watch := l.visitor(t, place[1])
	waitFor(t, "the command's end", func() bool {
		_, got := shellOf(t, watch, `{"cmd":"cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '; echo","wait_for":{"exit":true}}`)
		return !strings.Contains(got.Output, "sleep 4001")
	})
}

// R12: a container in place of one that has ended, with all that was in it, is told by name.
func TestAnotherContainerIsTold(t *testing.T) {
	require.Feature(t, "jail", jails.New(jails.Options{}).Supported(t.Context()))
	l := newLobby(t, jails.New(jails.Options{}), func(*HallConfig) {})
	s := l.visitor(t, "")
	result, first := shellOf(t, s, `{"cmd":"true","wait_for":{"exit":true}}`)
	place := placeName.FindStringSubmatch(first.text)
	if reason := resetOf(t, result.StructuredContent); reason != "" || place == nil {
		t.Fatalf("%q %+v", reason, first)
	}
	if err := l.containers.Delete(soon(t), "org", place[1]); err != nil {
		t.Fatal(err)
	}
	result, second := shellOf(t, s, `{"cmd":"true","wait_for":{"exit":true}}`)
	if reason := resetOf(t, result.StructuredContent); reason != resetExpired || !strings.Contains(second.text, "session_restarted ("+resetExpired+"): Container "+place[1]) {
		t.Errorf("%q %+v", reason, second)
	}
	if result, _ = shellOf(t, s, `{"cmd":"true","wait_for":{"exit":true}}`); resetOf(t, result.StructuredContent) != "" {
		t.Error("it is told twice")
	}
}

package cassette

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

const key = "canary/Key+with=signs~01"

// asked is a request with a key in each header that carries one, and what came back.
func asked(question, contentType, answer string, header ...string) raw {
	r := httptest.NewRequest("POST", "http://127.0.0.1:1/v1/projects/my-project/models/m?alt=sse&key=canary-in-the-query", strings.NewReader(""))
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Cookie", "sid=canary-cookie-1; theme=dark")
	r.Header.Set("Openai-Organization", "canary-org")
	r.Header.Set("X-Custom-Thing", "canary-custom-value")
	x := raw{request: r, body: []byte(question), status: 200, end: Complete, headers: http.Header{"Content-Type": {contentType},
		"X-Request-Id": {"canary-request-7"}, "Set-Cookie": {"sid=canary-cookie-2; Path=/"}, "Openai-Processing-Ms": {"12"}}}
	for i := 0; i < len(header); i += 2 {
		x.headers.Set(header[i], header[i+1])
	}
	for len(answer) > 0 {
		n := min(5, len(answer)) // nothing is in one piece
		x.pieces = append(x.pieces, Piece{Data: []byte(answer[:n])})
		answer = answer[n:]
	}
	return x
}

// written is what stands in the file.
func written(t *testing.T, x raw, secrets ...string) (string, error) {
	t.Helper()
	out, err := NewScrubber(secrets...).scrub(x)
	if err != nil {
		return "", err
	}
	lines, err := out.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	head, err := Head{Version: Version, Origin: Recorded}.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(append(head, lines...))
	if err != nil || len(c.Exchanges) != 1 {
		t.Fatalf("it cannot be read: %v\n%s", err, lines)
	}
	return string(lines) + string(c.Exchanges[0].Body()), nil
}

func TestWhatIsSecretIsNotWritten(t *testing.T) {
	config := "canary-of-the-configuration"
	b64 := func(before string) string { return base64.StdEncoding.EncodeToString([]byte(before + key + "!")) }
	for name, text := range map[string]string{
		"nothing":              "hello",
		"the key":              "your key is " + key + ", is it not?",
		"configured":           config,
		"URL":                  "u=" + url.QueryEscape(key),
		"URL, lower case":      "u=" + lowerEscapes(url.QueryEscape(key)),
		"path":                 "u=" + url.PathEscape(key),
		"base64":               "b=" + b64(""),
		"base64 behind one":    "b=" + b64("a"),
		"base64 behind two":    "b=" + b64("ab"),
		"base64 for URLs":      "b=" + base64.RawURLEncoding.EncodeToString([]byte("xy?"+key)),
		"basic":                base64.StdEncoding.EncodeToString([]byte("user:" + key)),
		"hexadecimal":          hex.EncodeToString([]byte(key)),
		"cookies":              "canary-cookie-1 canary-cookie-2",
		"query":                "canary-in-the-query",
		"organisation":         "canary-org",
		"request id":           "canary-request-7 req_canary0123456789",
		"a header of no name":  "canary-custom-value",
		"OpenAI's":             "sk-proj-canary0123456789abcdef org-canary0123 proj_canary0123456 user-canary0123456789abc",
		"Anthropic's":          "sk-ant-api03-canary0123456789",
		"Google's":             "AIza" + "canary0123456789canary0123456789 ya29.canary0123456789",
		"AWS's":                "AKIA" + "CANARY0123456789 arn:aws:bedrock:eu-central-1:123456789012:inference-profile/x",
		"GitHub's and others'": "ghp_canary0123456789abcdef hf_canary0123456789abcdef xoxb-canary0123456789abcdef",
		"ours":                 "hsk_canary0123_456789abcdef",
		"a token of JSON":      "eyJcanary0123.canary0123456789.canary",
		"a private key":        "-----BEGIN RSA PRIVATE KEY-----\\ncanary\\n-----END RSA PRIVATE KEY-----",
		"mail":                 "canary.person@canary.company.com",
	} {
		for _, form := range []struct{ media, answer string }{
			{"application/json", `{"text":"` + text + `","x":1}`},
			{"text/event-stream", "data: {\"text\":\"" + text + "\"}\n\ndata: [DONE]\n\n"},
			{"text/plain; charset=utf-8", text},
		} {
			got, err := written(t, asked(`{"messages":["`+text+`"]}`, form.media, form.answer), config)
			if err != nil {
				t.Errorf("%s, %s: refused: %v", name, form.media, err)
			}
			low := strings.ToLower(got)
			for _, never := range []string{"canary", "my-project", "123456789012", "q2fuyxj", hex.EncodeToString([]byte("canary"))} {
				if strings.Contains(low, never) {
					t.Errorf("%s, %s: %q got into\n%s", name, form.media, never, got)
				}
			}
			if name == "nothing" && (!strings.Contains(got, "hello") || strings.Count(got, "scrubbed") != 1) {
				t.Errorf("what is not secret was changed: %s", got)
			}
		}
	}
}

func TestJSONKeysThatNameSecrets(t *testing.T) {
	answer := `{"request_id":"canary-1","user":"canary-2","nested":"{\"api_key\":\"canary-3\",\"password\" : \"canary-4\"}","organization":"canary-5","role":"user","finish_reason":"stop"}`
	got, err := written(t, asked(`{"user":"canary-6","safety_identifier":"canary-7","model":"m"}`, "application/json", answer))
	if err != nil || strings.Contains(got, "canary") || !strings.Contains(got, `"role":"user"`) || !strings.Contains(got, `"model":"m"`) {
		t.Errorf("%v\n%s", err, got)
	}
}

// What belonged together still does.
func TestTheSameValueIsTheSamePlaceholder(t *testing.T) {
	got, err := written(t, asked(`{}`, "text/plain", "a@canary.com b@canary.com a@canary.com "+key+" "+key))
	if err != nil || strings.Count(got, "scrubbed-email-1 scrubbed-email-2 scrubbed-email-1 scrubbed-key-1 scrubbed-key-1") != 1 {
		t.Errorf("%v %s", err, got)
	}
	if got, err = written(t, asked(`{}`, "text/plain", "nobody@example.com")); err != nil || !strings.Contains(got, "nobody@example.com") {
		t.Errorf("an address of nobody's: %v %s", err, got)
	}
}

func TestWhatCannotBeScrubbedIsRefused(t *testing.T) {
	event := func(text string) string { return "data: {\"delta\":{\"text\":\"" + text + "\"}}\n\n" }
	for name, x := range map[string]raw{
		"told in pieces":     asked("{}", "text/event-stream", event("It is "+key[:9])+event(key[9:]+".")),
		"mail in pieces":     asked("{}", "text/event-stream", event("canary@")+event("canary.com")),
		"escaped":            asked("{}", "application/json", `{"text":"\u0063`+key[1:]+`"}`),
		"compressed":         asked("{}", "application/json", `{}`, "Content-Encoding", "gzip"),
		"a picture":          asked("{}", "image/png", "\x89PNG"),
		"no text":            asked("{}", "", "\xff\xfe"),
		"a damaged stream":   asked("{}", eventStream, "this is no event stream"),
		"a stream cut short": asked("{}", eventStream, string(frame(t, `{}`)[:20])),
		"too large":          {request: asked("", "", "").request, headers: http.Header{}, tooLarge: true},
	} {
		if got, err := written(t, x); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
	for _, body := range []string{"canary that is no JSON", "--boundary\r\ncanary", "\xff"} {
		if got, err := written(t, asked(body, "text/plain", "x")); err != nil || strings.Contains(got, "canary") || !strings.Contains(got, `"omitted"`) {
			t.Errorf("%v %s", err, got)
		}
	}
}

func frame(t *testing.T, payload string) []byte {
	t.Helper()
	quoted, err := quote(payload)
	if err != nil {
		t.Fatal(err)
	}
	b, err := (&Frame{Headers: [][2]string{{":event-type", "x"}, {":message-type", "event"}}, Payload: quoted}).encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Of an event stream the messages are scrubbed, and its sums are right again.
func TestFramesAreScrubbed(t *testing.T) {
	answer := string(frame(t, `{"text":"ok"}`)) + string(frame(t, `{"text":"`+key+`"}`))
	x, err := NewScrubber().scrub(asked("{}", eventStream, answer))
	if err != nil || len(x.Pieces) != 2 {
		t.Fatalf("%d pieces, %v", len(x.Pieces), err)
	}
	if string(x.Pieces[0].Data) != string(frame(t, `{"text":"ok"}`)) || string(x.Pieces[1].Data) != string(frame(t, `{"text":"scrubbed-key-1"}`)) {
		t.Errorf("%q", x.Body())
	}
}

// Pieces end where they ended, but for what was replaced.
func TestPiecesKeepTheirPlaces(t *testing.T) {
	s := NewScrubber("SECRETSECRET")
	out, err := s.pieces([]Piece{{Data: []byte("ab")}, {Data: []byte("c SEC")}, {Data: []byte("RETSEC")}, {Data: []byte("RET d")}, {Data: []byte("e")}})
	var got []string
	for _, p := range out {
		got = append(got, string(p.Data))
	}
	if err != nil || strings.Join(got, "|") != "ab|c scrubbed-key-1| d|e" {
		t.Errorf("%q, %v", got, err)
	}
}

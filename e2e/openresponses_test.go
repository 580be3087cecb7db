package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The checks of Open Responses (its suite of July 2026, 17 of them), each under its name there, for requests without a
// shell: what the suite's schemas demand is in demands_test.go. The model is a Chat Completions upstream that repeats what
// it was told, and calls the first function that it is given.

// parrot is that upstream.
type parrot struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string // the bodies of its requests
}

func newParrot(t *testing.T) *parrot {
	p := &parrot{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var asked struct {
			Stream   bool
			Messages []struct{ Content any }
			Tools    []struct{ Function struct{ Name string } }
		}
		if json.Unmarshal(raw, &asked) != nil || !strings.HasSuffix(r.URL.Path, "/chat/completions") {
			http.Error(w, "{}", http.StatusNotFound)
			return
		}
		p.mu.Lock()
		p.seen = append(p.seen, string(raw))
		p.mu.Unlock()
		var told []string
		for _, m := range asked.Messages {
			told = append(told, fmt.Sprint(m.Content))
		}
		message := fields{"role": "assistant", "content": strings.Join(told, " | ")}
		reason := "stop"
		if len(asked.Tools) > 0 {
			message = fields{"role": "assistant", "tool_calls": []fields{{"index": 0, "id": "call_1", "type": "function",
				"function": fields{"name": asked.Tools[0].Function.Name, "arguments": `{"location":"San Francisco, CA"}`}}}}
			reason = "tool_calls"
		}
		usage := fields{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
		if !asked.Stream {
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(fields{"id": "c", "object": "chat.completion", "model": "parrot",
				"choices": []fields{{"index": 0, "message": message, "finish_reason": reason}}, "usage": usage})
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, choices := range [][]fields{{{"index": 0, "delta": message, "finish_reason": nil}}, {{"index": 0, "delta": fields{}, "finish_reason": reason}}, {}} {
			chunk := fields{"id": "c", "object": "chat.completion.chunk", "model": "parrot", "choices": choices}
			if len(choices) == 0 {
				chunk["usage"] = usage
			}
			data, _ := json.Marshal(chunk)
			fmt.Fprintf(w, "data: %s\n\n", data)
		}
		io.WriteString(w, "data: [DONE]\n\n")
	}))
	t.Cleanup(p.Close)
	return p
}

// suite is a server before a parrot.
type suite struct {
	*server
	parrot *parrot
}

func openSuite(t *testing.T) suite {
	p := newParrot(t)
	return suite{startWith(t, "[providers.mock]\ntype = \"chat\"\nbase_url = \""+p.URL+"/v1\"\nmodels = [\"parrot\"]\n"), p}
}

const model = "mock/parrot"

// post sends a request and returns the status and the object of the answer.
func (s suite) post(t *testing.T, path string, body fields) (int, map[string]any) {
	t.Helper()
	status, raw := s.send(t, path, body)
	var o map[string]any
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatalf("%d %s: %v", status, raw, err)
	}
	return status, o
}

func (s suite) send(t *testing.T, path string, body fields) (int, []byte) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(within(t), "POST", s.URL+"/v1"+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.Key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err = io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, raw
}

// good wants a completed response with an output, of the demanded shape.
func good(t *testing.T, status int, o map[string]any) {
	t.Helper()
	output, _ := o["output"].([]any)
	if status != http.StatusOK || o["status"] != "completed" || len(output) == 0 {
		t.Errorf("%d %v", status, o)
	}
	for _, wrong := range resource(o, "response") {
		t.Error(wrong)
	}
}

// words is what a response says.
func words(o map[string]any) (all string) {
	for _, i := range list(o["output"]) {
		for _, p := range list(object(i)["content"]) {
			all += fmt.Sprint(object(p)["text"])
		}
	}
	return all
}

func object(v any) map[string]any { o, _ := v.(map[string]any); return o }
func list(v any) []any            { l, _ := v.([]any); return l }

func message(role string, content any) fields {
	return fields{"type": "message", "role": role, "content": content}
}

func TestOpenResponsesOverHTTP(t *testing.T) {
	s := openSuite(t)
	t.Run("basic-response", func(t *testing.T) {
		status, o := s.post(t, "/responses", fields{"model": model, "input": []fields{message("user", "Say hello.")}})
		good(t, status, o)
	})
	t.Run("assistant-phase", func(t *testing.T) {
		early, late := message("assistant", "I should answer with the number."), message("assistant", "The number is four.")
		early["phase"], late["phase"] = "commentary", "final_answer"
		status, o := s.post(t, "/responses", fields{"model": model, "input": []fields{early, late, message("user", "Repeat it.")}})
		good(t, status, o)
		if !strings.Contains(words(o), "The number is four.") {
			t.Errorf("the model was told %s", words(o))
		}
	})
	t.Run("response-output-phase-schema", func(t *testing.T) {
		// The suite asks its own schema; we ask what we use for it, and that a phase is no fault.
		_, o := s.post(t, "/responses", fields{"model": model, "input": "hello"})
		object(list(o["output"])[0])["phase"] = "commentary"
		if wrong := resource(o, "response"); len(wrong) > 0 {
			t.Error(wrong)
		}
		object(list(o["output"])[0])["phase"] = "neither"
		delete(o, "top_p")
		if wrong := resource(o, "response"); len(wrong) != 2 {
			t.Errorf("the demands see %q", wrong)
		}
	})
	t.Run("streaming-response", func(t *testing.T) {
		_, raw := s.send(t, "/responses", fields{"model": model, "stream": true, "input": []fields{message("user", "Count.")}})
		var last map[string]any
		for frame := range strings.SplitSeq(strings.TrimSuffix(string(raw), "data: [DONE]\n\n"), "\n\n") {
			if strings.HasPrefix(frame, ":") || frame == "" {
				continue
			}
			name, data, ok := strings.Cut(frame, "\ndata: ")
			if err := json.Unmarshal([]byte(data), &last); err != nil || !ok || name != "event: "+fmt.Sprint(last["type"]) {
				t.Fatalf("%q: %v", frame, err)
			}
			for _, wrong := range demanded(last) {
				t.Error(wrong)
			}
		}
		if !strings.HasSuffix(string(raw), "data: [DONE]\n\n") || last["type"] != "response.completed" {
			t.Errorf("it ends with %v", last["type"])
		}
		good(t, http.StatusOK, object(last["response"]))
	})
	t.Run("system-prompt", func(t *testing.T) {
		status, o := s.post(t, "/responses", fields{"model": model, "input": []fields{message("system", "You are a pirate."), message("user", "Say hello.")}})
		good(t, status, o)
		if !strings.Contains(words(o), "You are a pirate.") {
			t.Errorf("the model was told %s", words(o))
		}
	})
	t.Run("tool-calling", func(t *testing.T) {
		status, o := s.post(t, "/responses", fields{"model": model, "input": []fields{message("user", "What's the weather in San Francisco?")},
			"tools": []fields{{"type": "function", "name": "get_weather", "description": "Get the weather.", "parameters": fields{"type": "object",
				"properties": fields{"location": fields{"type": "string"}}, "required": []string{"location"}}}}})
		good(t, status, o)
		if !slices.ContainsFunc(list(o["output"]), func(i any) bool { return object(i)["type"] == "function_call" && object(i)["name"] == "get_weather" }) {
			t.Errorf("no call in %v", o["output"])
		}
	})
	t.Run("image-input", func(t *testing.T) {
		const dot = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
		status, o := s.post(t, "/responses", fields{"model": model, "input": []fields{message("user", []fields{
			{"type": "input_text", "text": "What do you see?"}, {"type": "input_image", "image_url": dot}})}})
		good(t, status, o)
		if !strings.Contains(words(o), dot) {
			t.Errorf("the model was told %s", words(o))
		}
	})
	t.Run("multi-turn", func(t *testing.T) {
		status, o := s.post(t, "/responses", fields{"model": model, "input": []fields{message("user", "My name is Alice."),
			message("assistant", "Hello Alice!"), message("user", "What is my name?")}})
		good(t, status, o)
		if !strings.Contains(words(o), "My name is Alice. | Hello Alice! | What is my name?") {
			t.Errorf("the model was told %s", words(o))
		}
	})
	t.Run("compact-response", func(t *testing.T) {
		compacted(t, s, fields{"prompt_cache_key": "openresponses-compact-test", "input": []fields{
			message("user", "We agreed to launch on Tuesday and notify support first."), message("assistant", "Understood.")}})
	})
	t.Run("compact-missing-model", func(t *testing.T) {
		status, o := s.post(t, "/responses/compact", fields{"input": []fields{message("user", "Compact this conversation.")}})
		if status != http.StatusBadRequest || object(o["error"])["param"] != "model" {
			t.Errorf("%d %v", status, o)
		}
	})
}

// compacted compacts a conversation and returns what becomes of it.
func compacted(t *testing.T, s suite, body fields) []any {
	t.Helper()
	body["model"] = model
	status, o := s.post(t, "/responses/compact", body)
	if status != http.StatusOK || o["object"] != "response.compaction" {
		t.Fatalf("%d %v", status, o)
	}
	for _, wrong := range ofCompaction.missing(o, "compaction") {
		t.Error(wrong)
	}
	output := list(o["output"])
	for n, i := range output {
		for _, wrong := range item(object(i), fmt.Sprintf("output[%d]", n)) {
			t.Error(wrong)
		}
	}
	if !slices.ContainsFunc(output, func(i any) bool { return object(i)["type"] == "compaction" }) {
		t.Errorf("no compaction in %v", output)
	}
	return output
}

// turn says a message and hears a response, whose every event must be as demanded. It is the final response, or the error.
func (c talk) turn(body fields) (final map[string]any, refusal map[string]any) {
	c.t.Helper()
	body["type"], body["model"] = "response.create", model
	c.say(body)
	for {
		var e map[string]any
		if err := json.Unmarshal([]byte(c.hear().raw), &e); err != nil {
			c.t.Fatal(err)
		}
		for _, wrong := range demanded(e) {
			c.t.Error(wrong)
		}
		switch e["type"] {
		case "error":
			return nil, e
		case "response.completed", "response.failed", "response.incomplete":
			return object(e["response"]), nil
		}
	}
}

// refused wants an error event with a code.
func refused(t *testing.T, refusal map[string]any, code string) {
	t.Helper()
	if got := object(refusal["error"])["code"]; got != code {
		t.Errorf("%v, want %s", refusal, code)
	}
}

func TestOpenResponsesOverWebSockets(t *testing.T) {
	s := openSuite(t)
	t.Run("websocket-response", func(t *testing.T) {
		final, _ := s.talk(t).turn(fields{"input": []fields{message("user", "Count from 1 to 3.")}})
		good(t, http.StatusOK, final)
	})
	t.Run("websocket-sequential-responses", func(t *testing.T) {
		c := s.talk(t)
		for _, word := range []string{"first", "second"} {
			final, _ := c.turn(fields{"store": false, "input": word})
			good(t, http.StatusOK, final)
			if words(final) != word {
				t.Errorf("%s: %s", word, words(final))
			}
		}
	})
	t.Run("websocket-continuation", func(t *testing.T) {
		c := s.talk(t)
		first, _ := c.turn(fields{"store": false, "input": "Remember the code word: cobalt."})
		second, _ := c.turn(fields{"store": false, "previous_response_id": first["id"], "input": "What is the code word?"})
		good(t, http.StatusOK, second)
		if !strings.Contains(words(second), "cobalt") || second["previous_response_id"] != first["id"] {
			t.Errorf("%v", second)
		}
	})
	t.Run("websocket-previous-response-not-found", func(t *testing.T) {
		_, refusal := s.talk(t).turn(fields{"store": false, "previous_response_id": "resp_openresponses_missing", "input": "This should fail."})
		refused(t, refusal, "previous_response_not_found")
	})
	t.Run("websocket-reconnect-store-false-recovery", func(t *testing.T) {
		first, _ := s.talk(t).turn(fields{"store": false, "input": "Remember the code word: copper."})
		c := s.talk(t)
		_, refusal := c.turn(fields{"store": false, "previous_response_id": first["id"], "input": "Try to continue."})
		refused(t, refusal, "previous_response_not_found")
		recovered, _ := c.turn(fields{"store": false, "input": []fields{message("user", "Start anew.")}})
		good(t, http.StatusOK, recovered)
	})
	t.Run("websocket-failed-continuation-evicts-cache", func(t *testing.T) {
		c := s.talk(t)
		first, _ := c.turn(fields{"store": false, "input": "Remember the code word: ember."})
		_, refusal := c.turn(fields{"store": false, "previous_response_id": first["id"],
			"input": []fields{{"type": "function_call_output", "call_id": "call_openresponses_missing", "output": "No such call."}}})
		if refusal == nil {
			t.Error("an output of no call was taken")
		}
		_, refusal = c.turn(fields{"store": false, "previous_response_id": first["id"], "input": "Try to continue."})
		refused(t, refusal, "previous_response_not_found")
	})
	t.Run("websocket-compact-new-chain", func(t *testing.T) {
		output := compacted(t, s, fields{"input": []fields{message("user", []fields{{"type": "input_text", "text": "Remember the code word: slate."}}),
			message("assistant", []fields{{"type": "output_text", "text": "OK."}}), message("user", []fields{{"type": "input_text", "text": "Compress this."}})}})
		final, refusal := s.talk(t).turn(fields{"store": false, "input": append(output, message("user", "Continue from here.")), "tools": []fields{}})
		if refusal != nil {
			t.Fatal(refusal)
		}
		good(t, http.StatusOK, final)
		if !strings.Contains(words(final), "Continue from here.") {
			t.Errorf("the model was told %s", words(final))
		}
	})
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// turns is how many commands the model has run before it answers.
const turns = 3

// lines is what each command prints, one line every few milliseconds.
const lines = 20

// model speaks Chat Completions. What it says depends on the conversation alone, so that asked again it says the same.
type model struct {
	url string
	srv *http.Server
}

func startModel() (*model, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &model{url: "http://" + l.Addr().String() + "/v1", srv: &http.Server{Handler: http.HandlerFunc(answer), ReadHeaderTimeout: 10 * time.Second}}
	go m.srv.Serve(l)
	return m, nil
}

func (m *model) close() { m.srv.Close() }

// token names one command of one job.
func token(job string, turn int) string { return fmt.Sprintf("%s-%d", job, turn) }

// script is a command that leaves a mark where it ran, and takes its time.
func script(job string, turn int) string {
	t := token(job, turn)
	asks := ""
	if turn == 1 {
		asks = "rm -rf /mnt/data/nothing; " // a person is asked first
	}
	return asks + fmt.Sprintf("echo %s >> /mnt/data/ran; for i in $(seq 1 %d); do echo %s line $i; sleep 0.01; done; echo %s done >&2", t, lines, t, t)
}

func answer(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
			Calls   json.RawMessage `json:"tool_calls"`
		} `json:"messages"`
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
	if err != nil || json.Unmarshal(body, &req) != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	job := ""
	for _, m := range req.Messages {
		if _, rest, ok := strings.Cut(string(m.Content), "job:"); ok && m.Role == "user" {
			job, _, _ = strings.Cut(rest, ";")
		}
	}
	// How far the job is. The latest call and its output are there whatever a compaction has taken away.
	turn := 0
	for n := range turns {
		for _, m := range req.Messages {
			if m.Role == "tool" && bytes.Contains(m.Content, []byte(token(job, n)+" done")) {
				turn = n + 1
			}
			if bytes.Contains(m.Calls, []byte("echo "+token(job, n)+" done")) { // one that was not run is asked for again
				turn = max(turn, n)
			}
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	send := func(delta any, finish string) bool {
		choice := map[string]any{"index": 0, "delta": delta, "finish_reason": nil}
		if finish != "" {
			choice["finish_reason"] = finish
		}
		raw, _ := json.Marshal(map[string]any{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []any{choice}})
		fmt.Fprintf(w, "data: %s\n\n", raw)
		if out.Flush() != nil {
			return false
		}
		select {
		case <-time.After(3 * time.Millisecond): // a model takes its time
			return true
		case <-r.Context().Done():
			return false
		}
	}
	for i := range 12 {
		if !send(map[string]string{"content": fmt.Sprintf("turn %d word %d, ", turn, i)}, "") {
			return
		}
	}
	if turn >= turns {
		send(map[string]string{}, "stop")
	} else {
		args, _ := json.Marshal(map[string]any{"commands": []string{script(job, turn)}})
		call := func(name, id, arguments string) map[string]any {
			f := map[string]any{"arguments": arguments}
			c := map[string]any{"index": 0, "function": f}
			if name != "" {
				f["name"], c["id"], c["type"] = name, id, "function"
			}
			return map[string]any{"tool_calls": []any{c}}
		}
		// The model's own id is the same in every turn: nothing may hang on it.
		if !send(call("shell", "call_same", string(args[:20])), "") || !send(call("", "", string(args[20:])), "") {
			return
		}
		send(map[string]string{}, "tool_calls")
	}
	io.WriteString(w, "data: [DONE]\n\n")
}

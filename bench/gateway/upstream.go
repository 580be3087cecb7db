package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	chunks = 64
	word   = "token "
)

// serveChild is the mock or the floor, until standard input ends. It prints its URL first.
func serveChild(ctx context.Context, kind, upstream string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var h http.Handler = http.HandlerFunc(completions)
	if kind == "floor" {
		if h, err = proxy(upstream); err != nil {
			return err
		}
	}
	fmt.Printf("http://%s\n", l.Addr())
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		var b [1]byte
		waitForEOF(b[:])
		s.Close()
	}()
	context.AfterFunc(ctx, func() { s.Close() })
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// proxy is the least that a gateway can be: one that reads the body first, as a proxy that does not cuts streams.
func proxy(upstream string) (http.Handler, error) {
	u, err := url.Parse(upstream)
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(u)
			body, err := io.ReadAll(r.In.Body)
			if err != nil {
				body = nil // the upstream then answers 400
			}
			r.Out.Body = io.NopCloser(bytes.NewReader(body))
			r.Out.ContentLength = int64(len(body))
		},
		FlushInterval: -1,
		Transport: &http.Transport{MaxIdleConns: 4096, MaxIdleConnsPerHost: 4096, IdleConnTimeout: time.Minute,
			DisableCompression: true},
	}, nil
}

// completions answers Chat Completions: 64 chunks at once, or for the model "paced-RATE-COUNT" one every 1/RATE
// seconds that says when it was made.
func completions(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/chat/completions" {
		http.NotFound(w, r)
		return
	}
	var req struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
	if err != nil || json.Unmarshal(body, &req) != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	if !req.Stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"mock","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":%d,"total_tokens":%d}}`,
			strings.Repeat(word, chunks), chunks, chunks+12)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	out := http.NewResponseController(w)
	send := func(data string) {
		io.WriteString(w, "data: "+data+"\n\n")
		out.Flush()
	}
	const head = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"mock","choices":[{"index":0,"delta":`
	send(head + `{"role":"assistant","content":""},"finish_reason":null}]}`)
	if spec, ok := strings.CutPrefix(req.Model, "paced-"); ok {
		rate, count, _ := strings.Cut(spec, "-")
		pace(r.Context(), send, head, rate, count)
	} else {
		for range chunks {
			send(head + `{"content":"` + word + `"},"finish_reason":null}]}`)
		}
	}
	send(head + `{},"finish_reason":"stop"}]}`)
	send(fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"mock","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":%d,"total_tokens":%d}}`, chunks, chunks+12))
	send("[DONE]")
}

// pace sends chunks that hold their own time of birth. A late tick is not made up for by a burst.
func pace(ctx context.Context, send func(string), head, rate, count string) {
	perSecond, _ := strconv.Atoi(rate)
	n, _ := strconv.Atoi(count)
	if perSecond <= 0 || n <= 0 {
		return
	}
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for range n {
		select {
		case <-tick.C:
			send(fmt.Sprintf(`%s{"content":"%019d "},"finish_reason":null}]}`, head, time.Now().UnixNano()))
		case <-ctx.Done():
			return
		}
	}
}

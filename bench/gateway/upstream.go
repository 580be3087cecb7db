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
	var h http.Handler = http.HandlerFunc(mock)
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

// mock answers in every dialect: 64 chunks at once, or for the model "paced-RATE-COUNT" one every 1/RATE seconds that
// says when it was made.
func mock(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
	if err != nil || json.Unmarshal(body, &req) != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	kind := ""
	switch path := r.URL.Path; path {
	case "/v1/chat/completions":
		kind = "chat"
	case "/v1/responses":
		kind = "openai"
	case "/v1/messages":
		kind = "anthropic"
	default: // model and stream stand in the path
		var how string
		if rest, ok := strings.CutPrefix(path, "/model/"); ok {
			kind = "bedrock"
			req.Model, how, _ = strings.Cut(rest, "/")
			req.Stream = how == "converse-stream"
		} else if rest, ok := strings.CutPrefix(path, "/v1beta/models/"); ok {
			kind = "gemini"
			req.Model, how, _ = strings.Cut(rest, ":")
			req.Stream = how == "streamGenerateContent"
		}
	}
	s := speeches[kind]
	if s == nil {
		http.NotFound(w, r)
		return
	}
	if !req.Stream {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, s.whole)
		return
	}
	w.Header().Set("Content-Type", s.contentType)
	w.Header().Set("Cache-Control", "no-cache")
	out := http.NewResponseController(w)
	send := func(message string) {
		io.WriteString(w, message)
		out.Flush()
	}
	for _, m := range s.head {
		send(m)
	}
	if spec, ok := strings.CutPrefix(req.Model, "paced-"); ok {
		rate, count, _ := strings.Cut(spec, "-")
		pace(r.Context(), func(text string) { send(s.delta(text)) }, rate, count)
	} else {
		for range chunks {
			send(s.word)
		}
	}
	for _, m := range s.tail {
		send(m)
	}
}

// pace says chunks that hold their own time of birth. A late tick is not made up for by a burst.
func pace(ctx context.Context, say func(text string), rate, count string) {
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
			say(fmt.Sprintf("%019d ", time.Now().UnixNano()))
		case <-ctx.Done():
			return
		}
	}
}

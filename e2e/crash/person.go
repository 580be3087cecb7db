package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"time"
)

// person is who is asked: one command of every job waits for a yes.
type person struct {
	srv      *server
	key      string
	answered int // what the server has taken
}

// newPerson makes a key that approves.
func newPerson(ctx context.Context, srv *server) (*person, error) {
	out, err := exec.CommandContext(ctx, srv.binary, "key", "create", "--scope", "approve", "--data", srv.data, "--config", srv.config).Output()
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return &person{srv: srv, key: strings.TrimSpace(string(out))}, nil
}

// approve answers whatever waits, until ctx ends. A server that is gone meanwhile is asked again.
func (p *person) approve(ctx context.Context) {
	for ctx.Err() == nil {
		for _, id := range p.waiting(ctx) {
			res, err := p.do(ctx, http.MethodPost, "/v1/approvals/"+id, []byte(`{"decision":"approve"}`))
			if err != nil {
				break
			}
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				p.answered++
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (p *person) waiting(ctx context.Context) (ids []string) {
	res, err := p.do(ctx, http.MethodGet, "/v1/approvals?status=pending&limit=100", nil)
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	var page struct{ Data []struct{ ID string } }
	if json.NewDecoder(res.Body).Decode(&page) != nil {
		return nil
	}
	for _, a := range page.Data {
		ids = append(ids, a.ID)
	}
	return ids
}

func (p *person) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.srv.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+p.key)
	req.Header.Set("Content-Type", "application/json")
	return p.srv.client.Do(req)
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// api is a server of the built binary.
type api struct {
	process   *exec.Cmd
	url, key  string
	container string // of the last response
}

func serve(base, binary string) (*api, error) {
	data := filepath.Join(base, "data")
	a := &api{process: exec.Command(binary, "serve", "--listen", "127.0.0.1:0", "--data", data)}
	a.process.Env = append(os.Environ(), "HARDSHELL_CONFIG=", "HARDSHELL_LOG__LEVEL=error")
	if err := a.process.Start(); err != nil {
		return nil, err
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		raw, err := os.ReadFile(filepath.Join(data, "server.json"))
		var address struct{ URL string }
		if err != nil || json.Unmarshal(raw, &address) != nil {
			continue
		}
		key, err := os.ReadFile(filepath.Join(data, "admin.key"))
		if err != nil {
			continue
		}
		a.url, a.key = address.URL, strings.TrimSpace(string(key))
		return a, nil
	}
	a.stop()
	return nil, errors.New("the server did not come up")
}

func (a *api) stop() {
	a.process.Process.Signal(syscall.SIGTERM)
	a.process.Wait()
}

func (a *api) request(method, path string, body []byte) ([]byte, error) {
	r, err := http.NewRequest(method, a.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+a.key)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", answer.StatusCode, raw)
	}
	return raw, err
}

// respond has the scripted model run one command in a container that is made for it. The answer is stored.
func (a *api) respond() error {
	raw, err := a.request("POST", "/v1/responses", []byte(`{"model":"scripted","input":"$ true","tools":[{"type":"shell","environment":{"type":"container_auto"}}]}`))
	if err != nil {
		return err
	}
	var got struct {
		Status string
		Output []struct {
			Type        string
			Environment struct {
				ContainerID string `json:"container_id"`
			}
			Output []struct {
				Outcome struct {
					Type     string
					ExitCode *int `json:"exit_code"`
				}
			}
		}
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		return err
	}
	ran := false
	for _, item := range got.Output {
		if item.Environment.ContainerID != "" {
			a.container = item.Environment.ContainerID
		}
		for _, o := range item.Output {
			ran = ran || o.Outcome.Type == "exit" && o.Outcome.ExitCode != nil && *o.Outcome.ExitCode == 0
		}
	}
	if got.Status != "completed" || !ran || a.container == "" {
		return fmt.Errorf("the command was not run: %s", raw)
	}
	return nil
}

func (a *api) remove() error {
	_, err := a.request("DELETE", "/v1/containers/"+a.container, nil)
	return err
}

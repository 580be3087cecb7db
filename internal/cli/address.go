package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/internal/config"
)

// addressFile is where a running server says how to reach it.
const addressFile = "server.json"

// address is how to reach the server of a data folder.
type address struct {
	URL         string `json:"url"`
	PID         int    `json:"pid"`
	Certificate string `json:"certificate_sha256,omitempty"`
	Version     string `json:"version"`
}

// writeAddress leaves an address, whole or not at all, for this user's eyes.
func writeAddress(data string, a address) error {
	a.PID, a.Version = os.Getpid(), readBuild().Version
	raw, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("write the server's address: %w", err)
	}
	temp := filepath.Join(data, addressFile+".new")
	if err := os.WriteFile(temp, append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the server's address: %w", err)
	}
	if err := os.Rename(temp, filepath.Join(data, addressFile)); err != nil {
		return fmt.Errorf("write the server's address: %w", err)
	}
	return nil
}

func removeAddress(data string) { os.Remove(filepath.Join(data, addressFile)) }

// readAddress reads the address that the present owner of a data folder has left. A file that somebody else wrote
// before it was killed does not count: its port may be a stranger's by now, and the admin key would go there.
func readAddress(data string) (address, bool) {
	var a address
	raw, err := os.ReadFile(filepath.Join(data, addressFile))
	if err != nil || json.Unmarshal(raw, &a) != nil {
		return address{}, false
	}
	return a, a.PID == owner(data) && a.PID != 0
}

// owner is the process that holds the data folder's lock, as the lock's file says; 0 when it does not.
func owner(data string) int {
	raw, err := os.ReadFile(filepath.Join(data, config.Database+".lock"))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(raw)))
	return pid
}

// healthy says whether a server answers at the address.
func healthy(ctx context.Context, client *http.Client, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/healthz", nil)
	if err != nil {
		return false
	}
	answer, err := client.Do(request)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	var h health
	return answer.StatusCode == http.StatusOK && json.NewDecoder(io.LimitReader(answer.Body, 64<<10)).Decode(&h) == nil && h.Status == "ok"
}

package cli

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
)

// TestEveryCodeOfContainersAndFiles is the list of error codes that clients of containers, their files and input files
// know, each as the program answers it.
func TestEveryCodeOfContainersAndFiles(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	data := t.TempDir()
	l := serveLimited(t, data, `
[features.server_tools.shell_limits]
max_mem_limit_mb = 1024
[features.containers]
default_idle_ttl_secs = 1
max_file_mb = 1
[features.files]
max_file_mb = 1
`)
	const form = `multipart/form-data; boundary=b`
	part := func(head, body string) string {
		return "--b\r\nContent-Disposition: form-data; " + head + "\r\n\r\n" + body + "\r\n"
	}
	container := `,"expires_after":{"anchor":"last_active_at","minutes":30}`
	into := "/v1/containers/" + l.container(container, 200, "")["id"].(string) + "/files"
	shell := func(environment string) string {
		return `{"model":"stub/m","input":"{}","tools":[{"type":"shell","environment":` + environment + `}]}`
	}
	input := func(parts ...string) string {
		return `{"model":"stub/m","tools":[{"type":"shell"}],"input":[{"role":"user","content":[` + strings.Join(parts, ",") + `]}]}`
	}
	over := strings.Repeat("a", 1<<20+1)
	for _, c := range []struct {
		code   string
		path   string
		kind   string // of the body; empty is JSON
		body   string
		status int
	}{
		{"container_not_found", "GET /v1/containers/cntr_none", "", "", 404},
		{"container_not_found", "POST /v1/responses", "", shell(`{"type":"container_reference","container_id":"cntr_none"}`), 404},
		{"name_too_long", "POST /v1/containers", "", `{"name":"` + strings.Repeat("n", 256) + `"}`, 400},
		{"invalid_memory_limit", "POST /v1/containers", "", `{"name":"n","memory_limit":"lots"}`, 400},
		{"memory_limit_exceeds_cap", "POST /v1/containers", "", `{"name":"n","memory_limit":"4g"}`, 400},
		{"invalid_expires_after", "POST /v1/containers", "", `{"name":"n","expires_after":{"anchor":"now","minutes":5}}`, 400},
		{"expires_after_exceeds_cap", "POST /v1/containers", "", `{"name":"n","expires_after":{"anchor":"last_active_at","minutes":86401}}`, 400},
		{"network_policy_rejected", "POST /v1/containers", "", `{"name":"n","network_policy":{"type":"allowlist","allowed_domains":["a.test"]}}`, 400},
		{"invalid_skill_reference", "POST /v1/containers", "", `{"name":"n","skills":[{"type":"skill_reference","skill_id":"none"}]}`, 400},
		{"invalid_inline_skill", "POST /v1/containers", "", `{"name":"n","skills":[{"type":"inline","name":"s","description":"d","source":{"type":"base64","media_type":"application/zip","data":"eA=="}}]}`, 400},
		{"unsupported_inline_skill_media_type", "POST /v1/containers", "", `{"name":"n","skills":[{"type":"inline","name":"s","description":"d","source":{"type":"base64","media_type":"image/png","data":"eA=="}}]}`, 400},
		{"invalid_file_id", "POST /v1/containers", "", `{"name":"n","file_ids":[""]}`, 400},
		{"file_not_found", "POST /v1/containers", "", `{"name":"n","file_ids":["file_06gzvasfs504rc8kv5grgtmpbg"]}`, 400},
		{"invalid_path", "POST " + into, form, part(`name="file"; filename="../x"`, "x") + "--b--\r\n", 400},
		{"missing_file_part", "POST " + into, form, part(`name="other"`, "x") + "--b--\r\n", 400},
		{"invalid_multipart", "POST " + into, form, "--b\r\nnonsense", 400},
		{"invalid_body", "POST " + into, "", `{"file_id":`, 400},
		{"unsupported_content_type", "POST " + into, "text/plain", "x", 415},
		{"file_too_large", "POST " + into, form, part(`name="file"; filename="x"`, over) + "--b--\r\n", 413},
		{"file_not_found", "GET " + into + "/cfile_none", "", "", 404},
		{"file_too_large", "POST /v1/files", form, part(`name="purpose"`, "user_data") + part(`name="file"; filename="x"`, over) + "--b--\r\n", 413},
		{"missing_file_part", "POST /v1/files", form, part(`name="purpose"`, "user_data") + "--b--\r\n", 400},
		{"unsupported_content_type", "POST /v1/files", "", `{}`, 415},
		{"file_not_found", "GET /v1/files/file_none", "", "", 404},
		{"invalid_input_file", "POST /v1/responses", "", input(`{"type":"input_file","filename":"a"}`), 400},
		{"invalid_input_file_id", "POST /v1/responses", "", input(`{"type":"input_file","file_id":"file_none"}`), 400},
		{"invalid_input_file_data", "POST /v1/responses", "", input(`{"type":"input_file","file_data":"!!"}`), 400},
		{"invalid_input_file_url", "POST /v1/responses", "", input(`{"type":"input_file","file_url":"ftp://a.test/x"}`), 400},
		{"too_many_input_files", "POST /v1/responses", "", input(strings.Split(strings.TrimSuffix(strings.Repeat(`{"type":"input_file","file_data":"YQ=="} `, 33), " "), " ")...), 400},
	} {
		method, path, _ := strings.Cut(c.path, " ")
		kind := c.kind
		if kind == "" {
			kind = "application/json"
		}
		t.Run(c.code+" "+c.path[:min(len(c.path), 24)], func(t *testing.T) {
			limited{t, l.url, l.key}.send(method, path, kind, strings.NewReader(c.body), c.status, c.code)
		})
	}
	t.Run("unsupported_skill_version", func(t *testing.T) {
		l := limited{t, l.url, l.key}
		skill := part(`name="files"; filename="s/SKILL.md"`, "---\nname: s\ndescription: d\n---\nx\n") + "--b--\r\n"
		id := l.send("POST", "/v1/skills", form, strings.NewReader(skill), 200, "")["id"].(string)
		l.container(`,"skills":[{"type":"skill_reference","skill_id":"`+id+`","version":"7"}]`, 400, "unsupported_skill_version")
	})
	t.Run("file_content_unavailable", func(t *testing.T) {
		l := limited{t, l.url, l.key}
		id := l.upload("/v1/files", 54_321, 200, "")["id"].(string)
		removed := 0
		err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			if info, err := d.Info(); err != nil || info.Size() != 54_321 {
				return err
			}
			removed++
			return os.Remove(path)
		})
		if err != nil || removed != 1 {
			t.Fatalf("%d files removed, %v", removed, err)
		}
		l.send("GET", "/v1/files/"+id+"/content", "", nil, 500, "file_content_unavailable")
	})
	t.Run("container_expired", func(t *testing.T) {
		l := limited{t, l.url, l.key}
		id := l.container("", 200, "")["id"].(string)
		l.until("it has expired", func() bool {
			return l.send("GET", "/v1/containers/"+id, "", nil, 200, "")["status"] == "expired"
		})
		l.upload("/v1/containers/"+id+"/files", 1, 404, "container_expired")
		body, err := json.Marshal(json.RawMessage(shell(`{"type":"container_reference","container_id":"` + id + `"}`)))
		if err != nil {
			t.Fatal(err)
		}
		l.send("POST", "/v1/responses", "application/json", bytes.NewReader(body), 404, "container_expired")
	})
}

package openai

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/skill"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// openSkills is a door over the real room of skills.
func openSkills(t testing.TB, limits skill.Limits) *house {
	t.Helper()
	db, blobs, dir := rooms(t)
	skills, err := skill.New(context.Background(), skill.Options{DB: db, Limits: limits, Dir: dir, Blobs: blobs})
	if err != nil {
		t.Fatal(err)
	}
	return openOver(t, 0, func(d *Door) { d.Skills = skills })
}

const skillMD = "---\nname: tables\ndescription: reads tables\n---\n# How\n"

// skillPart is a part that holds a file of a skill, or a whole one.
func skillPart(field, name, content string) string {
	return "--b\r\nContent-Disposition: form-data; name=\"" + field + "\"; filename=\"" + name + "\"\r\n\r\n" + content + "\r\n"
}

func (h *house) bundle(t testing.TB, path string, parts ...string) (*http.Response, string) {
	t.Helper()
	return h.do(t, "POST", path, []byte(strings.Join(parts, "")+"--b--\r\n"),
		func(r *http.Request) { r.Header.Set("Content-Type", "multipart/form-data; boundary=b") })
}

func read[T any](t testing.TB, res *http.Response, body string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &v); res.StatusCode != 200 || err != nil {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	return v
}

func archive(t testing.TB, names map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, content := range names {
		w, err := z.Create(name)
		if err == nil {
			_, err = io.WriteString(w, content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestSkillsAPI(t *testing.T) {
	h := openSkills(t, skill.Limits{})
	get := func(path string) (*http.Response, string) { return h.do(t, "GET", path, nil, nil) }
	// The SDKs keep relative paths as file names.
	res, body := h.bundle(t, "/v1/skills", skillPart("files[]", "tables/SKILL.md", skillMD), skillPart("files[]", "tables/bin/run", "#!/bin/sh\n"),
		skillPart("files[]", "tables/data/a", "a"))
	s := read[wire.Skill](t, res, body)
	if s.Object != "skill" || s.Name != "tables" || s.Description != "reads tables" || s.DefaultVersion != "1" || s.LatestVersion != "1" ||
		!strings.HasPrefix(s.ID, "skill_") || s.CreatedAt == 0 {
		t.Fatalf("%+v", s)
	}
	at := "/v1/skills/" + s.ID
	res, body = h.bundle(t, at+"/versions", field("default", "true"), skillPart("files", "x.zip", archive(t, map[string]string{"SKILL.md": skillMD, "b": "b"})))
	v := read[wire.SkillVersion](t, res, body)
	if v.Object != "skill.version" || v.SkillID != s.ID || v.Version != "2" || v.Name != "tables" {
		t.Fatalf("%+v", v)
	}
	res, body = h.do(t, "POST", at, []byte(`{"default_version":"1"}`), nil)
	if s = read[wire.Skill](t, res, body); s.DefaultVersion != "1" || s.LatestVersion != "2" {
		t.Errorf("%+v", s)
	}
	for path, want := range map[string]string{at + "/content": "SKILL.md bin/run* data/a", at + "/versions/2/content": "SKILL.md b"} {
		res, body = get(path)
		z, err := zip.NewReader(strings.NewReader(body), int64(len(body)))
		if err != nil || res.Header.Get("Content-Type") != "application/zip" || !strings.Contains(res.Header.Get("Content-Disposition"), "tables-") {
			t.Fatalf("%s: %v %v", path, err, res.Header)
		}
		var names []string
		for _, f := range z.File {
			name := f.Name
			if f.Mode()&0o111 != 0 {
				name += "*"
			}
			names = append(names, name)
		}
		if strings.Join(names, " ") != want {
			t.Errorf("%s holds %v, want %s", path, names, want)
		}
	}
	res, body = get(at + "/versions?limit=1")
	page := read[wire.List[wire.SkillVersion]](t, res, body)
	if len(page.Data) != 1 || page.Data[0].Version != "2" || !page.HasMore {
		t.Errorf("%+v", page)
	}
	res, body = get(at + "/versions?limit=1&after=" + *page.LastID)
	if page = read[wire.List[wire.SkillVersion]](t, res, body); len(page.Data) != 1 || page.Data[0].Version != "1" || page.HasMore {
		t.Errorf("%+v", page)
	}
	res, body = get("/v1/skills")
	if list := read[wire.List[wire.Skill]](t, res, body); len(list.Data) != 1 || list.Data[0].ID != s.ID {
		t.Errorf("%+v", list)
	}
	res, body = h.do(t, "DELETE", at+"/versions/2", nil, nil)
	if gone := read[wire.DeletedSkillVersion](t, res, body); gone.Object != "skill.version.deleted" || !gone.Deleted || gone.Version != "2" || gone.ID != v.ID {
		t.Errorf("%+v", gone)
	}
	res, body = h.do(t, "DELETE", at, nil, nil)
	if gone := read[wire.Deleted](t, res, body); gone.Object != "skill.deleted" || !gone.Deleted || gone.ID != s.ID {
		t.Errorf("%+v", gone)
	}
	for _, path := range []string{at, at + "/content", at + "/versions", at + "/versions/1", at + "/versions/1/content", at + "/versions/x"} {
		if res, body := get(path); res.StatusCode != 404 || !strings.Contains(body, "skill_not_found") {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
	}
}

func TestSkillsRefusals(t *testing.T) {
	h := openSkills(t, skill.Limits{MaxArchive: 20_000, MaxFiles: 3})
	res, body := h.bundle(t, "/v1/skills", skillPart("files[]", "SKILL.md", skillMD))
	at := "/v1/skills/" + read[wire.Skill](t, res, body).ID
	for name, c := range map[string]struct {
		path   string
		parts  []string
		status int
		code   string
	}{
		"no file":         {"/v1/skills", []string{field("default", "true")}, 400, "missing_file_part"},
		"no SKILL.md":     {"/v1/skills", []string{skillPart("files[]", "a", "x")}, 400, "invalid_skill"},
		"no name":         {"/v1/skills", []string{skillPart("files[]", "SKILL.md", "x")}, 400, "invalid_skill"},
		"traversal":       {"/v1/skills", []string{skillPart("files[]", "SKILL.md", skillMD), skillPart("files[]", "../../x", "x")}, 400, "invalid_skill"},
		"absolute":        {"/v1/skills", []string{skillPart("files[]", "SKILL.md", skillMD), skillPart("files[]", "/etc/x", "x")}, 400, "invalid_skill"},
		"traversal, zip":  {"/v1/skills", []string{skillPart("files", "x.zip", archive(t, map[string]string{"SKILL.md": skillMD, "../x": "x"}))}, 400, "invalid_skill"},
		"a bomb":          {"/v1/skills", []string{skillPart("files", "x.zip", archive(t, map[string]string{"SKILL.md": skillMD, "x": strings.Repeat("0", 30<<20)}))}, 413, "skill_too_large"},
		"too large":       {"/v1/skills", []string{skillPart("files[]", "SKILL.md", skillMD), skillPart("files[]", "x", strings.Repeat("0", 30_000))}, 413, "skill_too_large"},
		"too many":        {"/v1/skills", []string{skillPart("files[]", "SKILL.md", skillMD), skillPart("files[]", "a", ""), skillPart("files[]", "b", ""), skillPart("files[]", "c", "")}, 413, "skill_too_large"},
		"a wrong default": {at + "/versions", []string{field("default", "maybe"), skillPart("files[]", "SKILL.md", skillMD)}, 400, "invalid_value"},
		"unknown skill":   {"/v1/skills/skill_x/versions", []string{skillPart("files[]", "SKILL.md", skillMD)}, 404, "skill_not_found"},
	} {
		if res, body := h.bundle(t, c.path, c.parts...); res.StatusCode != c.status || !strings.Contains(body, `"`+c.code+`"`) {
			t.Errorf("%s: %d %s", name, res.StatusCode, body)
		}
	}
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		code               string
	}{
		"no form":               {"POST", "/v1/skills", "{}", 415, "unsupported_content_type"},
		"default is no number":  {"POST", at, `{"default_version":"latest"}`, 400, "invalid_value"},
		"default is not there":  {"POST", at, `{"default_version":"7"}`, 404, "skill_version_not_found"},
		"version is no number":  {"GET", at + "/versions/01", "", 404, "skill_version_not_found"},
		"delete of the default": {"DELETE", at + "/versions/1", "", 409, "default_skill_version"},
		"limit":                 {"GET", "/v1/skills?limit=1000", "", 400, "invalid_value"},
		"after":                 {"GET", "/v1/skills?after=x", "", 400, "invalid_value"},
	} {
		if res, body := h.do(t, c.method, c.path, []byte(c.body), nil); res.StatusCode != c.status || !strings.Contains(body, `"`+c.code+`"`) {
			t.Errorf("%s: %d %s", name, res.StatusCode, body)
		}
	}
	if res, body := h.do(t, "GET", "/v1/skills", nil, nil); len(read[wire.List[wire.Skill]](t, res, body).Data) != 1 {
		t.Errorf("a refused skill is listed: %s", body)
	}
}

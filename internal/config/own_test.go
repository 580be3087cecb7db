package config

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOwn(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	relative := write("relative.toml", "[storage]\ndata = \"here\"\n[providers.x]\napi_key = \"env:NOT_SET\"\nbogus = 1\n")
	home := write("home.toml", "[storage]\ndata = \"~/mine\"\n")
	silent := write("silent.toml", "")
	broken := write("broken.toml", "[storage\n")
	cases := map[string]struct {
		environ    []string
		data, file string
		fails      bool
	}{
		"nothing":                   {environ: []string{"HOME=/nowhere", "XDG_CONFIG_HOME=" + filepath.Join(dir, "none")}},
		"beside the file":           {environ: []string{"HARDSHELL_CONFIG=" + relative}, data: filepath.Join(dir, "here"), file: relative},
		"below the home":            {environ: []string{"HARDSHELL_CONFIG=" + home, "HOME=/home/u"}, data: "/home/u/mine", file: home},
		"not in the file":           {environ: []string{"HARDSHELL_CONFIG=" + silent}, file: silent},
		"a variable before it":      {environ: []string{"HARDSHELL_CONFIG=" + home, "HARDSHELL_DATA=/a"}, data: "/a", file: home},
		"the key's own before that": {environ: []string{"HARDSHELL_DATA=/a", "HARDSHELL_STORAGE__DATA=/b", "XDG_CONFIG_HOME=" + filepath.Join(dir, "none")}, data: "/b"},
		"a file that is not there":  {environ: []string{"HARDSHELL_CONFIG=" + filepath.Join(dir, "absent.toml")}},
		"a file that is broken":     {environ: []string{"HARDSHELL_CONFIG=" + broken}, fails: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			data, file, err := Own(Source{Environ: c.environ})
			if data != c.data || file != c.file || (err != nil) != c.fails {
				t.Errorf("got %q, %q, %v", data, file, err)
			}
		})
	}
}

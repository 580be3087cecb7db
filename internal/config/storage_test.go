package config

import (
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
)

func TestContainerFiles(t *testing.T) {
	const whole = "[storage.container_files]\nbackend = \"s3\"\n[storage.container_files.s3]\nendpoint = \"https://s3.example.com\"\nbucket = \"b\"\n" +
		"access_key_id = \"a\"\nsecret_access_key = \"hidden-secret\"\npath_style = true\nprefix = \"hardshell/\"\n"
	l, err := Load(Source{Path: write(t, whole), Environ: environ(t)})
	if err != nil {
		t.Fatal(err)
	}
	if o := l.Config.Storage.ContainerFiles.S3; o.SecretAccessKey.Reveal() != "hidden-secret" || !o.PathStyle || o.Region != "us-east-1" {
		t.Errorf("%+v", o)
	}
	for _, k := range l.Keys() {
		if strings.Contains(k.Value, "hidden-secret") {
			t.Errorf("%s shows the secret", k.Name)
		}
	}
	for text, key := range map[string]string{
		"[storage.container_files]\nbackend = \"tape\"\n":                        "backend",
		"[storage.container_files]\nbackend = \"s3\"\n":                          "s3.endpoint",
		strings.Replace(whole, "bucket = \"b\"\n", "", 1):                        "s3.bucket",
		strings.Replace(whole, "secret_access_key = \"hidden-secret\"\n", "", 1): "s3.secret_access_key",
		strings.Replace(whole, "https://s3.example.com", "s3.example.com", 1):    "s3.endpoint",
		strings.Replace(whole, "\"hardshell/\"", "\"/abs\"", 1):                  "s3.prefix",
		whole + "sse = \"rot13\"\n":                                              "s3.sse",
	} {
		_, err := Load(Source{Path: write(t, text), Environ: environ(t)})
		if _, ok := fault.As(err); !ok || !strings.Contains(err.Error(), key) {
			t.Errorf("%s\ngives %v, want an error about %s", text, err, key)
		}
	}
}

func TestLimitsOfContainers(t *testing.T) {
	l, err := Load(Source{Path: write(t, "[features.shell]\ncpus = 1\nmemory_mb = 512\n[features.server_tools.shell_limits]\ndefault_cpu_limit = 0.5\n"), Environ: environ(t)})
	if err != nil {
		t.Fatal(err)
	}
	if f := l.Config.Features; f.Shell.CPUs != 1 || f.Shell.MemoryMB != 512 || f.ServerTools.ShellLimits.DefaultCPULimit != 0.5 || f.Containers.DiskMB != 10240 {
		t.Errorf("%+v", f)
	}
	for text, key := range map[string]string{
		"[features.shell]\ncpus = -1\n":            "features.shell.cpus",
		"[features.shell]\ncpus = 0.001\n":         "features.shell.cpus",
		"[features.shell]\nmemory_mb = -1\n":       "features.shell.memory_mb",
		"[features.containers]\ndisk_mb = -1\n":    "features.containers.disk_mb",
		"[features.containers]\nmax_file_mb = 0\n": "features.containers.max_file_mb",
		"[features.files]\nmax_org_mb = -5\n":      "features.files.max_org_mb",
		"[features.shell]\nmemory_mb = 2048\n[features.server_tools.shell_limits]\nmax_mem_limit_mb = 1024\n": "features.shell.memory_mb",
	} {
		if _, err := Load(Source{Path: write(t, text), Environ: environ(t)}); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s\ngives %v, want an error about %s", text, err, key)
		}
	}
}

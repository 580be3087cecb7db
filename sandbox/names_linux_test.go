package sandbox

import (
	"slices"
	"testing"
)

func TestOtherNames(t *testing.T) {
	mounts := []mountPoint{{"8:1", "/", "/"}, {"8:2", "/", "/home"}, {"8:2", "/u/src", "/srv/src"}, {"8:1", "/var", "/old root/var"}, {"8:3", "/", "/home/u/usb"}, {"8:1", "/", "/host"}}
	for path, want := range map[string][]string{
		"/home/u/.ssh":     nil,
		"/home/u/src/.env": {"/srv/src/.env"},
		"/home/u/src":      {"/srv/src"},
		"/srv/src/x":       {"/home/u/src/x"},
		"/home/u/usb/key":  nil,
		"/var/lib/x":       {"/old root/var/lib/x", "/host/var/lib/x"},
		"/etc/shadow":      {"/host/etc/shadow"},
		"/variant":         {"/host/variant"},
	} {
		if got := otherNames(path, mounts); !slices.Equal(got, want) {
			t.Errorf("otherNames(%s) = %q, want %q", path, got, want)
		}
	}
	for text, want := range map[string]string{`/a\040b`: "/a b", `/a`: "/a", `\134\012x`: "\\\nx", `/a\04`: `/a\04`, `/\zzz`: `/\zzz`} {
		if got := unescaped(text); got != want {
			t.Errorf("unescaped(%q) = %q, want %q", text, got, want)
		}
	}
}

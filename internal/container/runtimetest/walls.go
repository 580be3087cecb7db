package runtimetest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

func workspaceIsLive(t *testing.T, p *place) {
	job := p.start(t, p.command("echo from inside >in; until [ -e out ]; do sleep 0.01; done; cat out; echo more >>out"))
	p.until(t, "in", "from inside") // while it runs
	p.put(t, "out", []byte("from outside\n"))
	if o := p.end(t, job); o.Code != 0 || o.out != "from outside\n" {
		t.Errorf("got %+v", o)
	}
	p.until(t, "out", "from outside\nmore")
	if err := os.Remove(filepath.Join(p.ws.Dir, "out")); err != nil {
		t.Fatal(err)
	}
	p.want(t, "ls", "in\n")
}

func readOnlyRoot(t *testing.T, p *place) {
	for _, dir := range []string{"/", "/usr", "/usr/bin", "/etc", "/proc/sys/kernel", "/dev", "/mnt"} {
		if o := p.run(t, "echo x >"+dir+"/written-by-the-suite"); o.Code == 0 {
			t.Errorf("%s can be written", dir)
		}
	}
	if o := p.run(t, "rm -rf /usr/bin/env /etc/passwd; test -e /usr/bin/env && test -e /etc/passwd"); o.Code != 0 {
		t.Errorf("the system was removed: %+v", o)
	}
	if o := p.run(t, "ls "+p.spec.Dir); o.Code == 0 {
		t.Errorf("the host's folders are seen: %s", o.out)
	}
	for _, secret := range []string{"/etc/shadow", "/root", "/home/*/.ssh"} {
		if o := p.run(t, "cat "+secret+" "+secret+"/*"); o.out != "" {
			t.Errorf("%s can be read", secret)
		}
	}
}

func noNetwork(t *testing.T, p *place) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var came atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			came.Add(1)
			c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if o := p.run(t, fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%s", port)); o.Code == 0 {
		t.Error("a service of the host was reached")
	}
	if came.Load() != 0 {
		t.Error("a connection came")
	}
	if o := p.run(t, "tail -n +3 /proc/net/dev | grep -v '^ *lo:'"); o.out != "" {
		t.Errorf("there are interfaces: %s", o.out)
	}
}

func neighbours(t *testing.T, p *place) {
	other := newPlace(t, p.runtime)
	p.run(t, "sleep 7000007 >/dev/null 2>&1 & echo secret | tee /tmp/mine ~/mine mine >/dev/null; chmod 777 /tmp/mine ~/mine mine")
	p.untilCount(t, "7000007", "1")
	other.want(t, count("7000007"), "0\n")
	other.want(t, "cat /tmp/mine ~/mine mine 2>/dev/null; echo; ls -A /tmp ~ .", "\n.:\n\n"+"/home/user:\n\n/tmp:\n")
	if p.ws.UID != 0 && p.ws.UID == other.ws.UID {
		t.Errorf("both are uid %d", p.ws.UID)
	}
}

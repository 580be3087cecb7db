package sandbox_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox"
)

const doorPort = 3128

// knock makes a command in the box say a word at a port of its loopback interface, and prints what it hears.
func knock(word string) string {
	return "exec 3<>/dev/tcp/127.0.0.1/3128 && echo " + word + " >&3 && cat <&3"
}

// answers serves a listener: every word is repeated with a mark.
func answers(t *testing.T, l net.Listener) {
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			word := make([]byte, 64)
			n, _ := c.Read(word)
			io.WriteString(c, "heard "+string(word[:n]))
			c.Close()
		}
	}()
}

func TestAListenerInTheBoxIsAcceptedOutside(t *testing.T) {
	box := newPlace(t).open(t)
	if got := run(t, box, bash(knock("early"))); got.Code == 0 {
		t.Fatalf("before anybody listens: %+v", got)
	}
	l, err := box.Listen(t.Context(), doorPort)
	must(t, err)
	answers(t, l)
	if got := run(t, box, bash(knock("hello"))); got.out != "heard hello\n" {
		t.Errorf("%+v", got)
	}
	if c, err := net.DialTimeout("tcp", "127.0.0.1:3128", time.Second); err == nil {
		// Something of this machine may listen there; it is not the box's.
		io.WriteString(c, "outside\n")
		c.SetReadDeadline(time.Now().Add(time.Second))
		if b, _ := io.ReadAll(c); strings.HasPrefix(string(b), "heard") {
			t.Error("the host reaches the box's listener")
		}
		c.Close()
	}
	if _, err := box.Listen(t.Context(), 0); fault.KindOf(err) != fault.Invalid {
		t.Errorf("port 0: %v", err)
	}
	if _, err := box.Listen(t.Context(), 22); fault.KindOf(err) != fault.Isolation {
		t.Errorf("a port of root's: %v", err) // no box has the capability
	}
}

// What knocks while the box has no owner waits for the next one.
func TestAListenerIsHandedToALaterOwner(t *testing.T) {
	p := newPlace(t)
	p.spec.Grace = time.Minute
	first := p.open(t)
	l, err := first.Listen(t.Context(), doorPort)
	must(t, err)
	must(t, l.Close())
	c := bash("echo up; " + knock("later"))
	start(t, first, c)
	must(t, first.Detach())
	eventually(t, "the command knocks without an owner", func() bool { return p.spool(c, "stdout") == "up\n" })
	second, err := sandbox.Attach(t.Context(), p.spec.Dir, 1)
	must(t, err)
	t.Cleanup(func() { second.Close() })
	l, err = second.Listen(t.Context(), doorPort)
	must(t, err)
	answers(t, l)
	if got := wait(t, start(t, second, c)); got.out != "up\nheard later\n" {
		t.Errorf("%+v", got)
	}
}

// Where the loopback interface is the host's, a listener would be open to everybody.
func TestABoxWithTheHostsNetworkGivesNoListener(t *testing.T) {
	p := newPlace(t)
	p.spec.Policy.Network = sandbox.NetworkFull
	if l, err := p.open(t).Listen(t.Context(), doorPort); fault.KindOf(err) != fault.Isolation {
		t.Errorf("with the host's network: %v, %v", l, err)
	}
	bare, _ := unconfined(t)
	if l, err := bare.Listen(t.Context(), doorPort); fault.KindOf(err) != fault.Isolation {
		t.Errorf("without a jail: %v, %v", l, err)
	}
}

func TestAnOldBoxGivesNoListener(t *testing.T) {
	p := newPlace(t)
	p.spec.Protocol = 2
	if _, err := p.open(t).Listen(t.Context(), doorPort); fault.KindOf(err) != fault.Unsupported {
		t.Errorf("%v", err)
	}
}

func TestAListenerOfADeadBox(t *testing.T) {
	box := newPlace(t).open(t)
	must(t, box.Close())
	if _, err := box.Listen(t.Context(), doorPort); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("%v", err)
	}
}

func TestFilesOfAHostedBox(t *testing.T) {
	p := newPlace(t)
	large := strings.Repeat("0123456789abcde\n", 20_000) // longer than one packet
	p.spec.Hosted.Files = []sandbox.File{{Path: "/etc/made/ca.pem", Text: large}}
	if got := run(t, p.open(t), bash("cat /etc/made/ca.pem; ! echo x 2>/dev/null >> /etc/made/ca.pem")); got.out != large || got.Code != 0 {
		t.Errorf("%d bytes, %+v", len(got.out), got.Exit)
	}
	for _, path := range []string{"/usr/bin/bash", "etc/x", "/etc/../usr/x", "/etc", ""} {
		q := newPlace(t)
		q.spec.Hosted.Files = []sandbox.File{{Path: path}}
		if box, err := sandbox.Open(t.Context(), q.spec); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v, %v", path, box, err)
		}
	}
}

package jail

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox/egress"
)

// killedVariable makes this test binary a gateway that is killed: its data folder, and where every host is.
const killedVariable = "HARDSHELL_TEST_EGRESS_GATEWAY"

// tunnels opens one, says so, waits until it is cut, and opens another, which then must be served.
const tunnels = `knock() { exec 3<>/dev/tcp/127.0.0.1/3128 && printf 'CONNECT a.test:9000 HTTP/1.1\r\n\r\n' >&3 && read -r -u 3 line && read -r -u 3 empty && read -r -u 3 word && echo "$1 $word"; }
knock first; touch first; cat <&3 >/dev/null; echo cut; knock second`

// somewhere is a host that says one word to whoever comes and then keeps the connection.
type somewhere string

func (somewhere) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
}

func (s somewhere) network(t testing.TB) container.Network {
	ceiling, err := egress.ParseCeiling("", []string{"*"}, egress.Bundles{})
	if err != nil {
		t.Fatal(err)
	}
	return container.Network{Egress: egress.Options{Ceiling: ceiling, Resolver: s,
		Dial: func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", string(s))
		}}}
}

// TestGatewayThatIsKilled is no test by itself: it is the process that TestKilledGatewayWithOpenConnections kills.
func TestGatewayThatIsKilled(t *testing.T) {
	data, host, ok := strings.Cut(os.Getenv(killedVariable), "|")
	if !ok {
		t.Skip("not asked to")
	}
	s, ctx, _ := opened(t, data, somewhere(host).network(t))
	c, err := s.Create(ctx, org, container.CreateSpec{Network: allow("tcp://a.test:9000")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Exec(ctx, org, c.ID, container.Command{Key: "call", Script: tunnels}); err != nil {
		t.Fatal(err)
	}
	fmt.Println("container", c.ID)
	select {}
}

// A gateway that is killed takes its connections along. What the box begins after that waits for the next gateway.
func TestKilledGatewayWithOpenConnections(t *testing.T) {
	require.Feature(t, "jail", New(Options{}).Supported(t.Context()))
	_, err := exec.LookPath("curl") // what opened asks for
	require.Feature(t, "curl", err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	arrived, gone := make(chan bool, 10), make(chan bool, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				io.WriteString(c, "word\n")
				arrived <- true
				io.Copy(io.Discard, c)
				c.Close()
				gone <- true
			}()
		}
	}()
	data := t.TempDir()
	gateway := exec.Command(os.Args[0], "-test.run=^TestGatewayThatIsKilled$", "-test.v")
	gateway.Env = append(os.Environ(), killedVariable+"="+data+"|"+l.Addr().String())
	out, err := gateway.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := gateway.Start(); err != nil {
		t.Fatal(err)
	}
	defer gateway.Wait()
	defer gateway.Process.Kill()
	id := ""
	for lines := bufio.NewScanner(out); id == "" && lines.Scan(); {
		id, _ = strings.CutPrefix(lines.Text(), "container ")
		if !strings.HasPrefix(id, "cntr_") {
			id = ""
		}
	}
	wait := func(what string, c <-chan bool) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(time.Minute):
			t.Fatalf("not within a minute: %s", what)
		}
	}
	wait("the first connection", arrived)
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(data, "containers", id, "workspace", "first")); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the command did not hear the first word")
		}
	}
	gateway.Process.Signal(syscall.SIGKILL)
	wait("the end of the first connection", gone)
	gateway.Wait()
	s, ctx := networked(t, data, somewhere(l.Addr().String()).network(t))
	e, _, err := s.Reattach(ctx, org, id, container.Command{Key: "call", Script: tunnels})
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Wait(ctx)
	if err != nil || r.Stdout.Text != "first word\ncut\nsecond word\n" {
		t.Errorf("%q %q, %v", r.Stdout.Text, r.Stderr.Text, err)
	}
}

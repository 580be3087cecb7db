package ambient

import (
	"io"
	"net"
	"net/http"
	"time"
)

// maxAnswer bounds what is read of a service.
const maxAnswer = 64 << 10

// near asks services beside this process; no proxy stands between, and where there is none nobody waits long. far asks
// what may be behind a proxy. Neither follows a redirect: it would carry a secret elsewhere.
var (
	near = &http.Client{
		Timeout:       5 * time.Second,
		Transport:     &http.Transport{DialContext: (&net.Dialer{Timeout: time.Second}).DialContext, DisableKeepAlives: true},
		CheckRedirect: noRedirect,
	}
	far = &http.Client{Timeout: Patience, CheckRedirect: noRedirect}
)

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Answer is what a service said.
type Answer struct {
	OK   bool // by its status
	Body []byte
}

// Near asks a service beside this process.
func Near(r *http.Request) (Answer, error) { return ask(near, r) }

// Far asks a token service.
func Far(r *http.Request) (Answer, error) { return ask(far, r) }

func ask(client *http.Client, r *http.Request) (Answer, error) {
	res, err := client.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	return Answer{OK: res.StatusCode == http.StatusOK, Body: body}, err
}

// Loopback says whether a host is this machine.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

package egress

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// A Verdict says what became of a connection.
type Verdict string

// The verdicts.
const (
	Allowed Verdict = "allowed"
	Blocked Verdict = "blocked" // policy, or something we cannot vouch for
	Failed  Verdict = "failed"  // allowed, but the host could not be reached or broke off
)

// A Reason says why a connection was not simply let through. It is for machines; texts are made elsewhere.
type Reason string

// The reasons.
const (
	NotAllowed     Reason = "not_allowed"
	BadName        Reason = "bad_name" // an address, or a name that two readers could read differently
	PrivateAddress Reason = "private_address"
	SNIMissing     Reason = "sni_missing"
	SNIMismatch    Reason = "sni_mismatch"
	HostMismatch   Reason = "host_mismatch"
	NotInspectable Reason = "not_inspectable" // neither TLS nor HTTP
	Malformed      Reason = "malformed"
	TooMany        Reason = "too_many_connections"
	Unresolved     Reason = "unresolved"
	Unreachable    Reason = "unreachable"
	BadCertificate Reason = "bad_certificate"  // the upstream's
	Handshake      Reason = "handshake_failed" // with the box; most often a client that does not trust its bundle
	Broken         Reason = "broken_off"
	Left           Reason = "client_left"
	Narrowed       Reason = "policy_narrowed" // the policy changed under an open connection
	Closed         Reason = "closed"
)

// How a connection was carried.
const (
	CarriedTunnel     = "tunnel"     // TLS, unread
	CarriedTerminated = "terminated" // TLS that ended here, for a secret
	CarriedPlain      = "plain"      // HTTP without TLS
	CarriedRaw        = "raw"        // any bytes, by a tcp:// rule
)

// A Record is the audit of one connection to one destination: names and numbers, never a header or a body. A plain
// HTTP connection that turns to another host gives a record for each.
type Record struct {
	Started  time.Time
	Duration time.Duration
	Client   string // "connect", "http", "socks5", or "" when it never said
	Carried  string // one of the Carried words, or "" if nothing was
	Host     string // as judged, or as it was asked for if that is not a name
	Port     uint16
	Verdict  Verdict
	Reason   Reason   // "" for a connection that simply passed
	Requests int      // HTTP requests that were read
	Sent     int64    // bytes from the box, the proxy's own exchange with it included
	Received int64    // bytes to the box
	Secrets  []string // names of the secrets that were put in
}

// A Denial is what was blocked, gathered for a command's result.
type Denial struct {
	Host   string
	Port   uint16
	Reason Reason
	Text   string // the sentence that the client got
	Try    string // what would allow it
	Count  int
	Last   time.Time
}

// String is one line for a person or a model.
func (d Denial) String() string {
	s := d.Text
	if d.Count > 1 {
		s += fmt.Sprintf(" (%d times)", d.Count)
	}
	if d.Try != "" {
		s += ". Try: " + d.Try
	}
	return s
}

// maxDenials bounds the summary; beyond it the oldest goes. The audit has them all.
const maxDenials = 64

// A tally gathers denials.
type tally struct {
	mu  sync.Mutex
	all []Denial // by Last, oldest first
}

func (t *tally) add(d Denial) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.all, func(o Denial) bool { return o.Host == d.Host && o.Port == d.Port && o.Reason == d.Reason })
	if i >= 0 {
		d.Count = t.all[i].Count
		t.all = slices.Delete(t.all, i, i+1)
	} else if len(t.all) >= maxDenials {
		t.all = slices.Delete(t.all, 0, 1)
	}
	d.Count++
	t.all = append(t.all, d)
}

func (t *tally) since(when time.Time) []Denial {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Denial
	for _, d := range t.all {
		if !d.Last.Before(when) {
			out = append(out, d)
		}
	}
	return out
}

package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// maxLeaves bounds the cached certificates: a wildcard host could have any number of them.
const maxLeaves = 256

// skew is how far back a certificate is valid, for clocks that disagree a little.
const skew = 5 * time.Minute

// An authority signs for the hosts that own a secret, and for no others: its own certificate says so, and it lives for
// hours. Its key exists in this process's memory only.
type authority struct {
	key   *ecdsa.PrivateKey
	cert  *x509.Certificate
	ready sync.Mutex
	leaf  map[string]*tls.Config
}

func newAuthority(hosts []Rule, now time.Time, life time.Duration) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a certificate authority: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: "hardshell, for one container's secrets"},
		NotBefore:    now.Add(-skew), NotAfter: now.Add(life),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage:                    x509.KeyUsageCertSign,
		PermittedDNSDomainsCritical: true,
		PermittedDNSDomains:         constraints(hosts),
		ExcludedIPRanges: []*net.IPNet{
			{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)},
			{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)},
		},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make a certificate authority: %w", err)
	}
	return &authority{key: key, cert: cert, leaf: map[string]*tls.Config{}}, nil
}

// pem returns the certificate that a box must trust.
func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// keep returns certificate and key in PEM, for a later proxy of the same box.
func (a *authority) keep() (Value, error) {
	der, err := x509.MarshalECPrivateKey(a.key)
	if err != nil {
		return Value{}, fmt.Errorf("keep a certificate authority: %w", err)
	}
	return NewValue(string(a.pem()) + string(pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}))), nil
}

const keyBlock = "EC PRIVATE KEY"

// restoreAuthority reads what keep has written. It refuses one that is not of the hosts of secrets: a box would trust it
// for others.
func restoreAuthority(kept Value, hosts []Rule) (*authority, error) {
	cert, rest := pem.Decode([]byte(kept.reveal()))
	key, _ := pem.Decode(rest)
	bad := func(err error) (*authority, error) {
		return nil, fault.Wrap(fault.Invalid, err, "the kept certificate authority is not to be used")
	}
	if cert == nil || key == nil || key.Type != keyBlock {
		return bad(nil)
	}
	a := &authority{leaf: map[string]*tls.Config{}}
	var err error
	if a.cert, err = x509.ParseCertificate(cert.Bytes); err != nil {
		return bad(err)
	}
	if a.key, err = x509.ParseECPrivateKey(key.Bytes); err != nil {
		return bad(err)
	}
	if !a.key.PublicKey.Equal(a.cert.PublicKey) || !a.cert.IsCA || !slices.Equal(a.cert.PermittedDNSDomains, constraints(hosts)) {
		return bad(nil)
	}
	return a, nil
}

// constraints are the names that an authority may sign for. Each covers the names below it too.
func constraints(hosts []Rule) []string {
	var names []string
	for _, r := range hosts {
		names = append(names, strings.TrimPrefix(r.host, "."))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// server returns the TLS side that a box sees for a host. One configuration for each host, so that its sessions can
// be resumed, and none of another's.
func (a *authority) server(host string) (*tls.Config, error) {
	a.ready.Lock()
	defer a.ready.Unlock()
	if c, ok := a.leaf[host]; ok {
		return c, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for %s: %w", host, err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{Organization: []string{"hardshell"}},
		DNSNames:     []string{host},
		NotBefore:    a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for %s: %w", host, err)
	}
	c := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"http/1.1"},
		Certificates: []tls.Certificate{{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key}},
	}
	if len(a.leaf) >= maxLeaves {
		clear(a.leaf)
	}
	a.leaf[host] = c
	return c, nil
}

func serial() *big.Int {
	b := make([]byte, 16)
	rand.Read(b)
	b[0] = b[0]&0x7f | 0x40 // positive, and of one length
	return new(big.Int).SetBytes(b)
}

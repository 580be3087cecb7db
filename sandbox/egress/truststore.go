package egress

import (
	"bytes"
	"crypto/sha1"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"os"
	"strconv"
	"time"
	"unicode/utf16"

	"github.com/hardshell-dev/hardshell/fault"
)

// systemBundles are where distributions keep their roots.
var systemBundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", // Debian, Alpine, Arch
	"/etc/pki/tls/certs/ca-bundle.crt",   // Fedora, RHEL
	"/etc/ssl/ca-bundle.pem",             // SUSE
	"/etc/ssl/cert.pem",                  // Alpine, macOS
}

// Bundle returns the system's roots and one more certificate, in PEM. The variables of [Environment] replace a tool's
// own list, so the bundle must hold all. Where the system has none, the one stands alone.
func Bundle(certificate []byte) []byte {
	for _, path := range systemBundles {
		if roots, err := os.ReadFile(path); err == nil {
			return append(append(bytes.TrimRight(roots, "\n"), '\n'), certificate...)
		}
	}
	return bytes.Clone(certificate)
}

// storePassword guards nothing: a Java key store has one, and ours holds public certificates only.
const storePassword = "changeit"

// Constants of the JKS format, which Java has read since 1.2.
const (
	storeMagic   = 0xfeedfeed
	storeVersion = 2
	storeTrusted = 2
	storeSalt    = "Mighty Aphrodite"
)

// TrustStore turns a bundle in PEM into a Java key store: the virtual machine reads no PEM. Java's checksum of it is
// SHA-1; nothing relies on that.
func TrustStore(bundle []byte, now time.Time) ([]byte, error) {
	var entries bytes.Buffer
	count := uint32(0)
	put := func(v any) { binary.Write(&entries, binary.BigEndian, v) }
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			continue // a root that Go cannot read is not one to vouch for
		}
		alias := "hardshell-" + strconv.Itoa(int(count))
		put(uint32(storeTrusted))
		put(uint16(len(alias)))
		entries.WriteString(alias)
		put(now.UnixMilli())
		put(uint16(len("X.509")))
		entries.WriteString("X.509")
		put(uint32(len(block.Bytes)))
		entries.Write(block.Bytes)
		count++
	}
	if count == 0 {
		return nil, fault.New(fault.Invalid, "the bundle holds no certificate")
	}
	out := binary.BigEndian.AppendUint32(nil, storeMagic)
	out = binary.BigEndian.AppendUint32(out, storeVersion)
	out = binary.BigEndian.AppendUint32(out, count)
	out = append(out, entries.Bytes()...)
	sum := sha1.New()
	for _, unit := range utf16.Encode([]rune(storePassword)) {
		sum.Write([]byte{byte(unit >> 8), byte(unit)})
	}
	sum.Write([]byte(storeSalt))
	sum.Write(out)
	return sum.Sum(out), nil
}

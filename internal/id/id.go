// Package id makes the identifiers that appear on the wire and in rows: a prefix that names the noun, 48 bits of
// time so that ids sort by age, and 80 random bits so that nobody guesses one.
//
// An id is a name, never a capability: every look-up still checks the organisation.
package id

import (
	"crypto/rand"
	"encoding/base32"
	"strings"
	"time"
)

// The prefixes, by noun. An id is Prefix + "_" + 26 characters.
const (
	Response           = "resp"
	Message            = "msg"
	Reasoning          = "rs"
	FunctionCall       = "fc"
	FunctionCallOutput = "fco"
	ShellCall          = "sh"
	ShellCallOutput    = "sho"
	Call               = "call"
	Container          = "cntr"
	ContainerFile      = "cfile"
	File               = "file"
	Key                = "key"
	Organisation       = "org"
	Request            = "req"
	Item               = "item"
)

// Lower-case Crockford base32: sorts like the bytes it encodes.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

var encoding = base32.NewEncoding(alphabet).WithPadding(base32.NoPadding)

// New returns a fresh id of a noun, stamped with the current time.
func New(prefix string) string { return At(prefix, time.Now()) }

// At returns a fresh id stamped with t, to the millisecond.
func At(prefix string, t time.Time) string {
	var b [16]byte
	ms := uint64(t.UnixMilli())
	for i := range 6 {
		b[i] = byte(ms >> (40 - 8*i))
	}
	rand.Read(b[6:]) // documented never to fail
	return prefix + "_" + encoding.EncodeToString(b[:])
}

// Valid says whether s has the form of an id of this noun. It does not say that the thing exists.
func Valid(prefix, s string) bool {
	rest, ok := strings.CutPrefix(s, prefix+"_")
	if !ok || len(rest) != 26 {
		return false
	}
	// Not by decoding: encoding/base32 skips line ends, and takes 0xFF for padding that there is none of.
	return strings.IndexFunc(rest, func(r rune) bool { return !strings.ContainsRune(alphabet, r) }) < 0
}

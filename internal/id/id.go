// Package id makes the identifiers that appear on the wire and in rows: a prefix that names the noun, 48 bits of
// time so that ids sort by age, and 80 random bits so that nobody guesses one.
//
// An id is a name, never a capability: every look-up still checks the organisation.
package id

import (
	"crypto/rand"
	"encoding/base32"
	"strings"
	"sync"
	"time"
)

// The prefixes, by noun. An id is Prefix + "_" + 26 characters.
const (
	Response           = "resp"
	Conversation       = "conv"
	Message            = "msg"
	Reasoning          = "rs"
	FunctionCall       = "fc"
	FunctionCallOutput = "fco"
	ShellCall          = "sh"
	ShellCallOutput    = "sho"
	ApplyPatchCall     = "apc"
	ApplyPatchOutput   = "apo"
	Call               = "call"
	Container          = "cntr"
	ContainerFile      = "cfile"
	File               = "file"
	Skill              = "skill"
	SkillVersion       = "skillver"
	Key                = "key"
	Organisation       = "org"
	Request            = "req"
	Item               = "item"
	Approval           = "appr"
	Compaction         = "cmp"
)

// Lower-case Crockford base32: sorts like the bytes it encodes.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

var encoding = base32.NewEncoding(alphabet).WithPadding(base32.NoPadding)

// New returns a fresh id of a noun, stamped with the current time.
func New(prefix string) string { return At(prefix, time.Now()) }

// At returns a fresh id stamped with t, to the millisecond. Ids that this process makes for the same millisecond, one
// after the other, sort in the order in which they were made.
func At(prefix string, t time.Time) string {
	var b [16]byte
	ms := uint64(t.UnixMilli())
	stamp(&b, ms)
	latest.after(ms, (*[10]byte)(b[6:]))
	return prefix + "_" + encoding.EncodeToString(b[:])
}

// latest is the one state of this package: the order of ids is a promise of the whole process.
var latest sequence

// sequence gives the random part of ids. Within one millisecond each is larger than the last by a random step of up
// to 2^40, so that knowing one does not tell the next.
type sequence struct {
	sync.Mutex
	ms   uint64
	tail [10]byte
}

func (s *sequence) after(ms uint64, out *[10]byte) {
	var random [10]byte
	rand.Read(random[:]) // documented never to fail
	s.Lock()
	defer s.Unlock()
	if ms != s.ms {
		s.ms, s.tail = ms, random
		s.tail[0] &= 0x7f // room to grow
	} else {
		carry := uint(1)
		for i := len(s.tail) - 1; i >= 0; i-- {
			if i >= len(s.tail)-5 {
				carry += uint(random[i])
			}
			carry += uint(s.tail[i])
			s.tail[i] = byte(carry)
			carry >>= 8
		}
	}
	*out = s.tail
}

// From is the least id of a noun that is stamped with t, to compare others with. No thing has it.
func From(prefix string, t time.Time) string {
	var b [16]byte
	stamp(&b, uint64(t.UnixMilli()))
	return prefix + "_" + encoding.EncodeToString(b[:])
}

func stamp(b *[16]byte, ms uint64) {
	for i := range 6 {
		b[i] = byte(ms >> (40 - 8*i))
	}
}

// Made is the time with which an id of any noun is stamped. It says false of what has not the form of an id.
func Made(s string) (time.Time, bool) {
	prefix, rest, ok := strings.Cut(s, "_")
	if !ok || !noun(prefix) || !Valid(prefix, s) {
		return time.Time{}, false
	}
	b, err := encoding.DecodeString(rest)
	if err != nil {
		return time.Time{}, false
	}
	ms := int64(0)
	for _, c := range b[:6] {
		ms = ms<<8 | int64(c)
	}
	return time.UnixMilli(ms), true
}

// noun says whether a prefix may be one of ours: a short word.
func noun(prefix string) bool {
	return prefix != "" && len(prefix) <= 16 && strings.Trim(prefix, "abcdefghijklmnopqrstuvwxyz") == ""
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

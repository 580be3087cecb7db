package approval

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
)

// Digest names everything that a person approved. Two calls have the same digest only if nothing that could change
// what happens differs between them.
type Digest string

// DigestOf returns the digest of a call under a policy: exact bytes, dialect, argument list, working folder,
// environment delta, policies, terminal, permissions. Each field is written with its length, so no two lists of
// fields run together.
func DigestOf(c Call, p Policy) Digest {
	h := sha256.New()
	field := func(parts ...string) {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(parts)))
		h.Write(n[:])
		for _, part := range parts {
			binary.LittleEndian.PutUint64(n[:], uint64(len(part)))
			h.Write(n[:])
			h.Write([]byte(part))
		}
	}
	field("hardshell approval 1")
	if c.Script != nil {
		field(c.Script.Source, fmt.Sprint(int(c.Script.Dialect)))
	} else {
		field()
	}
	field(c.Argv...)
	field(c.Cwd)
	env := slices.Clone(c.Env)
	// A stable sort: if a name is set twice, which one is last matters.
	slices.SortStableFunc(env, func(a, b Variable) int { return cmp.Compare(a.Name, b.Name) })
	for _, v := range env {
		field(v.Name, v.Value, fmt.Sprint(v.Unset))
	}
	field("policy", p.Ask.String(), fmt.Sprint(p.Locked), fmt.Sprint(p.Granular != nil))
	if p.Granular != nil {
		field(fmt.Sprintf("%+v", *p.Granular))
	}
	field(c.Profile, c.Confinement.String())
	field(fmt.Sprint(c.TTY), fmt.Sprint(c.Escalate), c.Permissions)
	return Digest("sha256:" + hex.EncodeToString(h.Sum(nil)))
}

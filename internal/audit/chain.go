package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
)

// A line is {"prev":HASH,"seq":N,"entry":{...},"hash":HASH,"sig":SIGNATURE}. The hash is of the bytes before
// ,"hash": as they stand in the file, and the signature is of the hash: nothing is read and written again to check it,
// so no byte of a line can change unseen.
const (
	hashLen = 2 * sha256.Size
	maxLine = 4 << 20
)

var (
	strict64 = base64.StdEncoding.Strict()
	sigLen   = strict64.EncodedLen(ed25519.SignatureSize)
	// suffixLen is what follows the hashed bytes: ,"hash":"…","sig":"…"}
	suffixLen = len(`,"hash":"`) + hashLen + len(`","sig":"`) + sigLen + len(`"}`)
)

// origin is the hash before the first record of a file: of its name, so that a file cannot stand for another.
func origin(name string) string {
	sum := sha256.Sum256([]byte("hardshell audit " + name))
	return hex.EncodeToString(sum[:])
}

// seal appends hash and signature to the beginning of a line, and returns the hash.
func seal(line []byte, key ed25519.PrivateKey) (sealed []byte, hash string) {
	sum := sha256.Sum256(line)
	hash = hex.EncodeToString(sum[:])
	line = append(line, `,"hash":"`+hash+`","sig":"`...)
	line = strict64.AppendEncode(line, ed25519.Sign(key, sum[:]))
	return append(line, "\"}\n"...), hash
}

// unseal checks a line without its end and returns what was sealed.
func unseal(line []byte, key ed25519.PublicKey) (body []byte, hash string, err error) {
	if len(line) < suffixLen {
		return nil, "", fmt.Errorf("it is too short")
	}
	body, rest := line[:len(line)-suffixLen], line[len(line)-suffixLen:]
	sum := sha256.Sum256(body)
	hash = hex.EncodeToString(sum[:])
	rest, ok := bytes.CutPrefix(rest, []byte(`,"hash":"`+hash+`","sig":"`))
	if !ok {
		return nil, "", fmt.Errorf("its hash is not that of what it says")
	}
	sig, err := strict64.DecodeString(string(rest[:sigLen]))
	if err != nil || string(rest[sigLen:]) != `"}` || !ed25519.Verify(key, sum[:], sig) {
		return nil, "", fmt.Errorf("its signature is not that of this folder's key")
	}
	return body, hash, nil
}

// record is a line, apart from its seal.
type record struct {
	Prev  string          `json:"prev"`
	Seq   uint64          `json:"seq"`
	Entry json.RawMessage `json:"entry"`
}

func (r record) appendTo(b []byte) []byte {
	b = append(b, `{"prev":"`+r.Prev+`","seq":`...)
	b = strconv.AppendUint(b, r.Seq, 10)
	b = append(b, `,"entry":`...)
	return append(b, r.Entry...)
}

// open reads a line that must follow another.
func open(line []byte, key ed25519.PublicKey, prev string, seq uint64) (record, string, error) {
	body, hash, err := unseal(line, key)
	if err != nil {
		return record{}, "", err
	}
	var r record
	if err := json.Unmarshal(append(body[:len(body):len(body)], '}'), &r); err != nil {
		return record{}, "", fmt.Errorf("it is no record: %w", err)
	}
	switch {
	case r.Prev != prev:
		return record{}, "", fmt.Errorf("it does not follow the record before it")
	case r.Seq != seq:
		return record{}, "", fmt.Errorf("it is number %d", r.Seq)
	}
	return r, hash, nil
}

// head says how far a file had come, in a file of its own.
type head struct {
	File    string `json:"file"`
	Records uint64 `json:"records"`
	Bytes   int64  `json:"bytes"`
	Last    string `json:"last"` // hash of the last record, or the origin
	Closed  bool   `json:"closed"`
}

func (h head) seal(key ed25519.PrivateKey) []byte {
	b, _ := json.Marshal(h) // strings, numbers and a flag always have a form
	sealed, _ := seal(b[:len(b)-1], key)
	return sealed
}

func openHead(text []byte, key ed25519.PublicKey) (h head, err error) {
	line, ok := bytes.CutSuffix(text, []byte("\n"))
	if !ok {
		return h, fmt.Errorf("it is cut short")
	}
	body, _, err := unseal(line, key)
	if err != nil {
		return h, err
	}
	if err := json.Unmarshal(append(body[:len(body):len(body)], '}'), &h); err != nil {
		return h, fmt.Errorf("it is no head: %w", err)
	}
	return h, nil
}

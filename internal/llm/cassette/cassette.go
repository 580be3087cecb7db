// Package cassette keeps the answers of model servers in a file, plays them byte for byte, and records new ones without
// what is secret in them.
//
// A cassette is a text file of JSON lines: a head, then for each exchange a request, a response, its pieces in the order
// in which they came, and how it ended. It knows no dialect: bytes are bytes, and only the vendor framing that a person
// could not read otherwise is written as frames. It asks no model and judges no answer. What holds: a file says whether
// it was recorded or written from documents; a file that was cut anywhere is read up to its last whole exchange; what
// is played has the bytes that stand in the file; and what is recorded has been scrubbed, or is not written at all (see
// [Scrubber]).
package cassette

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Version is that of the format.
const Version = 1

// Where a cassette comes from. There is nothing between the two.
const (
	Recorded = "recorded"
	Written  = "written from documentation, not recorded"
)

// How an answer ended.
const (
	Complete = "complete" // as HTTP ends one
	Cut      = "cut"      // the server broke it off
	Left     = "left"     // the client went away, or the recording was stopped
)

// Cassette is a file.
type Cassette struct {
	Head      Head
	Exchanges []Exchange
	Torn      bool // the file ends within an exchange, which was left out
}

// Head is the first line.
type Head struct {
	Version int      `json:"cassette"`
	Origin  string   `json:"origin"`            // Recorded or Written
	Sources []string `json:"sources,omitempty"` // the documents that it was written from
	About   string   `json:"about,omitempty"`
	At      string   `json:"at,omitempty"` // when the recording began, UTC
	By      string   `json:"by,omitempty"` // the program that recorded
}

// Exchange is a request and its answer.
type Exchange struct {
	Request Request
	Status  int
	Headers map[string]string
	Pieces  []Piece
	End     string
}

// Request is what an exchange answers. Contains and Lacks are for cassettes that people write; see [Player].
type Request struct {
	Method   string          `json:"method"`
	Path     string          `json:"path"` // behind the base URL that the client has, escaped
	Query    string          `json:"query,omitempty"`
	Body     json.RawMessage `json:"body,omitempty"`
	Omitted  string          `json:"omitted,omitempty"`  // why the body is not there
	Contains []string        `json:"contains,omitempty"` // all stand in the request's body
	Lacks    []string        `json:"lacks,omitempty"`    // none does
}

// Piece is what came at once. Data is what is sent; a Frame is how a person reads and writes it.
type Piece struct {
	After time.Duration // since the piece before it
	Data  []byte
	Frame *Frame
}

// Body joins the pieces.
func (x Exchange) Body() []byte {
	var b []byte
	for _, p := range x.Pieces {
		b = append(b, p.Data...)
	}
	return b
}

// response is the line of a response.
type response struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers,omitempty"`
}

// line is any line but the first. One of its parts is there.
type line struct {
	Request  *Request  `json:"request,omitempty"`
	Response *response `json:"response,omitempty"`
	Text     *string   `json:"text,omitempty"`
	Base64   []byte    `json:"base64,omitempty"` // what is no text
	Frame    *Frame    `json:"frame,omitempty"`
	AfterMS  int64     `json:"after_ms,omitempty"`
	End      string    `json:"end,omitempty"`
}

// parts is how many parts a line has, and whether one of them is a piece.
func (l line) parts() (n int, piece bool) {
	for _, is := range []bool{l.Text != nil, len(l.Base64) > 0, l.Frame != nil} {
		if is {
			n, piece = n+1, true
		}
	}
	for _, is := range []bool{l.Request != nil, l.Response != nil, l.End != ""} {
		if is {
			n++
		}
	}
	return n, piece
}

// Parse reads a cassette. An error names the line.
func Parse(raw []byte) (*Cassette, error) {
	c := &Cassette{}
	var open *Exchange // that has not ended
	responded := false
	number := 0
	for text := range bytes.Lines(raw) {
		number++
		whole := bytes.HasSuffix(text, []byte("\n"))
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		if !whole && number > 1 && !json.Valid(text) {
			break // torn in the middle of a line
		}
		if c.Head.Version == 0 {
			if err := strict(text, &c.Head); err != nil {
				return nil, fmt.Errorf("line %d: this is no cassette's head: %w", number, err)
			}
			if err := c.Head.check(); err != nil {
				return nil, fmt.Errorf("line %d: %w", number, err)
			}
			continue
		}
		var l line
		if err := strict(text, &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		n, piece := l.parts()
		switch {
		case n != 1:
			return nil, fmt.Errorf("line %d: one of request, response, text, base64, frame and end is needed, it has %d", number, n)
		case l.Request != nil:
			if open != nil {
				return nil, fmt.Errorf("line %d: the exchange before it has no end", number)
			}
			open, responded = &Exchange{Request: *l.Request}, false
			if open.Request.Method == "" || !strings.HasPrefix(open.Request.Path, "/") {
				return nil, fmt.Errorf("line %d: a request has a method, and a path that begins with /", number)
			}
		case l.Response != nil:
			if open == nil || responded || l.Response.Status < 200 || l.Response.Status > 599 {
				return nil, fmt.Errorf("line %d: a response with a status from 200 to 599 stands behind its request", number)
			}
			open.Status, open.Headers, responded = l.Response.Status, l.Response.Headers, true
		case !responded || open == nil:
			return nil, fmt.Errorf("line %d: it belongs to no response", number)
		case piece:
			p, err := l.piece()
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", number, err)
			}
			open.Pieces = append(open.Pieces, p)
		default:
			if l.End != Complete && l.End != Cut && l.End != Left {
				return nil, fmt.Errorf("line %d: an end is %s, %s or %s", number, Complete, Cut, Left)
			}
			open.End = l.End
			c.Exchanges = append(c.Exchanges, *open)
			open = nil
		}
	}
	if c.Head.Version == 0 {
		return nil, fmt.Errorf("this is no cassette: there is no head")
	}
	c.Torn = open != nil
	return c, nil
}

func (h Head) check() error {
	switch {
	case h.Version != Version:
		return fmt.Errorf("version %d of the format is not known here, %d is", h.Version, Version)
	case h.Origin != Recorded && h.Origin != Written:
		return fmt.Errorf("origin is %q or %q", Recorded, Written)
	case h.Origin == Written && len(h.Sources) == 0:
		return fmt.Errorf("what was written from documentation names its sources")
	}
	return nil
}

func (l line) piece() (Piece, error) {
	p := Piece{After: time.Duration(l.AfterMS) * time.Millisecond}
	switch {
	case l.AfterMS < 0:
		return p, fmt.Errorf("after_ms is not below 0")
	case l.Text != nil:
		p.Data = []byte(*l.Text)
	case l.Frame != nil:
		data, err := l.Frame.encode()
		if err != nil {
			return p, err
		}
		p.Data, p.Frame = data, l.Frame
	default:
		p.Data = l.Base64
	}
	return p, nil
}

func strict(raw []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if dec.More() {
		return fmt.Errorf("there is more than one value")
	}
	return nil
}

// appendLine writes a line.
func appendLine(b []byte, v any) ([]byte, error) {
	raw, err := openai.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write a line of a cassette: %w", err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil { // a body as it was sent may have lines
		return nil, fmt.Errorf("write a line of a cassette: %w", err)
	}
	return append(append(b, compact.Bytes()...), '\n'), nil
}

// Append writes the head.
func (h Head) Append(b []byte) ([]byte, error) { return appendLine(b, h) }

// Append writes the exchange.
func (x Exchange) Append(b []byte) ([]byte, error) {
	lines := []line{{Request: &x.Request}, {Response: &response{Status: x.Status, Headers: x.Headers}}}
	for _, p := range x.Pieces {
		l := line{AfterMS: p.After.Milliseconds()}
		switch {
		case len(p.Data) == 0:
			continue
		case p.Frame != nil:
			l.Frame = p.Frame
		case utf8.Valid(p.Data):
			text := string(p.Data)
			l.Text = &text
		default:
			l.Base64 = p.Data
		}
		lines = append(lines, l)
	}
	lines = append(lines, line{End: x.End})
	var err error
	for _, l := range lines {
		if b, err = appendLine(b, l); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// cleanQuery keeps of a query what says how a request is meant, and nothing that may name a person or be a key.
func cleanQuery(query string) string {
	values, err := url.ParseQuery(query)
	if err != nil {
		return ""
	}
	kept := url.Values{}
	for _, name := range []string{"alt", "api-version", "beta", "limit", "pageSize", "byOutputModality", "maxResults", "order", "stream"} {
		if v, ok := values[name]; ok {
			kept[name] = v
		}
	}
	return kept.Encode()
}

package cassette

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"
)

// raw is an exchange as it was on the wire.
type raw struct {
	request  *http.Request // its body has been read
	body     []byte
	status   int
	headers  http.Header
	pieces   []Piece
	end      string
	tooLarge bool
}

// maxRequest bounds a request's body that is kept.
const maxRequest = 4 << 20

// kept are the headers of an answer that say how it is read and when to ask again.
var kept = []string{"Content-Type", "Retry-After", "Retry-After-Ms", "X-Should-Retry", "X-Amzn-Errortype"}

// Scrub makes of what was on the wire what may be written, or refuses and says why. The error has nothing secret in it.
func (s *Scrubber) scrub(x raw) (Exchange, error) {
	s.learnHeaders(x.request.Header)
	s.learnHeaders(x.headers)
	s.learnQuery(x.request.URL.RawQuery)
	out := Exchange{Status: x.status, Headers: map[string]string{}, End: x.end}
	out.Request.Method = x.request.Method
	out.Request.Path, _ = s.text(x.request.URL.EscapedPath())
	out.Request.Query, _ = s.text(cleanQuery(x.request.URL.RawQuery))
	if x.tooLarge {
		return out, errors.New("the answer is too large")
	}
	if encoding := x.headers.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return out, errors.New("the answer is compressed, though none was asked for: it cannot be looked into")
	}
	for _, name := range kept {
		value := x.headers.Get(name)
		if name == "Content-Type" {
			value = mediaOf(value)
		}
		if value != "" {
			out.Headers[name], _ = s.text(value)
		}
	}
	s.requestBody(&out.Request, x)
	var err error
	media, _, _ := mime.ParseMediaType(x.headers.Get("Content-Type"))
	switch {
	case media == eventStream:
		out.Pieces, err = s.frames(x)
	case strings.HasPrefix(media, "text/"), strings.HasSuffix(media, "json"), media == "" && utf8.Valid(bodyOf(x.pieces)):
		out.Pieces, err = s.pieces(x.pieces)
	case len(x.pieces) > 0:
		err = errors.New("the answer is neither text nor an event stream: it cannot be looked into")
	}
	if err != nil {
		return out, err
	}
	if err := s.verify(out); err != nil {
		return out, err
	}
	question := x.body
	if out.Request.Omitted != "" {
		question = nil
	}
	answer := bodyOf(x.pieces)
	if media == eventStream {
		answer = payloads(answer)
	}
	return out, errors.Join(s.inPieces("question", question), s.inPieces("answer", answer))
}

// payloads are what the messages of an event stream carry, a line each.
func payloads(b []byte) []byte {
	var all []byte
	for {
		n, err := frameLength(b)
		if err != nil || n == 0 || n > len(b) {
			return all
		}
		f, err := decode(b[:n])
		if err != nil {
			return all
		}
		payload, err := f.payload()
		if err != nil {
			return all
		}
		all, b = append(append(all, payload...), '\n'), b[n:]
	}
}

func bodyOf(pieces []Piece) []byte { return Exchange{Pieces: pieces}.Body() }

// mediaOf keeps of a Content-Type the type and the character set.
func mediaOf(value string) string {
	media, params, err := mime.ParseMediaType(value)
	if err != nil {
		return ""
	}
	few := map[string]string{}
	if c := params["charset"]; c != "" {
		few["charset"] = c
	}
	return mime.FormatMediaType(media, few)
}

// requestBody keeps JSON, and of anything else only what it was.
func (s *Scrubber) requestBody(r *Request, x raw) {
	switch {
	case len(x.body) == 0:
	case len(x.body) > maxRequest:
		r.Omitted = fmt.Sprintf("%d bytes", len(x.body))
	case x.request.Header.Get("Content-Encoding") != "" || !json.Valid(x.body) || !utf8.Valid(x.body):
		r.Omitted = fmt.Sprintf("%d bytes that are no JSON", len(x.body))
	default:
		text, _ := s.text(string(x.body))
		if json.Valid([]byte(text)) {
			r.Body = json.RawMessage(text)
		} else {
			r.Omitted = "what was scrubbed is no JSON any more"
		}
	}
}

// pieces scrubs text. What is secret may begin in one piece and end in another.
func (s *Scrubber) pieces(pieces []Piece) ([]Piece, error) {
	body := string(bodyOf(pieces))
	var marks []int
	at := 0
	for _, p := range pieces {
		at += len(p.Data)
		marks = append(marks, at)
	}
	text, moved := s.text(body, marks...)
	var out []Piece
	at = 0
	for i, to := range moved {
		if to > at { // else it was within what was replaced
			out = append(out, Piece{After: pieces[i].After, Data: []byte(text[at:to])})
			at = to
		}
	}
	return out, nil
}

// frames takes an event stream apart, scrubs what its messages carry, and puts it together again.
func (s *Scrubber) frames(x raw) ([]Piece, error) {
	body := bodyOf(x.pieces)
	var out []Piece
	at, piece, end := 0, 0, 0
	for at < len(body) {
		n, err := frameLength(body[at:])
		if err != nil {
			return nil, err
		}
		if n == 0 || at+n > len(body) {
			if x.end != Complete {
				break // it was cut within a message, which nobody reads
			}
			return nil, errFrame
		}
		f, err := decode(body[at : at+n])
		if err != nil {
			return nil, fmt.Errorf("a message of the event stream cannot be written as text: %w", err)
		}
		payload, err := f.payload()
		if err != nil {
			return nil, err
		}
		text, _ := s.text(string(payload))
		if f.Payload, err = quote(text); err != nil {
			return nil, err
		}
		for i := range f.Headers {
			f.Headers[i][1], _ = s.text(f.Headers[i][1])
		}
		p := Piece{Frame: f}
		for at += n; piece < len(x.pieces) && end < at; piece++ { // it was whole when its last byte came
			end += len(x.pieces[piece].Data)
			p.After += x.pieces[piece].After
		}
		if p.Data, err = f.encode(); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// verify looks whether something secret is left.
func (s *Scrubber) verify(x Exchange) error {
	places := map[string]string{"path": x.Request.Path, "query": x.Request.Query, "question": string(x.Request.Body)}
	for name, value := range x.Headers {
		places["header "+name] = value
	}
	answer := x.Body()
	if len(x.Pieces) > 0 && x.Pieces[0].Frame != nil {
		answer = payloads(answer)
	}
	places["answer"] = string(answer)
	for place, text := range places {
		if len(s.edits(text)) > 0 {
			return fmt.Errorf("the %s still holds what must not be written", place)
		}
	}
	return nil
}

// inPieces looks for what the places of the text cannot show: what is secret and told in several texts that a client joins,
// as deltas are, or written with escapes.
func (s *Scrubber) inPieces(place string, body []byte) error {
	told := map[string][]string{}
	for _, document := range documents(body) {
		gather(document, "", told)
	}
	for _, texts := range told {
		joined, ends := strings.Join(texts, ""), map[int]bool{}
		at := 0
		for _, text := range texts {
			at += len(text)
			ends[at] = true
		}
		for _, e := range s.edits(joined) {
			for i := e.from + 1; i < e.to; i++ {
				if ends[i] {
					return fmt.Errorf("the %s tells something in pieces that must not be written", place)
				}
			}
			quoted, err := quote(joined[e.from:e.to])
			if err != nil || !bytes.Contains(body, []byte(joined[e.from:e.to])) && !bytes.Contains(body, quoted[1:len(quoted)-1]) {
				return fmt.Errorf("the %s writes something with escapes that must not be written", place)
			}
		}
	}
	return nil
}

// documents finds the JSON in a body: all of it, or what stands in its lines.
func documents(body []byte) []any {
	var all []any
	var v any
	if json.Unmarshal(body, &v) == nil {
		return []any{v}
	}
	for line := range bytes.Lines(body) {
		line = bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(line), []byte("data:")))
		var v any
		if json.Unmarshal(line, &v) == nil {
			all = append(all, v)
		}
	}
	return all
}

// gather joins the texts of the same place in all documents, as a client joins deltas.
func gather(v any, at string, told map[string][]string) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			gather(value, at+"."+key, told)
		}
	case []any:
		for _, value := range v {
			gather(value, at, told)
		}
	case string:
		told[at] = append(told[at], v)
	}
}

// Package s3 keeps blobs in a bucket of an S3 server: Amazon's, or one that speaks its protocol.
//
// It is a client of five calls that signs for itself (signature version 4). What holds: a blob of unknown length goes
// up in parts that are assembled at the end, so that half of it is never seen and what is given up is aborted; the
// secret key is in no error and no log; a request is repeated only where repeating it changes nothing.
package s3

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/blob"
)

// Options say where the bucket is. Endpoint, Bucket and the two keys are required.
type Options struct {
	Endpoint  string // http(s)://host[:port]
	Region    string // "us-east-1" when empty
	Bucket    string
	Prefix    string // of every key; "" is none
	AccessKey string
	SecretKey string
	PathStyle bool   // the bucket in the path and not in the host name
	SSE       string // "AES256" or "aws:kms": what the server is asked to encrypt with
	Client    *http.Client
	Clock     func() time.Time
}

// Store is a bucket.
type Store struct {
	o    Options
	base url.URL
}

var _ blob.Store = (*Store)(nil)

// Open checks the options. Nothing is asked of the server: it may come up later than we do.
func Open(o Options) (*Store, error) {
	base, err := url.Parse(o.Endpoint)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || strings.Trim(base.Path, "/") != "" {
		return nil, fault.New(fault.Invalid, "The S3 endpoint must be http(s)://host[:port].")
	}
	if o.Bucket == "" || o.AccessKey == "" || o.SecretKey == "" {
		return nil, fault.New(fault.Invalid, "An S3 store needs a bucket, an access key and a secret key.")
	}
	if o.Region == "" {
		o.Region = "us-east-1"
	}
	if o.Client == nil {
		o.Client = &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 16,
			IdleConnTimeout: time.Minute, ResponseHeaderTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second}}
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	s := &Store{o: o, base: *base}
	s.base.Path = "/"
	if o.PathStyle {
		s.base.Path = "/" + o.Bucket + "/"
	} else {
		s.base.Host = o.Bucket + "." + base.Host
	}
	return s, nil
}

// partSize is what is held in memory of a blob on its way up. A blob may have 10,000 parts: 160 GB.
const partSize = 16 << 20

// Put writes a blob: in one request where it is small, else in parts.
func (s *Store) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	if err := blob.CheckKey(key); err != nil {
		return 0, err
	}
	part, err := readPart(nil, r)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("put blob: %w", err)
	}
	if errors.Is(err, io.EOF) {
		if err := s.send(ctx, http.MethodPut, key, nil, part, s.creation(), nil); err != nil {
			return 0, fmt.Errorf("put blob: %w", err)
		}
		return int64(len(part)), nil
	}
	n, err := s.putParts(ctx, key, part, r)
	if err != nil {
		return 0, fmt.Errorf("put blob: %w", err)
	}
	return n, nil
}

// readPart fills a buffer. io.EOF comes with the last part.
func readPart(buf []byte, r io.Reader) ([]byte, error) {
	b := bytes.NewBuffer(buf[:0])
	n, err := io.CopyN(b, r, partSize)
	if err == nil && n == partSize {
		return b.Bytes(), nil
	}
	return b.Bytes(), err
}

func (s *Store) creation() http.Header {
	h := http.Header{}
	if s.o.SSE != "" {
		h.Set("X-Amz-Server-Side-Encryption", s.o.SSE)
	}
	return h
}

type completion struct {
	XMLName xml.Name   `xml:"CompleteMultipartUpload"`
	Parts   []donePart `xml:"Part"`
}

type donePart struct {
	Number int    `xml:"PartNumber"`
	ETag   string `xml:"ETag"`
}

func (s *Store) putParts(ctx context.Context, key string, part []byte, r io.Reader) (n int64, err error) {
	var begun struct {
		ID string `xml:"UploadId"`
	}
	if err := s.send(ctx, http.MethodPost, key, url.Values{"uploads": {""}}, nil, s.creation(), &begun); err != nil {
		return 0, err
	}
	upload := url.Values{"uploadId": {begun.ID}}
	defer func() {
		if err != nil {
			// Parts of an upload that nobody ends are paid for. Whoever went away does not change that.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
			defer cancel()
			s.send(ctx, http.MethodDelete, key, upload, nil, nil, nil)
		}
	}()
	var all completion
	for number, last := 1, false; ; number++ {
		etag, err := s.sendPart(ctx, key, begun.ID, number, part)
		if err != nil {
			return 0, err
		}
		all.Parts = append(all.Parts, donePart{number, etag})
		n += int64(len(part))
		if last {
			break
		}
		part, err = readPart(part, r)
		if last = errors.Is(err, io.EOF); err != nil && !last {
			return 0, err
		}
		if last && len(part) == 0 {
			break
		}
	}
	text, err := xml.Marshal(all)
	if err != nil {
		return 0, err
	}
	// A server may answer 200 and say in the body that it failed.
	var end struct {
		XMLName xml.Name
		Code    string `xml:"Code"`
	}
	if err := s.send(ctx, http.MethodPost, key, upload, text, nil, &end); err != nil {
		return 0, err
	}
	if end.XMLName.Local == "Error" {
		return 0, &refused{status: http.StatusOK, code: end.Code}
	}
	return n, nil
}

func (s *Store) sendPart(ctx context.Context, key, upload string, number int, data []byte) (etag string, err error) {
	res, err := s.do(ctx, http.MethodPut, key, url.Values{"partNumber": {strconv.Itoa(number)}, "uploadId": {upload}}, data, nil)
	if err != nil {
		return "", err
	}
	defer drain(res)
	return res.Header.Get("ETag"), nil
}

// Open reads a blob, or a range of it.
func (s *Store) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := blob.CheckKey(key); err != nil {
		return nil, err
	}
	h := http.Header{}
	switch {
	case length > 0:
		h.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	case offset > 0:
		h.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	res, err := s.do(ctx, http.MethodGet, key, nil, nil, h)
	var r *refused
	switch {
	case errors.As(err, &r) && r.status == http.StatusRequestedRangeNotSatisfiable:
		return io.NopCloser(bytes.NewReader(nil)), nil
	case errors.As(err, &r) && r.status == http.StatusNotFound && r.code != "NoSuchBucket":
		return nil, blob.Absent(key)
	case err != nil:
		return nil, fmt.Errorf("open blob: %w", err)
	case length == 0:
		res.Body.Close()
		return io.NopCloser(bytes.NewReader(nil)), nil
	case h.Get("Range") != "" && res.StatusCode != http.StatusPartialContent:
		res.Body.Close()
		return nil, fault.New(fault.Unavailable, "The S3 server does not serve ranges.")
	}
	return res.Body, nil
}

// Delete removes a blob.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	err := s.send(ctx, http.MethodDelete, key, nil, nil, nil, nil)
	var r *refused
	if errors.As(err, &r) && r.status == http.StatusNotFound && r.code != "NoSuchBucket" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete blob: %w", err)
	}
	return nil
}

// send makes a request and reads its answer into v, which may be nil.
func (s *Store) send(ctx context.Context, method, key string, q url.Values, body []byte, h http.Header, v any) error {
	res, err := s.do(ctx, method, key, q, body, h)
	if err != nil {
		return err
	}
	defer drain(res)
	if v == nil {
		return nil
	}
	if err := xml.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(v); err != nil {
		return fmt.Errorf("read the S3 server's answer: %w", err)
	}
	return nil
}

func drain(res *http.Response) {
	io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	res.Body.Close()
}

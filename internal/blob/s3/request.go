package s3

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// refused is an answer that is no success.
type refused struct {
	status int
	code   string // S3's own word for it
}

func (r *refused) Error() string {
	return fmt.Sprintf("the S3 server answered %d %s", r.status, r.code)
}

// Tries of a request that the server could not serve or that did not reach it. All of ours may be repeated: the same
// bytes go to the same key or part.
const (
	tries     = 3
	firstWait = 200 * time.Millisecond
)

// do sends a request and returns a successful answer.
func (s *Store) do(ctx context.Context, method, key string, q url.Values, body []byte, h http.Header) (*http.Response, error) {
	var err error
	for try := range tries {
		if try > 0 {
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(firstWait << (try - 1)):
			}
		}
		var res *http.Response
		if res, err = s.once(ctx, method, key, q, body, h); err == nil {
			return res, nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		var r *refused
		if errors.As(err, &r) && r.status < 500 && r.status != http.StatusTooManyRequests {
			break
		}
	}
	var r *refused
	if errors.As(err, &r) && r.status < 500 && r.status != http.StatusForbidden && r.code != "NoSuchBucket" {
		return nil, err
	}
	return nil, fault.Wrap(fault.Unavailable, err, "The storage of files does not answer as it should.").
		WithCode("file_content_unavailable").WithTry("the operator's log; [storage.container_files] in the configuration")
}

func (s *Store) once(ctx context.Context, method, key string, q url.Values, body []byte, h http.Header) (*http.Response, error) {
	at := s.base
	at.Path += s.o.Prefix + key
	at.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, h)
	s.sign(req, body)
	res, err := s.o.Client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer drain(res)
	r := &refused{status: res.StatusCode}
	var text struct {
		Code string `xml:"Code"`
	}
	if xml.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&text) == nil {
		r.code = text.Code
	}
	return nil, r
}

package upstream

import (
	"context"
	"io"
	"net/http"

	"github.com/hardshell-dev/hardshell/fault"
)

// Refused is a call that the server has refused.
type Refused struct {
	Status int
	Fault  *fault.Error
}

func (r *Refused) Error() string { return r.Fault.Error() }

// Unwrap is the fault.
func (r *Refused) Unwrap() error { return r.Fault }

// Plain makes one call, once, and returns its answer if it is one of success; the caller closes its body. stream, if it is
// not nil, is the body, of the given type.
func (s *Server) Plain(ctx context.Context, method string, c Call, stream io.Reader, kind string) (*http.Response, error) {
	req, err := s.request(ctx, method, c)
	if err != nil {
		return nil, err
	}
	for k, v := range c.Header {
		req.Header.Set(k, v)
	}
	if stream != nil {
		req.Body, req.ContentLength = io.NopCloser(stream), -1
		if own, ok := stream.(io.ReadCloser); ok {
			req.Body = own
		}
		req.Header.Set("Content-Type", kind)
	}
	res, err := s.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, s.cancelled(ctx)
		}
		return nil, s.unreachable(err)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		defer res.Body.Close()
		return nil, &Refused{Status: res.StatusCode, Fault: s.refused(res, res.Body).err}
	}
	return res, nil
}

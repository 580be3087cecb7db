package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Containers is the vendor's API of the containers in which it runs a shell. All ids are the vendor's. An error is a
// fault: NotFound for what is not there, Invalid for what the vendor refuses, Upstream for all else.
type Containers struct {
	server *upstream.Server
	query  string
}

// Containers is the API of the provider's account.
func (p *Provider) Containers() *Containers { return &Containers{p.server, p.path} }

// maxAnswer bounds what is read of an answer that is no file.
const maxAnswer = 4 << 20

// do makes a call and reads its answer into out, unless that is nil.
func (c *Containers) do(ctx context.Context, method, path string, query url.Values, in, out any) error {
	call := upstream.Call{Path: c.path(path, query), Accept: "application/json"}
	if in != nil {
		raw, err := wire.Marshal(in)
		if err != nil {
			return fault.Wrap(fault.Invalid, err, "the request cannot be written as JSON")
		}
		call.Body = raw
	}
	return c.answer(ctx, method, call, nil, "", out)
}

func (c *Containers) answer(ctx context.Context, method string, call upstream.Call, stream io.Reader, kind string, out any) error {
	res, err := c.server.Plain(ctx, method, call, stream, kind)
	if err != nil {
		return meant(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err == nil && out != nil {
		err = json.Unmarshal(raw, out)
	}
	if err != nil {
		return c.server.Unreadable("an answer", err)
	}
	return nil
}

func (c *Containers) path(path string, query url.Values) string {
	path = "/containers" + path + c.query
	if len(query) > 0 {
		before := "?"
		if c.query != "" {
			before = "&"
		}
		path += before + query.Encode()
	}
	return path
}

// meant is a refusal as what it means for who asked.
func meant(err error) error {
	var r *upstream.Refused
	if !errors.As(err, &r) {
		return err
	}
	e := *r.Fault
	switch {
	case r.Status == http.StatusNotFound || r.Status == http.StatusGone:
		e.Kind, e.Code = fault.NotFound, "container_not_found"
	case r.Status == http.StatusRequestEntityTooLarge:
		e.Kind, e.Code = fault.TooLarge, ""
	case r.Status == http.StatusBadRequest, r.Status == http.StatusConflict, r.Status == http.StatusUnprocessableEntity:
		e.Kind, e.Code = fault.Invalid, "invalid_value"
	}
	return &e
}

// part is a piece of a path.
func part(id string) string { return "/" + url.PathEscape(id) }

// CreateContainer makes a container.
func (c *Containers) CreateContainer(ctx context.Context, r wire.ContainerRequest) (o wire.Container, err error) {
	body := map[string]any{"name": r.Name}
	for key, v := range map[string]struct {
		given bool
		value any
	}{"expires_after": {r.ExpiresAfter != nil, r.ExpiresAfter}, "memory_limit": {r.MemoryLimit != nil, r.MemoryLimit},
		"network_policy": {r.NetworkPolicy != nil, r.NetworkPolicy}, "skills": {len(r.Skills) > 0, r.Skills}} {
		if v.given {
			body[key] = v.value
		}
	}
	if err = c.do(ctx, http.MethodPost, "", nil, body, &o); err == nil && o.ID == "" {
		err = c.server.Broken("made a container without an id")
	}
	return o, err
}

// Container describes one.
func (c *Containers) Container(ctx context.Context, id string) (o wire.Container, err error) {
	err = c.do(ctx, http.MethodGet, part(id), nil, nil, &o)
	return o, err
}

// DeleteContainer ends one.
func (c *Containers) DeleteContainer(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodDelete, part(id), nil, nil, nil)
}

// ContainerFiles lists a page of files.
func (c *Containers) ContainerFiles(ctx context.Context, id string, limit int, after, order string) (l wire.List[wire.ContainerFile], err error) {
	q := url.Values{}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	if after != "" {
		q.Set("after", after)
	}
	if order != "" {
		q.Set("order", order)
	}
	err = c.do(ctx, http.MethodGet, part(id)+"/files", q, nil, &l)
	return l, err
}

// ContainerFile describes one.
func (c *Containers) ContainerFile(ctx context.Context, id, file string) (o wire.ContainerFile, err error) {
	err = c.do(ctx, http.MethodGet, part(id)+"/files"+part(file), nil, nil, &o)
	return o, err
}

// DeleteContainerFile removes one.
func (c *Containers) DeleteContainerFile(ctx context.Context, id, file string) error {
	return c.do(ctx, http.MethodDelete, part(id)+"/files"+part(file), nil, nil, nil)
}

// PutContainerFile uploads one, as it is read.
func (c *Containers) PutContainerFile(ctx context.Context, id, name string, r io.Reader) (o wire.ContainerFile, err error) {
	var head bytes.Buffer
	form := multipart.NewWriter(&head)
	if _, err := form.CreateFormFile("file", name); err != nil {
		return o, err
	}
	before := bytes.Clone(head.Bytes())
	if err := form.Close(); err != nil {
		return o, err
	}
	after := head.Bytes()[len(before):]
	body := io.MultiReader(bytes.NewReader(before), r, bytes.NewReader(after))
	err = c.answer(ctx, http.MethodPost, upstream.Call{Path: c.path(part(id)+"/files", nil), Accept: "application/json"}, body, form.FormDataContentType(), &o)
	if err == nil && o.ID == "" {
		err = c.server.Broken("took a file and named none")
	}
	return o, err
}

// ContainerFileContent reads a file from a byte on. size is of all of it, -1 where the vendor does not say.
func (c *Containers) ContainerFileContent(ctx context.Context, id, file string, from int64) (io.ReadCloser, int64, error) {
	call := upstream.Call{Path: c.path(part(id)+"/files"+part(file)+"/content", nil), Accept: "application/binary"}
	if from > 0 {
		call.Header = map[string]string{"Range": "bytes=" + strconv.FormatInt(from, 10) + "-"}
	}
	res, err := c.server.Plain(ctx, http.MethodGet, call, nil, "")
	if err != nil {
		return nil, 0, meant(err)
	}
	size := res.ContentLength
	if res.StatusCode == http.StatusPartialContent {
		_, all, _ := strings.Cut(res.Header.Get("Content-Range"), "/")
		if size, err = strconv.ParseInt(all, 10, 64); err != nil {
			size = -1
		}
		return res.Body, size, nil
	}
	if _, err := io.CopyN(io.Discard, res.Body, from); err != nil { // it does not know ranges
		res.Body.Close()
		return nil, 0, c.server.CutShort()
	}
	return res.Body, size, nil
}

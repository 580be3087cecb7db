// Package passthrough knows the containers of vendors in which an upstream runs the calls of its own shell: whose they
// are, and what they and their files are called here and there.
//
// It runs nothing, and keeps no file: a container is the vendor's, and what is asked of it is asked of the vendor. What
// holds: no id of the vendor's gets out, in an answer or in an error; a container belongs to the organisation whose request
// made it, and looks absent to any other; what the vendor says is gone is gone here.
package passthrough

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/file"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Upstream is the containers API of one account with a vendor. All ids are the vendor's. An error is a fault: NotFound for
// what is not there, Invalid for what the vendor refuses, Upstream for all else.
type Upstream interface {
	CreateContainer(ctx context.Context, r openai.ContainerRequest) (openai.Container, error)
	Container(ctx context.Context, id string) (openai.Container, error)
	DeleteContainer(ctx context.Context, id string) error
	ContainerFiles(ctx context.Context, id string, limit int, after, order string) (openai.List[openai.ContainerFile], error)
	ContainerFile(ctx context.Context, id, file string) (openai.ContainerFile, error)
	PutContainerFile(ctx context.Context, id, name string, r io.Reader) (openai.ContainerFile, error)
	DeleteContainerFile(ctx context.Context, id, file string) error
	// ContainerFileContent reads a file from a byte on; size is of the whole file.
	ContainerFileContent(ctx context.Context, id, file string, from int64) (r io.ReadCloser, size int64, err error)
}

// Uploads are the files that requests name by id.
type Uploads interface {
	Open(ctx context.Context, org, id string) (io.ReadSeekCloser, file.File, error)
}

// Options are what a Service is made of. DB is required.
type Options struct {
	DB        *store.DB
	Upstreams map[string]Upstream // by provider
	Uploads   Uploads             // nil: there are none
	Clock     func() time.Time    // nil is time.Now
}

// Service keeps the names of vendors' containers. It is safe for use by many goroutines.
type Service struct {
	db        *store.DB
	upstreams map[string]Upstream
	uploads   Uploads
	now       func() time.Time
}

// New opens the names.
func New(ctx context.Context, o Options) (*Service, error) {
	s := &Service{db: o.DB, upstreams: o.Upstreams, uploads: o.Uploads, now: o.Clock}
	if s.now == nil {
		s.now = time.Now
	}
	if err := s.db.Migrate(ctx, "vendor", migrations); err != nil {
		return nil, fmt.Errorf("open passthrough containers: %w", err)
	}
	return s, nil
}

// Container is a vendor's container.
type Container struct {
	container.Container
	Provider string
	Theirs   string // the vendor's id
	Asked    string // what [Asked] said of the settings that it was made with
}

// The bounds of what is asked of a vendor: a call that says little, and one that makes something.
const (
	patience     = 30 * time.Second
	makePatience = 2 * time.Minute
	defaultIdle  = 20 * time.Minute // the vendor's own
	keepRows     = 60 * 24 * time.Hour
)

// Asked is a digest of the settings that are asked of a container, empty where none are. Values of secrets are not in it.
func Asked(spec container.CreateSpec) string {
	if spec.MemoryLimit == "" && spec.IdleTTL == 0 && spec.Network == nil && len(spec.FileIDs)+len(spec.Skills)+len(spec.Secrets) == 0 {
		return ""
	}
	var secrets []any
	for _, s := range spec.Secrets {
		secrets = append(secrets, []any{s.Name, s.Hosts})
	}
	raw, err := json.Marshal([]any{spec.MemoryLimit, spec.IdleTTL, spec.Network, secrets, spec.FileIDs, spec.Skills})
	if err != nil { // strings and numbers always marshal
		return "?"
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}

// Make makes a container at a vendor, with the files that it is to have.
func (s *Service) Make(ctx context.Context, org, provider string, spec container.CreateSpec) (Container, error) {
	up, err := s.upstream(provider)
	if err != nil {
		return Container{}, err
	}
	r, err := request(spec)
	if err != nil {
		return Container{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, makePatience)
	defer cancel()
	made, err := up.CreateContainer(ctx, r)
	if err != nil {
		return Container{}, told(err, nil)
	}
	c := s.row(org, provider, made)
	c.Asked = Asked(spec)
	if c.Name == "" {
		c.Name = spec.Name
	}
	if err = s.insert(ctx, c); err == nil {
		for _, f := range spec.FileIDs {
			if _, err = s.PutUpload(ctx, org, c.ID, f, ""); err != nil {
				break
			}
		}
	}
	if err != nil { // nobody learns of it
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		_ = up.DeleteContainer(ctx, made.ID) // the vendor ends it at its idle time
		_ = s.forget(ctx, c.ID)
		return Container{}, err
	}
	return c, nil
}

// request is a container's settings as a vendor takes them. What names things of ours it cannot have.
func request(spec container.CreateSpec) (openai.ContainerRequest, error) {
	r := openai.ContainerRequest{Name: spec.Name}
	if r.Name == "" {
		r.Name = "hardshell"
	}
	if spec.MemoryLimit != "" {
		r.MemoryLimit = &spec.MemoryLimit
	}
	if spec.IdleTTL > 0 {
		r.ExpiresAfter = &openai.ExpiresAfter{Anchor: "last_active_at", Minutes: int64(max(spec.IdleTTL, time.Minute) / time.Minute)}
	}
	if n := spec.Network; n != nil {
		r.NetworkPolicy = &openai.NetworkPolicy{Type: n.Type, AllowedDomains: n.AllowedDomains}
	}
	type secret struct {
		Domain string `json:"domain"`
		Name   string `json:"name"`
		Value  string `json:"value"`
	}
	var secrets []secret
	for i, v := range spec.Secrets {
		if !v.Given || len(v.Hosts) != 1 {
			return r, fault.New(fault.Invalid, "A secret of this server's operator does not go into a vendor's container.").
				WithCode("shell_environment_rejected").WithParam(fmt.Sprintf("network_policy.domain_secrets[%d]", i)).
				WithTry(`{"domain", "name", "value"}`)
		}
		secrets = append(secrets, secret{v.Hosts[0], v.Name, v.Value.Reveal()})
	}
	if len(secrets) > 0 {
		raw, err := openai.Marshal(secrets)
		if err != nil {
			return r, fmt.Errorf("write secrets: %w", err)
		}
		r.NetworkPolicy.DomainSecrets = raw
	}
	for i, k := range spec.Skills {
		if k.Type != "inline" {
			return r, fault.New(fault.Invalid, "A skill of this server can't be mounted in a vendor's container.").
				WithCode("shell_environment_rejected").WithParam(fmt.Sprintf("skills[%d]", i)).WithTry("an inline skill of media type application/zip")
		}
	}
	if len(spec.Skills) > 0 {
		raw, err := openai.Marshal(spec.Skills)
		if err != nil {
			return r, fmt.Errorf("write skills: %w", err)
		}
		r.Skills = raw
	}
	return r, nil
}

// row is a vendor's container as it is kept.
func (s *Service) row(org, provider string, o openai.Container) Container {
	c := Container{Provider: provider, Theirs: o.ID}
	now := s.now()
	c.ID, c.Org, c.Name, c.Status, c.IdleTTL, c.Created, c.LastActive = id.New(id.Container), org, o.Name, container.Active, defaultIdle, now, now
	c.heard(o)
	return c
}

// heard takes what the vendor says of a container.
func (c *Container) heard(o openai.Container) {
	if o.Status == container.Expired || o.Status == container.Deleted {
		c.Status = container.Expired
	}
	if o.ExpiresAfter != nil && o.ExpiresAfter.Minutes > 0 {
		c.IdleTTL = time.Duration(min(o.ExpiresAfter.Minutes, 1<<20)) * time.Minute
	}
	if o.LastActiveAt > 0 {
		c.LastActive = time.Unix(o.LastActiveAt, 0)
	}
	if o.CreatedAt > 0 {
		c.Created = time.Unix(o.CreatedAt, 0)
	}
	if o.MemoryLimit != nil {
		c.MemoryLimit = *o.MemoryLimit
	}
	if n := o.NetworkPolicy; n != nil {
		c.Network = &container.NetworkPolicy{Type: n.Type, AllowedDomains: n.AllowedDomains}
	}
	if c.Status == container.Expired {
		c.Ended = c.LastActive.Add(c.IdleTTL)
	}
}

// upstream is where a container's vendor is asked.
func (s *Service) upstream(provider string) (Upstream, error) {
	if up := s.upstreams[provider]; up != nil {
		return up, nil
	}
	return nil, fault.New(fault.Unavailable, "The provider %q, whose the container is, is not to be had here any more.", provider)
}

// told is an error of a vendor's as a client may read it. What it calls theirs is ours.
func told(err error, ours map[string]string) error {
	e, ok := fault.As(err)
	if !ok {
		return err
	}
	clean := *e
	clean.Message, clean.Param = id.Foreign(e.Message, ours), ""
	return &clean
}

func (c Container) names() map[string]string { return map[string]string{c.Theirs: c.ID} }

// Get asks the vendor how a container is.
func (s *Service) Get(ctx context.Context, org, containerID string) (Container, error) {
	c, up, err := s.find(ctx, org, containerID)
	if err != nil || up == nil {
		return c, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o, err := up.Container(ctx, c.Theirs)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		o.Status = container.Expired
	case err != nil:
		return c, told(err, c.names())
	}
	was := c
	if c.heard(o); c.Status != was.Status || !c.LastActive.Equal(was.LastActive) || c.IdleTTL != was.IdleTTL || c.MemoryLimit != was.MemoryLimit {
		if err := s.note(ctx, c); err != nil {
			return c, err
		}
	}
	return c, nil
}

// Usable is Get, and refuses a container whose life is over.
func (s *Service) Usable(ctx context.Context, org, containerID string) (Container, error) {
	c, err := s.Get(ctx, org, containerID)
	if err == nil && c.Status != container.Active {
		err = expired(c)
	}
	return c, err
}

func expired(c Container) error {
	return fault.New(fault.Expired, "Container %s has expired at its vendor.", c.ID).WithCode("container_expired").WithTry("a new container")
}

// Delete ends a container at its vendor and forgets it.
func (s *Service) Delete(ctx context.Context, org, containerID string) error {
	c, up, err := s.find(ctx, org, containerID)
	if err != nil {
		return err
	}
	if up != nil && c.Status == container.Active {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := up.DeleteContainer(ctx, c.Theirs); err != nil && fault.KindOf(err) != fault.NotFound {
			return told(err, c.names())
		}
	}
	return s.forget(ctx, c.ID)
}

// Met is our id of a container that a vendor uses for a request of org's, a new one if it was not heard of before.
func (s *Service) Met(ctx context.Context, org, provider, theirs string) (string, error) {
	c, err := s.met(ctx, s.row(org, provider, openai.Container{ID: theirs}))
	return c.ID, err
}

// MetFile is our id of a file that a vendor names.
func (s *Service) MetFile(ctx context.Context, org, provider, theirs, fileID string) (string, error) {
	c, err := s.met(ctx, s.row(org, provider, openai.Container{ID: theirs}))
	if err != nil {
		return "", err
	}
	ids, err := s.mint(ctx, c.ID, fileID)
	return ids[fileID], err
}

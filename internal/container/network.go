package container

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
	"github.com/hardshell-dev/hardshell/sandbox/egress"
)

// Network is the operator's side of network policies. The zero value lets nothing be opened.
type Network struct {
	Egress  egress.Options            // the operator's part of every proxy: Ceiling, Bundles, Pinned, Roots
	Secrets map[string]OperatorSecret // those that a request may name
	// Observe gets the account of each connection. It may be nil.
	Observe func(container string, r egress.Record)
}

// OperatorSecret is a secret that requests may name. Its value goes to its hosts only.
type OperatorSecret struct {
	Value egress.Value
	Hosts []string
}

// DomainSecret is a secret that a container's commands use and never see: each finds a placeholder in the variable Name.
type DomainSecret struct {
	Name  string
	Value egress.Value // the zero value names the operator's secret of that name
	Given bool         // Value is the request's
	Hosts []string     // empty means the operator's hosts of it
}

// A Proxied runtime can keep a container to a network policy. Others refuse all but none and disabled.
type Proxied interface {
	// Proxied is nil, or says why not on this machine.
	Proxied() error
}

// A Blocker is a box that knows what its network policy kept from commands: a line each, with what would allow it.
type Blocker interface {
	Blocked(from int64) []string // since a time in Unix nanoseconds
}

// The types of a network policy.
const (
	networkDisabled  = egress.TypeDisabled
	networkAllowlist = egress.TypeAllowlist
)

// A policy is judged for every connection and a secret is looked for in every answer, so that neither is endless.
const (
	maxDomains = 1000
	maxSecrets = 64
)

// ReadNetwork checks what can be checked of a network policy without the operator's limits. No policy is no network.
func ReadNetwork(p *openai.NetworkPolicy) (*NetworkPolicy, []DomainSecret, error) {
	if p == nil {
		return nil, nil, nil
	}
	refuse := func(param, format string, args ...any) error {
		return fault.New(fault.Invalid, format, args...).WithCode("shell_environment_rejected").WithParam("network_policy" + param)
	}
	switch p.Type {
	case networkDisabled:
		switch {
		case len(p.AllowedDomains) > 0:
			return nil, nil, refuse(".allowed_domains", "A disabled network has no allowed_domains.")
		case given(p.DomainSecrets):
			return nil, nil, refuse(".domain_secrets", "A disabled network has no domain_secrets.")
		}
		return &NetworkPolicy{Type: networkDisabled}, nil, nil
	case networkAllowlist:
	default:
		return nil, nil, refuse(".type", "network_policy.type must be \"disabled\" or \"allowlist\", not %q.", p.Type)
	}
	switch n := len(p.AllowedDomains); {
	case n == 0:
		return nil, nil, refuse(".allowed_domains", "An allowlist needs at least one domain in allowed_domains.")
	case n > maxDomains:
		return nil, nil, refuse(".allowed_domains", "allowed_domains has %d entries; %d are allowed.", n, maxDomains)
	}
	secrets, err := readSecrets(p.DomainSecrets)
	if err != nil {
		return nil, nil, err
	}
	return &NetworkPolicy{Type: networkAllowlist, AllowedDomains: slices.Clone(p.AllowedDomains)}, secrets, nil
}

// readSecrets reads {domain, name, value} and {placeholder, allowed_domains}. No error shows what stood there.
func readSecrets(raw json.RawMessage) ([]DomainSecret, error) {
	if !given(raw) {
		return nil, nil
	}
	bad := func(i int, why string) error {
		return fault.New(fault.Invalid, "domain_secrets[%d] %s.", i, why).WithCode("shell_environment_rejected").
			WithParam(fmt.Sprintf("network_policy.domain_secrets[%d]", i)).
			WithTry(`{"domain", "name", "value"}, or {"placeholder", "allowed_domains"} for a secret of the operator's`)
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return nil, fault.New(fault.Invalid, "domain_secrets is not a list.").WithCode("shell_environment_rejected").
			WithParam("network_policy.domain_secrets")
	}
	if len(items) > maxSecrets {
		return nil, fault.New(fault.Invalid, "domain_secrets has %d entries; %d are allowed.", len(items), maxSecrets).
			WithCode("shell_environment_rejected").WithParam("network_policy.domain_secrets")
	}
	var secrets []DomainSecret
	for i, item := range items {
		var s struct {
			Domain         *string  `json:"domain"`
			Name           *string  `json:"name"`
			Value          *string  `json:"value"`
			Placeholder    *string  `json:"placeholder"`
			AllowedDomains []string `json:"allowed_domains"`
		}
		d := json.NewDecoder(bytes.NewReader(item))
		d.DisallowUnknownFields()
		if d.Decode(&s) != nil {
			return nil, bad(i, "is not a secret")
		}
		inline := s.Domain != nil || s.Name != nil || s.Value != nil
		switch reference := s.Placeholder != nil || s.AllowedDomains != nil; {
		case inline == reference:
			return nil, bad(i, "is neither a value for a domain nor the name of a secret")
		case reference && (s.Placeholder == nil || *s.Placeholder == ""):
			return nil, bad(i, "names no secret")
		case reference:
			secrets = append(secrets, DomainSecret{Name: *s.Placeholder, Hosts: s.AllowedDomains})
		case s.Domain == nil || s.Name == nil || s.Value == nil || *s.Domain == "" || *s.Name == "" || *s.Value == "":
			return nil, bad(i, "lacks domain, name or value")
		default:
			secrets = append(secrets, DomainSecret{Name: *s.Name, Value: egress.NewValue(*s.Value), Given: true, Hosts: []string{*s.Domain}})
		}
	}
	return secrets, nil
}

// options turns a policy into what a proxy is made of, and refuses one that is above the operator's ceiling, or whose
// secrets are not the request's to use.
func (n Network) options(p *NetworkPolicy, secrets []DomainSecret) (*egress.Options, error) {
	if p == nil || p.Type == networkDisabled {
		if p != nil && len(p.AllowedDomains) > 0 || len(secrets) > 0 {
			return nil, fault.New(fault.Invalid, "A disabled network has no domains and no secrets.").WithParam("network_policy")
		}
		return nil, nil
	}
	policy, err := n.policy(p)
	if err != nil {
		return nil, err
	}
	if err := n.Egress.Ceiling.Check(policy); err != nil {
		return nil, err
	}
	o := n.Egress
	o.Policy = policy
	for i, s := range secrets {
		secret, err := n.secret(s)
		if err != nil {
			if f, ok := fault.As(err); ok {
				return nil, f.WithParam(fmt.Sprintf("network_policy.domain_secrets[%d]", i))
			}
			return nil, err
		}
		o.Secrets = append(o.Secrets, secret)
	}
	trial, err := egress.New(o) // it judges secrets and hosts together
	if err != nil {
		return nil, err
	}
	return &o, trial.Close()
}

// secret finds the value of a secret. One of the operator's goes to the operator's hosts, or to fewer.
func (n Network) secret(s DomainSecret) (egress.Secret, error) {
	if s.Given {
		return egress.Secret{Name: s.Name, Value: s.Value, Hosts: s.Hosts}, nil
	}
	own, ok := n.Secrets[s.Name]
	if !ok {
		return egress.Secret{}, fault.New(fault.Invalid, "There is no secret %q here.", s.Name).
			WithTry("ask the operator to add it to features.server_tools.shell_limits.allowed_domain_secrets")
	}
	if len(s.Hosts) == 0 {
		return egress.Secret{Name: s.Name, Value: own.Value, Hosts: own.Hosts}, nil
	}
	asked, err := egress.ParsePolicy(networkAllowlist, s.Hosts, egress.Bundles{})
	if err != nil {
		return egress.Secret{}, err
	}
	least, err := egress.ParsePolicy(networkAllowlist, own.Hosts, egress.Bundles{})
	if err != nil {
		return egress.Secret{}, err
	}
	if !least.Covers(asked) {
		return egress.Secret{}, fault.New(fault.Invalid, "The secret %q is not for all of %s.", s.Name, strings.Join(s.Hosts, ", ")).
			WithTry("its own hosts: leave allowed_domains out")
	}
	return egress.Secret{Name: s.Name, Value: own.Value, Hosts: s.Hosts}, nil
}

// admitNetwork refuses a policy that the runtime can't hold, or that the operator doesn't allow.
func (s *Service) admitNetwork(spec CreateSpec) (*egress.Options, error) {
	o, err := s.network.options(spec.Network, spec.Secrets)
	if err == nil && o != nil {
		proxied, ok := s.runtime.(Proxied)
		if !ok {
			err = fault.New(fault.Invalid, "The runtime %s can't keep a container to a network policy.", s.runtime.Name()).
				WithParam("network_policy").WithTry(`leave network_policy out, or {"type": "disabled"}`)
		} else if err = proxied.Proxied(); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, rejected(err)
	}
	return o, nil
}

// Admits says whether a request may use a container with a policy of its own. The container's is that from its creation;
// a request may repeat it, secrets and all, as clients do in every turn, or ask for less: [Command.Network].
func (s *Service) Admits(ctx context.Context, org, id string, p *openai.NetworkPolicy) error {
	asked, secrets, err := ReadNetwork(p)
	if err != nil || asked == nil {
		return err
	}
	r, err := s.row(ctx, org, id)
	if err != nil {
		return err
	}
	has := NetworkPolicy{Type: networkDisabled}
	if r.Network != nil {
		has = *r.Network
	}
	refuse := func(param string) error {
		return fault.New(fault.Invalid, "The network policy of container %s was set when it was made, and can only be narrowed: %s.", id, has).
			WithCode("shell_environment_rejected").WithParam("network_policy" + param).WithTry("leave network_policy out, or use a new container")
	}
	mine, err := s.network.policy(&has)
	if err != nil {
		return rejected(err) // the operator allows less than when it was made
	}
	theirs, err := s.network.policy(asked)
	if err != nil {
		return rejected(err)
	}
	if !mine.Covers(theirs) {
		return refuse("")
	}
	kept, err := s.seal.open(r.ID, r.secrets)
	if err != nil {
		return refuse(".domain_secrets")
	}
	if len(kept) == 0 && len(secrets) > 0 {
		return fault.New(fault.Invalid, "Container %s has no domain secrets: they are given when it is made, and end when it expires, also for one that is restored.", id).
			WithCode("shell_environment_rejected").WithParam("network_policy.domain_secrets").WithTry("leave domain_secrets out, or use a new container")
	}
	for _, d := range secrets {
		want, err := s.network.secret(d)
		if err != nil || !slices.ContainsFunc(kept, func(k egress.Secret) bool {
			return k.Name == want.Name && k.Value.Equal(want.Value) && slices.Equal(sorted(k.Hosts), sorted(want.Hosts))
		}) {
			return refuse(".domain_secrets")
		}
	}
	return nil
}

// policy reads a policy with the operator's bundles.
func (n Network) policy(p *NetworkPolicy) (egress.Policy, error) {
	return egress.ParsePolicy(p.Type, p.AllowedDomains, n.Egress.Bundles)
}

func sorted(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }

// String is the policy in words.
func (p NetworkPolicy) String() string {
	if p.Type != networkAllowlist {
		return "no network"
	}
	return "only " + strings.Join(p.AllowedDomains, ", ")
}

// Told is the policy as a model is told of it.
func (p NetworkPolicy) Told() string {
	text := p.String() + ", through the proxy that the usual variables name; anything else is refused, with a text that says so"
	if slices.Contains(p.AllowedDomains, "bundle:apt") {
		text += ". The root is read-only: apt can download packages here, and not install them"
	}
	return text
}

// rejected gives a network refusal the code of the containers API.
func rejected(err error) error {
	if e, ok := fault.As(err); ok {
		return e.WithCode("network_policy_rejected")
	}
	return err
}

// egress is what a stored container may reach. The operator's limits are those of now: what they no longer allow is
// refused, whatever was allowed when the container was made. A container without a network gets a proxy that lets nothing
// through: a package tool is told at once what is closed and what would open it, where it would try for minutes.
func (s *Service) egress(r row) (*egress.Options, error) {
	o, err := s.network.options(r.Network, nil)
	if err != nil {
		return nil, err
	}
	if o == nil {
		closed := s.network.Egress
		closed.Policy = egress.Policy{}
		o = &closed
	}
	if o.Secrets, err = s.seal.open(r.ID, r.secrets); err != nil {
		return nil, err
	}
	if s.network.Observe != nil {
		o.Observe = func(rec egress.Record) { s.network.Observe(r.ID, rec) }
	}
	return o, nil
}

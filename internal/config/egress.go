package config

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/egress"
)

// limitsKey is the table of [ShellLimits].
const limitsKey = "features.server_tools.shell_limits."

// EgressKey is the key of the operator's ceiling, for the texts that name it.
const EgressKey = limitsKey + "allowed_egress_hosts"

// DomainSecret is a secret of the operator's, which a request may name and never sees.
type DomainSecret struct {
	// Value is what the hosts get. Write env:NAME or file:PATH.
	Value Secret `toml:"value"`
	// AllowedHosts are those that get it: "example.com" or "*.example.com". A request may name fewer.
	AllowedHosts []string `toml:"allowed_hosts"`
}

// Outgoing is what hosted commands may reach at most, ready to judge by.
type Outgoing struct {
	Ceiling egress.Ceiling
	Bundles egress.Bundles
	Pinned  []netip.Prefix
}

// Outgoing reads the limits' egress keys. On an error the key that is wrong is returned with it.
func (l ShellLimits) Outgoing() (o Outgoing, key string, err error) {
	if o.Bundles, err = egress.ParseBundles(l.EgressBundles); err != nil {
		return Outgoing{}, limitsKey + "egress_bundles", err
	}
	if o.Ceiling, err = egress.ParseCeiling(EgressKey, l.AllowedEgressHosts, o.Bundles); err != nil {
		return Outgoing{}, EgressKey, err
	}
	if o.Pinned, err = egress.ParsePins(l.AllowedEgressRanges); err != nil {
		return Outgoing{}, limitsKey + "allowed_egress_ranges", err
	}
	return o, "", nil
}

// Fetching is how the files of file_url come in.
type Fetching struct {
	Schemes []string // none: none is fetched
	Timeout time.Duration
	Pinned  []netip.Prefix
}

// Fetching reads the limits' keys of file_url. On an error the key that is wrong is returned with it.
func (l ShellLimits) Fetching() (f Fetching, key string, err error) {
	switch l.InputFileURLs {
	case URLsHTTPS:
		f.Schemes = []string{"https"}
	case URLsHTTP:
		f.Schemes = []string{"https", "http"}
	case URLsOff:
	default:
		return Fetching{}, limitsKey + "input_file_urls", invalid("%q is not a kind of address", l.InputFileURLs).WithTry(`"https", "http" for both, or "off"`)
	}
	if f.Pinned, err = egress.ParsePins(l.InputFileURLRanges); err != nil {
		return Fetching{}, limitsKey + "input_file_url_ranges", err
	}
	f.Timeout = time.Duration(l.InputFileURLTimeoutSecs) * time.Second
	return f, "", nil
}

// checkEgress refuses entries that mean nothing, and secrets without hosts.
func (l ShellLimits) checkEgress() (string, *fault.Error) {
	wrong := func(key string, err error) (string, *fault.Error) {
		f, ok := fault.As(err)
		if !ok {
			f = fault.Wrap(fault.Invalid, err, "it cannot be used")
		}
		return key, f
	}
	if _, key, err := l.Outgoing(); err != nil {
		return wrong(key, err)
	}
	if _, key, err := l.Fetching(); err != nil {
		return wrong(key, err)
	}
	for _, name := range slices.Sorted(maps.Keys(l.AllowedDomainSecrets)) {
		key := limitsKey + "allowed_domain_secrets." + name + ".allowed_hosts"
		s := l.AllowedDomainSecrets[name]
		if s.Value.Empty() {
			return limitsKey + "allowed_domain_secrets." + name + ".value", invalid("a secret needs a value").WithTry("env:NAME or file:PATH")
		}
		if len(s.AllowedHosts) == 0 {
			return key, invalid("a secret needs the hosts that may get it").WithTry(`allowed_hosts = ["api.example.com"]`)
		}
		if _, err := egress.ParseRules(s.AllowedHosts); err != nil {
			return wrong(key, err)
		}
	}
	return "", nil
}

package bedrock

import (
	"net/url"
	"slices"
	"strings"
)

// host is what a base URL of the vendor's says. It is empty for any other.
type host struct {
	region  string // whose requests must be signed for it
	control string // the base URL that lists models; empty: it cannot be told
}

// domains are the ends of the vendor's hosts, by partition and by whether they answer over IPv6 too.
var domains = []string{"amazonaws.com", "amazonaws.com.cn", "api.aws", "api.amazonwebservices.com.cn"}

// hostOf reads bedrock-runtime.REGION.DOMAIN, the same for FIPS, and an interface endpoint of a private network, which
// has its own name before and "vpce" behind.
func hostOf(base string) host {
	u, err := url.Parse(base)
	if err != nil {
		return host{}
	}
	labels := strings.Split(u.Hostname(), ".")
	at := slices.IndexFunc(labels, func(l string) bool { return l == "bedrock-runtime" || l == "bedrock-runtime-fips" })
	if at < 0 || at+2 >= len(labels) || !slices.Contains(domains, strings.TrimPrefix(strings.Join(labels[at+2:], "."), "vpce.")) {
		return host{}
	}
	h := host{region: labels[at+1]}
	if at == 0 {
		u.Host = strings.Replace(u.Host, "bedrock-runtime", "bedrock", 1)
		h.control = u.String()
	}
	return h
}

package egress

// registries are the bundles that there are without a configuration: the hosts that each package tool asks when it is
// told of no other. They are written here and nowhere else. None of them is open by itself: a policy must name the
// bundle and the operator's ceiling hold it. An operator's table replaces a row, by a mirror of their own or by nothing.
var registries = map[string][]string{
	"npm":   {"registry.npmjs.org", "registry.yarnpkg.com"},
	"pip":   {"pypi.org", "files.pythonhosted.org"},
	"go":    {"proxy.golang.org", "sum.golang.org"},
	"cargo": {"index.crates.io", "static.crates.io", "crates.io"},
	"apt": {"deb.debian.org", "security.debian.org", "archive.ubuntu.com", "*.archive.ubuntu.com", "security.ubuntu.com",
		"ports.ubuntu.com"},
}

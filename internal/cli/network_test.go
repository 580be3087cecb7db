package cli

import (
	"slices"
	"testing"

	"github.com/hardshell-dev/hardshell/sandbox"
)

func TestNetworkFlag(t *testing.T) {
	for flag, want := range map[string]struct {
		network sandbox.Network
		hosts   []string
	}{
		"off":                      {sandbox.NetworkOff, nil},
		"full":                     {sandbox.NetworkFull, nil},
		"allow:a.test":             {sandbox.NetworkProxied, []string{"a.test"}},
		"allow:a.test, *.b.test":   {sandbox.NetworkProxied, []string{"a.test", "*.b.test"}},
		"allow:a.test:1,2,b.test":  {sandbox.NetworkProxied, []string{"a.test:1,2", "b.test"}},
		"allow:tcp://d.test:5432,": {sandbox.NetworkProxied, []string{"tcp://d.test:5432"}},
		"allow:*":                  {sandbox.NetworkProxied, []string{"*"}},
	} {
		network, hosts, err := runCommand{Network: flag}.network()
		if err != nil || network != want.network || !slices.Equal(hosts, want.hosts) {
			t.Errorf("%s: %v %q, %v", flag, network, hosts, err)
		}
	}
	for _, flag := range []string{"", "on", "allow", "allow:", "allow:,", "Off", "deny:a.test"} {
		if network, hosts, err := (runCommand{Network: flag}).network(); err == nil {
			t.Errorf("%s: %v %q", flag, network, hosts)
		}
	}
}

package resident

import "testing"

// What a busy command has written is told after a moment. An owner who goes away meanwhile, or is slow, must not leave a
// loop behind that looks for that moment all the time.
func TestNobodyToTellIsNotWaitedFor(t *testing.T) {
	for name, owner := range map[string]*conn{"gone": nil, "slow": {fd: -1, queue: [][]byte{{byte(KindReady)}}}} {
		s := &server{plan: &Plan{}, owner: owner, tellAt: monotonic()}
		if s.tell(); s.patience() != -1 {
			t.Errorf("owner %s: the loop waits for %d ms", name, s.patience())
		}
	}
}

package jail

import (
	"fmt"
	"os"

	"github.com/hardshell-dev/hardshell/fault"
)

// uidRange is a run of host uids, one per slot.
type uidRange struct{ first, count int }

// preferred is where no distribution, no service manager and no usual subordinate range hands out uids.
var preferred = uidRange{first: 1_900_000_000, count: 1 << 16}

// chooseUIDs returns the range for containers. Where our own user namespace does not know the preferred one, as in
// most containers, it is a part of the largest range that it knows, away from its ends, where system users are.
func chooseUIDs() uidRange {
	f, err := os.Open("/proc/self/uid_map")
	if err != nil {
		return preferred
	}
	defer f.Close()
	var largest uidRange
	for {
		var inside, outside, count int
		if _, err := fmt.Fscan(f, &inside, &outside, &count); err != nil {
			break
		}
		if inside <= preferred.first && preferred.first+preferred.count <= inside+count {
			return preferred
		}
		if count > largest.count {
			largest = uidRange{inside, count}
		}
	}
	return uidRange{first: largest.first + largest.count/2, count: largest.count / 4}
}

// of returns a slot's uid, which is never 0.
func (r uidRange) of(slot int) (int, error) {
	if slot < 0 || slot >= r.count || r.first+slot == 0 {
		return 0, fault.New(fault.Unavailable, "There is no uid left for container slot %d.", slot).
			WithTry("delete containers that are not needed, or run where /proc/self/uid_map maps more uids")
	}
	return r.first + slot, nil
}

package container

import (
	"cmp"
	"database/sql"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// Limits bound containers and their commands. A zero field takes the default that its comment names.
type Limits struct {
	DefaultTimeout     time.Duration // of a command that asks for none; 300 s
	MaxTimeout         time.Duration // longer wishes are cut to it; DefaultTimeout
	MaxOutput          int           // characters of a stream that a result shows; 8,000. A command may ask for less
	DefaultMemoryBytes int64         // of a container that asks for none; no limit
	MaxMemoryBytes     int64         // more is refused; no cap
	CPUs               float64       // processors' worth of time of a container; no limit
	Pids               int           // processes and threads of a container; 2,048
	DefaultIdleTTL     time.Duration // 20 minutes
	MaxIdleTTL         time.Duration // longer is refused; 60 days
	KeepExpired        time.Duration // how long the files of an expired container stay; 24 hours
	MaxFileBytes       int64         // of an uploaded file; 512 MiB, the vendor's
	DiskBytes          int64         // that a container's files may take; 10 GiB. Less than 0 is no limit
	MaxOrgContainers   int           // active ones of an organisation; no limit
	MaxOrgBytes        int64         // of all workspaces of an organisation, as they were counted last; no limit
	ReserveBytes       int64         // that containers leave free on their disk, a twentieth of it at most; 512 MiB. Less than 0 is nothing
}

// minOutput is the least that a result shows of a stream: less tells a model nothing.
const minOutput = 64

// minMemory is the least a container may be limited to. Below it a shell and one small program do not start.
const minMemory = 16 << 20

func (l Limits) withDefaults() Limits {
	l.DefaultTimeout = or(l.DefaultTimeout, 300*time.Second)
	l.MaxTimeout = or(l.MaxTimeout, l.DefaultTimeout)
	l.DefaultTimeout = min(l.DefaultTimeout, l.MaxTimeout)
	l.MaxOutput = max(or(l.MaxOutput, 8000), minOutput)
	l.Pids = or(l.Pids, 2048)
	l.DefaultIdleTTL = or(l.DefaultIdleTTL, 20*time.Minute)
	l.MaxIdleTTL = max(or(l.MaxIdleTTL, 60*24*time.Hour), l.DefaultIdleTTL)
	l.KeepExpired = or(l.KeepExpired, 24*time.Hour)
	l.MaxFileBytes = or(l.MaxFileBytes, 512<<20)
	l.DiskBytes = max(cmp.Or(l.DiskBytes, 10<<30), 0)
	l.ReserveBytes = max(cmp.Or(l.ReserveBytes, 512<<20), 0)
	return l
}

func or[T int | int64 | time.Duration](value, otherwise T) T {
	if value > 0 {
		return value
	}
	return otherwise
}

// timeout is the time that a command gets.
func (l Limits) timeout(asked time.Duration) time.Duration {
	return min(or(asked, l.DefaultTimeout), l.MaxTimeout)
}

// output is the number of characters that a result shows of each stream.
func (l Limits) output(asked int) int {
	return max(min(or(asked, l.MaxOutput), l.MaxOutput), minOutput)
}

// memoryUnits are the suffixes of a memory limit, lower case.
var memoryUnits = []struct {
	suffix string
	bytes  int64
}{{"kb", 1 << 10}, {"mb", 1 << 20}, {"gb", 1 << 30}, {"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"b", 1}, {"", 1}}

// ParseMemory reads a memory limit: digits and b, k, kb, m, mb, g or gb in any case; bare digits are bytes.
func ParseMemory(text string) (int64, error) {
	bad := fault.New(fault.Invalid, "memory_limit %q is not a size.", text).WithCode("invalid_memory_limit").
		WithParam("memory_limit").WithTry("1g, 4g, 16g, 64g, or a number of bytes, kb, mb or gb, from 16mb")
	lower := strings.ToLower(text)
	for _, unit := range memoryUnits {
		digits, ok := strings.CutSuffix(lower, unit.suffix)
		if !ok {
			continue
		}
		if strings.Trim(digits, "0123456789") != "" {
			return 0, bad
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n > math.MaxInt64/unit.bytes || n*unit.bytes < minMemory {
			return 0, bad
		}
		return n * unit.bytes, nil
	}
	return 0, bad
}

// formatMemory writes a size as ParseMemory reads it, in the largest unit that is exact. 0 is no limit: "".
func formatMemory(bytes int64) string {
	switch {
	case bytes == 0:
		return ""
	case bytes%(1<<30) == 0:
		return strconv.FormatInt(bytes>>30, 10) + "g"
	case bytes%(1<<20) == 0:
		return strconv.FormatInt(bytes>>20, 10) + "m"
	}
	return strconv.FormatInt(bytes, 10)
}

// admit says whether an organisation may have one more active container. One that comes back takes no more of the disk
// than it did.
func (l Limits) admit(tx *sql.Tx, org string, comesBack bool) error {
	if comesBack {
		l.MaxOrgBytes = 0
	}
	if l.MaxOrgContainers <= 0 && l.MaxOrgBytes <= 0 {
		return nil
	}
	var count, bytes int64
	if err := tx.QueryRow(`SELECT COUNT(CASE WHEN status = '`+Active+`' THEN 1 END), COALESCE(SUM(used), 0) FROM container
		WHERE org = $1 AND (slot IS NOT NULL OR archive <> '')`, org).Scan(&count, &bytes); err != nil {
		return err
	}
	switch {
	case l.MaxOrgContainers > 0 && count >= int64(l.MaxOrgContainers):
		return fault.New(fault.RateLimited, "This organisation has %d containers; %d are allowed.", count, l.MaxOrgContainers).
			WithCode("too_many_containers").WithTry("delete containers that are not needed, or wait for some to expire")
	case l.MaxOrgBytes > 0 && bytes >= l.MaxOrgBytes:
		return fault.New(fault.RateLimited, "The containers of this organisation take %s of the disk; %s are allowed.",
			sizeText(bytes), sizeText(l.MaxOrgBytes)).WithCode("organization_bytes_exceeded").WithTry("delete containers or files that are not needed")
	}
	return nil
}

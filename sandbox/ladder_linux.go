package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
)

// Open makes a box and its resident: a jail, or the best rung below it that the policy accepts. The error is a
// [fault.Isolation] with a line to try when that cannot be had here: a box is never weaker than its policy accepts,
// and its report says what it is.
func Open(ctx context.Context, spec Spec) (*Box, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	if !spec.Policy.confines() {
		return open(ctx, &spec, RungNone)
	}
	if around, ok := inside(); ok {
		return openInside(ctx, &spec, around)
	}
	b, err := open(ctx, &spec, RungJail)
	if err == nil || spec.Policy.Least != RungRestricted || fault.KindOf(err) != fault.Isolation {
		return b, err
	}
	return openBelow(ctx, &spec, err)
}

// openBelow makes a box without a jail, where there can be none. What kept us from the jail stays what is told, also
// when this fails too.
func openBelow(ctx context.Context, spec *Spec, why error) (*Box, error) {
	f, _ := fault.As(why)
	b, err := open(ctx, spec, RungRestricted)
	if err != nil {
		try := remedyOf(f)
		if g, ok := fault.As(err); ok && g.Kind == fault.Isolation {
			return nil, fault.Wrap(fault.Isolation, err, "%s; and without a jail: %s", f.Public(), g.Public()).WithTry("%s", try)
		}
		return nil, err
	}
	b.report.Missing = append([]string{"jail: " + why.Error()}, b.report.Missing...)
	b.report.Remedies = append(b.report.Remedies, remedyOf(f))
	return b, nil
}

// check refuses what no box can be made of.
func (s *Spec) check() error {
	p := s.Policy
	switch {
	case !filepath.IsAbs(s.Dir):
		return fault.New(fault.Invalid, "a box's state folder is an absolute path, not %q", s.Dir)
	case p.Mode < ReadOnly || p.Mode > ExternalSandbox:
		return fault.New(fault.Invalid, "%d is not a sandbox mode", int(p.Mode))
	case p.Least != "" && p.Least != RungJail && p.Least != RungRestricted:
		return fault.New(fault.Invalid, "%q is no rung that a box can be asked for", p.Least).WithTry("jail or restricted, or the mode danger-full-access")
	case p.Network == NetworkProxied && !p.confines():
		return fault.New(fault.Invalid, "%s confines nothing, so no proxy can be its only way out", p.Mode)
	case s.Hosted == nil && !filepath.IsAbs(s.Cwd):
		return fault.New(fault.Invalid, "a box's working folder is an absolute path, not %q", s.Cwd)
	case s.Hosted != nil && !p.confines():
		return fault.New(fault.Invalid, "a hosted box is never %s", p.Mode)
	case s.Hosted != nil && p.Least == RungRestricted:
		return fault.New(fault.Invalid, "a hosted box is a jail or is not")
	case s.Hosted != nil && (p.SharedTmp || len(p.Hidden)+len(p.Shown) > 0):
		return fault.New(fault.Invalid, "a hosted box sees nothing of the host that could be hidden or shared")
	case p.Mode != WorkspaceWrite && len(p.WritableRoots) > 0:
		return fault.New(fault.Invalid, "writable roots need the mode workspace-write, not %s", p.Mode)
	case s.Protocol != 0 && (s.Protocol < resident.Oldest || s.Protocol > resident.Version):
		return fault.New(fault.Invalid, "version %d of the resident's protocol is not spoken, only %d to %d", s.Protocol, resident.Oldest, resident.Version)
	case s.Once && s.Grace > 0:
		return fault.New(fault.Invalid, "a box of one command has no grace")
	case s.Limits.MemoryBytes < 0 || s.Limits.Pids < 0 || s.Limits.CPUs < 0 || s.Limits.DiskBytes < 0 || s.Grace < 0:
		return fault.New(fault.Invalid, "limits and grace are not negative")
	}
	return nil
}

// begin says what a spec's resident is born into, and begins the report.
func begin(spec *Spec, id identity, rung Rung) (*layout, *Report) {
	l := &layout{id: id, spawn: currentSpawner()}
	l.Version, l.Fence, l.Grace, l.WatchDisk = spec.protocol(), spec.Fence, spec.Grace, spec.Limits.DiskBytes
	l.Once = spec.Once
	report := &Report{Asked: RungJail, Got: rung, Mode: spec.Policy.Mode.String(), Network: spec.Policy.network().String()}
	switch rung {
	case RungNone:
		l.Home = spec.Cwd
		report.Asked = RungNone
		report.unconfined(spec.Policy)
		return l, report
	case RungExternal:
		l.Home = spec.Cwd
		report.Missing = append(report.Missing, "a jail of its own: this runs in one of hardshell's sandboxes already, and what that one lets be written can be written")
		return l, report
	}
	l.Confine, l.Jail = true, rung == RungJail
	l.Network = l.Jail && spec.Policy.Network != NetworkFull
	if l.Jail && spec.Limits.Pids > 0 {
		l.MaxPids = spec.Limits.Pids + ownThreads
	}
	if !id.root {
		if groups, _ := os.Getgroups(); len(groups) > 1 || len(groups) == 1 && groups[0] != id.group {
			report.Missing = append(report.Missing, keptGroups+": kept, an ordinary user cannot drop them")
		}
	}
	return l, report
}

// furnish says what stands in the box.
func (l *layout) furnish(spec *Spec) error {
	switch {
	case !l.Confine:
		return nil
	case !l.Jail:
		return l.restricted(spec)
	case spec.Hosted != nil:
		return l.hosted(spec)
	}
	return l.local(spec)
}

// furnished enters what became of that.
func (r *Report) furnished(l *layout) {
	r.Writable, r.Protected, r.Hidden, r.Shown = l.Writable, l.readonly, l.hidden, l.shown
	r.Missing = append(r.Missing, l.missing...)
}

// unconfined says what a mode without restrictions does not hold to.
func (r *Report) unconfined(p Policy) {
	switch {
	case p.Mode == ExternalSandbox:
		r.Network = string(RungExternal)
	case p.Network == NetworkOff:
		r.Missing = append(r.Missing, "network: not off, since the mode "+p.Mode.String()+" restricts nothing")
	}
}

// keptGroups begins what a report says of groups that could not be dropped.
const keptGroups = "supplementary groups"

// note enters what became of the limits.
func (r *Report) note(l Limits, missing []string) {
	for i, m := range missing {
		if r.Got != RungJail { // the limit of the kernel's counts all of a user's processes, so only a jail gets it
			missing[i] = strings.Replace(m, "held by RLIMIT_NPROC", "watched from time to time", 1)
		}
	}
	r.Missing = append(r.Missing, missing...)
	r.Limits = "none"
	if l != (Limits{}) {
		r.Limits = "hard"
	}
	if len(missing) > 0 {
		r.Limits = "soft"
		r.Remedies = append(r.Remedies, groupRemedy)
	}
	if l.DiskBytes == 0 {
		return
	}
	r.Limits = "soft"
	if r.Got == RungNone || r.Got == RungExternal {
		r.Missing = append(r.Missing, "disk limit: held for each file alone, since nothing says where else is written")
	} else {
		r.Missing = append(r.Missing, "disk limit: watched from time to time")
	}
}

const groupRemedy = "run as root, or in a delegated group: systemd-run --user --scope -p Delegate=yes hardshell serve"

package container

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// disk keeps the files of each container within its limit, and all of them together from filling the machine's disk.
//
// It is a counting watchdog, which needs no privilege and no quota of the file system. What the disk as a whole has
// lost since a container was last counted is the most that this container can have taken; only when that might pass
// its limit is it counted again. So an idle container costs nothing, and a look costs one statfs.
type disk struct {
	service *Service
	room    func(dir string) (free, total int64, ok bool)
	count   func(dir string) (int64, error)
	wake    chan struct{}

	mu     sync.Mutex
	spaces map[*place]*space
	puts   map[string]int64 // what containers without a box take, by id: once counted, then added to
	free   int64            // at the last look
	quiet  int              // looks since something was taken
}

// space is what a container takes of the disk.
type space struct {
	used    int64 // when it was counted
	counted bool
	ended   bool                // a command has ended since
	drawn   int64               // what the disk has lost since then, whoever took it
	ceiling int64               // after a breach: it may not grow beyond; 0 is the limit itself
	next    time.Time           // it is not counted again before
	struck  time.Time           // when commands were stopped last
	latest  time.Time           // it is counted at the latest then: what others free hides what it takes
	alone   bool                // no command ran at the last count
	unclear int                 // counts in a row that found it too large and growing, and nobody who was there all the time
	calls   map[*Execution]bool // those that run; true: they ran at the last count
}

const (
	// fastest is more than a container writes in a second. The next look comes before that could pass a limit.
	fastest = 3 << 30
	minLook = 20 * time.Millisecond
	maxLook = time.Second
	// calmLook is how rarely a container near its limit is looked at while nothing is taken from the disk.
	calmLook = 250 * time.Millisecond
	// quietLooks is how many looks in which nothing was taken make it calm.
	quietLooks = 50
	// idleCount is how rarely a container that runs no command is counted, unless the disk has lost what may be too much.
	idleCount = 10 * time.Minute
	// slack is what a container above its limit may still take, so that a command that cleans up can run.
	slack = 1 << 20
	// patience is how many such counts a container gets. Who hides behind commands that come and go is found by going on.
	patience = 3
	// dyingTime is how long a stopped command may take to be gone before its box is ended.
	dyingTime = 2 * time.Second
)

func newDisk(s *Service) *disk {
	return &disk{service: s, room: diskRoom, count: diskUsed, wake: make(chan struct{}, 1), spaces: map[*place]*space{},
		puts: map[string]int64{}}
}

// entered notes a command that was started.
func (d *disk) entered(e *Execution) {
	d.mu.Lock()
	defer d.mu.Unlock()
	sp := d.spaces[e.place]
	asleep := sp == nil || d.quiet > quietLooks
	if sp == nil {
		sp = &space{calls: map[*Execution]bool{}}
		d.spaces[e.place] = sp
	}
	sp.calls[e] = false
	delete(d.puts, e.place.id) // it is counted anew
	sp.latest = time.Now().Add(calmLook)
	d.quiet = 0
	if asleep { // else the next look comes in time
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
}

// admit says whether a command may be started. A container that is above its limit may run what cleans up, until many
// small steps have brought it far above.
func (d *disk) admit(p *place) error {
	limit := d.service.limits.DiskBytes
	if limit == 0 {
		return nil
	}
	d.mu.Lock()
	sp := d.spaces[p]
	far := sp != nil && sp.used > farAbove(limit)
	d.mu.Unlock()
	if !far {
		return nil
	}
	used, err := d.count(p.spec.Dir)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil { // nothing says that it is less
		used = sp.used
	}
	if used <= farAbove(limit) {
		sp.used, sp.drawn = used, 0
		return nil
	}
	return fault.New(fault.Unavailable, "The container's files take %s of the disk; %s are allowed.", sizeText(used), sizeText(limit)).
		WithCode(BreachDisk).WithTry("delete files of the container through the API, or the container")
}

func farAbove(limit int64) int64 { return limit + max(limit/8, 64*slack) }

// left notes its end. What it left running is still watched, until the box is gone.
func (d *disk) left(e *Execution) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if sp := d.spaces[e.place]; sp != nil {
		delete(sp.calls, e)
		// What it took is counted as its own, not as the next command's.
		sp.ended = true
		if d.near(sp) {
			select {
			case d.wake <- struct{}{}:
			default:
			}
		}
	}
}

// used is what a container took of the disk when it was last counted.
func (d *disk) used(p *place) (int64, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	sp := d.spaces[p]
	if sp == nil {
		return 0, false
	}
	return sp.used, sp.counted
}

// maxPuts bounds the containers without a box whose size is remembered.
const maxPuts = 10_000

// spare is what may still be written into a container from outside. One that runs nothing is counted once.
func (d *disk) spare(p *place, dir string) (int64, error) {
	limit := d.service.limits.DiskBytes
	if limit == 0 {
		return 1<<62 - 1, nil
	}
	d.mu.Lock()
	used, known := d.puts[p.id]
	if sp := d.spaces[p]; sp != nil && sp.counted {
		used, known = sp.used, true
	}
	d.mu.Unlock()
	if !known {
		var err error
		if used, err = d.count(dir); err != nil {
			return 0, fmt.Errorf("count container: %w", err)
		}
		d.put(p, used)
	}
	return limit - used, nil
}

// put notes bytes that were written from outside.
func (d *disk) put(p *place, bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if sp := d.spaces[p]; sp != nil {
		sp.used += bytes
		return
	}
	if len(d.puts) >= maxPuts {
		clear(d.puts)
	}
	d.puts[p.id] += bytes
}

// watchUntil looks until the service closes. While no box lives it sleeps.
func (d *disk) watchUntil(ctx context.Context) {
	timer := time.NewTimer(maxLook)
	defer timer.Stop()
	for {
		wait := d.look(time.Now())
		if wait > 0 {
			timer.Reset(wait)
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		case <-timer.C:
		}
	}
}

// look is one round. It returns when to come again; 0 is when a command is started.
func (d *disk) look(now time.Time) time.Duration {
	d.mu.Lock()
	room := d.room
	d.mu.Unlock()
	free, total, ok := room(d.service.dir) // not under mu: a disk may take its time
	if !ok {
		return 0
	}
	reserve := d.service.limits.reserve(total)
	low := free < reserve
	d.mu.Lock()
	drawn := max(0, d.free-free)
	if d.free = free; drawn > 0 {
		d.quiet = 0
	} else {
		d.quiet++
	}
	due := map[*place]*space{}
	for p, sp := range d.spaces {
		if len(sp.calls) == 0 && !p.alive() {
			delete(d.spaces, p)
			continue
		}
		sp.drawn += drawn
		if (low || !sp.counted || now.After(sp.latest) || sp.ended && d.near(sp) || d.over(sp, sp.used+sp.drawn)) && !now.Before(sp.next) {
			due[p] = sp
		}
	}
	d.mu.Unlock()
	for p, sp := range due {
		d.recount(p, sp, low)
	}
	return d.pause(free - reserve)
}

// over says whether so many bytes are more than a container may take. It needs mu.
func (d *disk) over(sp *space, bytes int64) bool {
	limit := d.service.limits.DiskBytes
	return limit > 0 && bytes > max(limit, sp.ceiling)
}

// near says whether a container is above its limit or may be. It needs mu.
func (d *disk) near(sp *space) bool {
	limit := d.service.limits.DiskBytes
	return limit > 0 && sp.used+sp.drawn > limit
}

// pause is the time until something could be passed.
func (d *disk) pause(room int64) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.spaces) == 0 {
		return 0
	}
	if limit := d.service.limits.DiskBytes; limit > 0 {
		for _, sp := range d.spaces {
			room = min(room, max(limit, sp.ceiling)-sp.used-sp.drawn)
		}
	}
	wait := max(minLook, min(maxLook, time.Duration(float64(max(room, 0))/fastest*float64(time.Second))))
	if d.quiet > quietLooks {
		wait = max(wait, calmLook)
	}
	return wait
}

// recount counts a container and stops what is too much.
func (d *disk) recount(p *place, sp *space, low bool) {
	d.mu.Lock()
	passed := sp.ended // a command has come and gone since the last count
	sp.ended = false
	d.mu.Unlock()
	begun := time.Now()
	used, err := d.count(p.spec.Dir)
	took := time.Since(begun)
	d.mu.Lock()
	defer d.mu.Unlock()
	passed = passed || sp.ended // what one takes that ends during the count may be found by the next: ended stays
	if err != nil {             // it is blamed for all that it may have taken
		d.service.log.Warn("a container's files could not be counted", "container", p.id, "error", err)
		used = max(used, sp.used+sp.drawn)
	}
	grew := used - sp.used
	known := sp.counted
	sp.used, sp.drawn, sp.counted = used, 0, true
	sp.next = time.Now().Add(10 * took) // a tenth of a core at most
	sp.latest = time.Now().Add(max(calmLook, 50*took))
	if len(sp.calls) == 0 {
		sp.latest = time.Now().Add(max(idleCount, 200*took))
	}
	if low {
		sp.next = time.Now().Add(took)
	}
	limit := d.service.limits.DiskBytes
	// Only who was there at the count before can have grown since; where a command has come and gone it may have been that.
	over := d.over(sp, used)
	sure := !passed && (len(sp.calls) == 0 && sp.alone || slices.Contains(slices.Collect(maps.Values(sp.calls)), true))
	if (over || low) && grew > 64<<10 && !sure {
		sp.unclear++
	} else {
		sp.unclear = 0
	}
	blamed := known && (sure || sp.unclear > patience)
	sp.alone = len(sp.calls) == 0
	switch {
	case over && blamed:
		d.breach(p, sp, &breach{BreachDisk, fmt.Sprintf("The container's files take %s of the disk; %s are allowed.", sizeText(used), sizeText(limit))})
		sp.ceiling = used + slack
	case over: // what took it is gone, or not known
		sp.ceiling = used + slack
	case low && blamed && grew > 64<<10:
		d.breach(p, sp, &breach{BreachFull, "The disk that holds the containers is almost full."})
	case used <= limit:
		sp.ceiling = 0
	default: // still above the limit, and shrinking
		sp.ceiling = min(sp.ceiling, used+slack)
	}
	for e := range sp.calls {
		sp.calls[e] = true
	}
}

// reserve is what containers leave free on a disk of this size.
func (l Limits) reserve(total int64) int64 { return min(l.ReserveBytes, total/20) }

// sizeText is a size for people, in the largest unit that leaves a number of at least one.
func sizeText(bytes int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	value, n := float64(bytes), 0
	for value >= 1024 && n < len(units)-1 {
		value, n = value/1024, n+1
	}
	if n == 0 {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %s", value, units[n])
}

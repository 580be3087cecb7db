// Command gateway measures what the gateway adds to a model call: latency, time to the first event, throughput, cut
// streams, and the lag of paced events.
//
// Four ways to the same mock upstream are visited in rotated order, round by round: a direct call, a bare reverse
// proxy that reads the body first (the floor), and the built binary with store: false and with store: true. The first
// two speak the mock's dialect, one of five; the gateway's clients always speak Responses, so its figures include the
// translation. Each dialect has a run, a mock and a floor of its own, and -dialect chooses among them. An event is one chunk of the mock's text, whether a gateway passes it on alone or puts it together with the
// next that is there already. Every stream's text is checked; a stream that ends early is cut. All of it runs on
// loopback and on one machine, so only the ratios mean anything.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"
)

type settings struct {
	rounds     int
	single     int // requests a round and target at concurrency 1
	many       int // streams a round and target at concurrency 32
	lagStreams int
	lagRate    int
	lagTime    time.Duration
	only       string
	dialects   string
	binary     string
	profile    string // a CPU profile of hardshell for each dialect goes to this folder
	dir        string
}

func main() {
	var s settings
	asJSON := flag.Bool("json", false, "print an object of medians and ratios")
	flag.IntVar(&s.rounds, "rounds", 6, "interleaved rounds")
	flag.IntVar(&s.single, "n", 120, "requests a round and target, one after the other")
	flag.IntVar(&s.many, "many", 900, "streams a round and target, 32 at a time")
	flag.IntVar(&s.lagStreams, "lag-streams", 250, "streams at once in the paced part; 0 leaves it out")
	flag.IntVar(&s.lagRate, "lag-rate", 200, "events a second and stream in the paced part")
	flag.DurationVar(&s.lagTime, "lag-time", 4*time.Second, "length of the paced part, a target")
	flag.StringVar(&s.dialects, "dialect", "all", "what the upstream speaks, a list with commas: chat, openai, anthropic, bedrock, gemini")
	flag.StringVar(&s.only, "only", "", "visit this target alone, without ratios: for a profiler")
	flag.StringVar(&s.binary, "binary", "", "the hardshell to measure; built from this tree when empty")
	flag.StringVar(&s.profile, "profile", "", "build hardshell with the tag profile, and leave a CPU profile for each dialect in this folder")
	child := flag.String("child", "", "internal: be the mock or the floor")
	upstream := flag.String("upstream", "", "internal: where the floor leads")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *child != "" {
		fail(serveChild(ctx, *child, *upstream))
		return
	}
	list, err := chosen(s.dialects)
	fail(err)
	dir, err := os.MkdirTemp("", "hardshell-bench-")
	fail(err)
	s.dir = dir
	report, err := measureAll(ctx, s, list)
	os.RemoveAll(dir)
	fail(err)
	if *asJSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		fail(e.Encode(report))
	} else {
		report.print(os.Stdout)
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

// measureAll runs each dialect by itself: each has its floor beside it.
func measureAll(ctx context.Context, s settings, list []dialect) (*report, error) {
	if s.binary == "" {
		s.binary = filepath.Join(s.dir, "hardshell")
		if err := build(ctx, s.binary, s.profile != ""); err != nil {
			return nil, err
		}
	}
	r := &report{Bench: "gateway", CPUs: runtime.NumCPU(), Rounds: s.rounds}
	base := s.dir
	for _, d := range list {
		s.dir = filepath.Join(base, d.name)
		if err := os.Mkdir(s.dir, 0o700); err != nil {
			return nil, err
		}
		one, err := measure(ctx, s, d)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
		r.Dialects = append(r.Dialects, one)
	}
	return r, nil
}

// measure starts the processes, drives the load and returns what was seen.
func measure(ctx context.Context, s settings, d dialect) (*run, error) {
	group := &processes{}
	defer group.stop()
	mock, err := group.child(ctx, "mock")
	if err != nil {
		return nil, err
	}
	floor, err := group.child(ctx, "floor", "-upstream", mock)
	if err != nil {
		return nil, err
	}
	floorPID := group.last()
	ours, key, err := group.hardshell(ctx, s, d, mock)
	if err != nil {
		return nil, err
	}
	targets := []*target{
		{name: "direct", at: mock, dialect: d},
		{name: "floor", at: floor, dialect: d, pid: floorPID},
		{name: "store:false", at: ours, dialect: responsesDialect(), key: key, pid: group.last()},
		{name: "store:true", at: ours, dialect: responsesDialect(), key: key, pid: group.last(), store: true},
	}
	targets = slices.DeleteFunc(targets, func(t *target) bool { return s.only != "" && t.name != s.only })
	r := &run{Dialect: d.name, Targets: map[string]*figures{}}
	for _, t := range targets {
		r.names = append(r.names, t.name)
		r.Targets[t.name] = &figures{}
		t.out = r.Targets[t.name]
		t.client = newClient()
	}
	for _, part := range []struct {
		load  load
		count int
	}{
		{load{stream: false, workers: 1}, s.single},
		{load{stream: true, workers: 1}, s.single},
		{load{stream: true, workers: 32}, s.many},
		{load{stream: false, workers: 32}, s.many},
	} {
		if err := interleave(ctx, targets, s.rounds, part.count, part.load); err != nil {
			return nil, err
		}
	}
	if s.lagStreams > 0 {
		for _, t := range targets {
			if err := t.paced(ctx, s); err != nil {
				return nil, err
			}
		}
	}
	r.finish()
	return r, ctx.Err()
}

// interleave visits every target once a round, each round beginning with another one.
func interleave(ctx context.Context, targets []*target, rounds, count int, l load) error {
	for _, t := range targets {
		if _, err := t.run(ctx, max(count/10, l.workers), l); err != nil { // warms up; not recorded
			return err
		}
	}
	for round := range rounds {
		for i := range targets {
			t := targets[(i+round)%len(targets)]
			s, err := t.run(ctx, count, l)
			if err != nil {
				return err
			}
			t.out.add(l, s)
			time.Sleep(30 * time.Millisecond) // lets the last target's garbage be its own
		}
	}
	return nil
}

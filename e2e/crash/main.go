// Command crash kills the real server again and again while clients read from it, and says what was lost.
//
// A model of its own (model.go) has every response run three commands between pieces of text, one of which waits for a
// person's approval, in a conversation that is too long for them all: room is made in it. At seeded moments the server
// dies by kill -9 and is started again on the same data folder, while readers (reader.go) resume at numbers of
// their choice. In the end the log of every response is read once more from its beginning: what each reader saw must be
// that, byte for byte, without a hole and without a repeat; and a file that each command adds a line to proves that none
// ran twice. The first thing that is wrong ends it with the seed that shows it again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

type settings struct {
	binary  string
	points  int
	readers int
	open    int // responses that are worked on at once
	seed    uint64
	verbose bool
}

func main() {
	var s settings
	flag.StringVar(&s.binary, "binary", "bin/hardshell", "the binary to kill")
	flag.IntVar(&s.points, "points", 200, "how often it is killed")
	flag.IntVar(&s.readers, "readers", 64, "clients that read and resume")
	flag.IntVar(&s.open, "open", 8, "responses that are worked on at once")
	flag.Uint64Var(&s.seed, "seed", 0, "what decides the moments; 0 takes one from the clock")
	flag.BoolVar(&s.verbose, "v", false, "tell of every kill")
	limit := flag.Duration("limit", 20*time.Minute, "when to give up")
	flag.Parse()
	if s.seed == 0 {
		s.seed = uint64(time.Now().UnixNano())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	began := time.Now()
	r, err := run(ctx, s)
	fmt.Printf("points tried %d, responses %d, turns broken %d, events compared %d, lost %d, repeated %d, differing %d, commands run twice %d, interrupted %d, strays %d, approvals %d, compactions %d (seed %d, %s)\n",
		r.points, r.responses, r.broken, r.events, r.lost, r.repeated, r.differing, r.twice, r.interrupted, r.strays, r.answered, r.compactions, s.seed, time.Since(began).Round(time.Second))
	if err == nil && (r.answered == 0 || r.compactions == 0) {
		err = errors.New("nobody was asked, or no room was made: this run has not tried what it is for")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(1)
	}
}

// result is what was tried and what went wrong.
type result struct {
	points, responses          int
	events                     int64
	lost, repeated, differing  int64
	broken                     int // calls that were not run because their turn broke off
	twice, interrupted, strays int
	answered                   int // questions that a person said yes to
	compactions                int
}

// run does the whole of it.
func run(ctx context.Context, s settings) (result, error) {
	var r result
	model, err := startModel()
	if err != nil {
		return r, err
	}
	defer model.close()
	srv, err := newServer(s, model.url)
	if err != nil {
		return r, err
	}
	defer srv.remove()
	if err := srv.start(ctx); err != nil {
		return r, err
	}
	person, err := newPerson(ctx, srv)
	if err != nil {
		return r, err
	}
	// What goes wrong beside the kills ends them as well.
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	book := &book{jobs: map[string]*job{}}
	var wg sync.WaitGroup
	working, enough := context.WithCancel(ctx)
	defer enough()
	wg.Go(func() { keepOpen(working, srv, book, s.open, fail) })
	for i := range s.readers {
		rng := rand.New(rand.NewPCG(s.seed, uint64(i)+1))
		wg.Go(func() { readOn(ctx, srv, book, rng, fail) })
	}
	asked, leave := context.WithCancel(ctx)
	defer leave()
	wg.Go(func() { person.approve(asked) })
	err = kills(ctx, s, srv, &r.points)
	enough() // no new responses; those that are open go to their ends
	if err == nil {
		err = book.drained(ctx)
	}
	book.over()
	leave()
	wg.Wait()
	r.answered = person.answered
	if cause := context.Cause(ctx); err == nil && cause != nil {
		err = cause
	}
	if err != nil {
		return r, fmt.Errorf("%w\n%s", err, srv.tail())
	}
	return r, book.judge(ctx, srv, &r)
}

// kills kills the server at every point and starts it again.
func kills(ctx context.Context, s settings, srv *server, points *int) error {
	rng := rand.New(rand.NewPCG(s.seed, 0))
	for *points < s.points {
		// Mostly within a turn, now and then during the start itself.
		pause := time.Duration(rng.Int64N(int64(500 * time.Millisecond)))
		if rng.IntN(6) == 0 {
			pause = time.Duration(rng.Int64N(int64(20 * time.Millisecond)))
		}
		select {
		case <-time.After(pause): // the moment is the test
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		srv.kill()
		*points++
		if s.verbose {
			fmt.Fprintf(os.Stderr, "point %d after %s\n", *points, pause.Round(time.Millisecond))
		}
		if rng.IntN(6) == 0 { // killed while it starts
			if err := srv.launch(); err != nil {
				return err
			}
			time.Sleep(time.Duration(rng.Int64N(int64(60 * time.Millisecond))))
			srv.kill()
			*points++
		}
		if err := srv.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

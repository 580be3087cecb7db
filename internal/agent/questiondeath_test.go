package agent

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/agent/approvals"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// Park and Show count as events do: a server may die in them, too.
func (r *counted) Park(ctx context.Context) error {
	r.count()
	return r.Run.Park(ctx)
}

func (r *counted) Show(items map[int]openai.Item) error {
	err := r.Run.Show(items)
	r.count()
	return err
}

// approveAll answers every question with yes until the test ends.
func (h *house) approveAll(t testing.TB) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			q := h.asks.now()
			list, _, err := q.List(ctx, principal.Org, approvals.Page{Status: "pending"})
			for _, a := range list {
				if _, err := q.Answer(ctx, person, a.ID, approvals.Approve, ""); err != nil && fault.KindOf(err) != fault.Conflict && ctx.Err() == nil {
					t.Errorf("answer: %v", err)
				}
			}
			if err != nil && ctx.Err() == nil {
				t.Errorf("list: %v", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() {
		cancel()
		<-over
	}
}

// Wherever a server dies, before the question, while it waits, or right after the answer: each command runs once.
func TestAServerMayDieAroundAnApproval(t *testing.T) {
	play := func(t *testing.T, dieAt ...int) int {
		h := openHouse(t, busyGround(t), newDesk(approval.UnlessTrusted), dieAt...)
		defer h.approveAll(t)()
		r := h.play(t, busyRequest)
		checkBusy(t, h, r.id)
		log, resp := h.await(r.id)
		if got := approvalOf(t, resp); got.Status != "approved" {
			t.Errorf("the call shows %+v", got)
		}
		return len(log)
	}
	events := play(t)
	for n := 1; n <= events+5; n++ {
		t.Run(fmt.Sprintf("after %d", n), func(t *testing.T) { play(t, n) })
	}
	for n := 1; n <= 10; n++ {
		t.Run(fmt.Sprintf("thrice, first after %d", 2*n), func(t *testing.T) { play(t, 2*n, 1+n, 12-n) })
	}
}

// Two gateways on one database: whoever takes the answer, the response goes on once.
func TestTwoGatewaysAndOneAnswer(t *testing.T) {
	d := newDesk(approval.OnRequest)
	h := openHouse(t, riskyGround(t), d)
	_, first := h.now()
	first.stop()
	rooms := make([]*response.Service, 2)
	desks := make([]*approvals.Service, 2)
	agents := make([]*Agent, 2)
	for i := range rooms {
		var err error
		if rooms[i], err = response.New(t.Context(), response.Options{DB: h.db, Shared: true}); err != nil {
			t.Fatal(err)
		}
		if desks[i], err = approvals.New(t.Context(), approvals.Options{DB: h.db}); err != nil {
			t.Fatal(err)
		}
		a := newAgent(responseRoom{rooms[i]}, h.ground, h.ground, Options{Approvals: desks[i]})
		agents[i] = a
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := a.Close(ctx); err != nil {
				t.Error(err)
			}
			if err := rooms[i].Close(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for n := range 6 {
		run, live, err := agents[n%2].begin(t.Context(), principal, request(t, riskyRequest))
		if err != nil {
			t.Fatal(err)
		}
		live()
		q := d.pending(t, 1)[0]
		if n%3 == 0 {
			h.parked(t, run.ID()) // otherwise the answer may come first
		}
		var wg sync.WaitGroup
		var took sync.Map
		for i := range desks { // both are told; one is heard
			wg.Go(func() {
				if _, err := desks[i].Answer(t.Context(), person, q.ID, approvals.Approve, ""); err == nil {
					took.Store(i, true)
				} else if fault.KindOf(err) != fault.Conflict {
					t.Errorf("answer: %v", err)
				}
			})
		}
		wg.Wait()
		answers := 0
		took.Range(func(any, any) bool { answers++; return true })
		if answers != 1 {
			t.Errorf("%d answers were taken", answers)
		}
		until(t, "the end", func() bool {
			resp, err := rooms[0].Get(t.Context(), principal.Org, run.ID())
			if err != nil {
				t.Fatal(err)
			}
			return resp.Status == openai.Completed
		})
		if got := h.ground.started("rm -rf build"); got != n+1 {
			t.Fatalf("after %d responses it has run %d times", n+1, got)
		}
	}
}

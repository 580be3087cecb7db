package passthrough

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/id"
)

// ownRoom has containers of this server's own, and nothing but them.
type ownRoom struct {
	Own
	ids []string
}

func (o *ownRoom) Get(_ context.Context, _, id string) (container.Container, error) {
	if slices.Contains(o.ids, id) {
		return container.Container{ID: id, Status: container.Active}, nil
	}
	return container.Container{}, fault.New(fault.NotFound, "no %s", id)
}

func (o *ownRoom) Delete(ctx context.Context, org, id string) error {
	_, err := o.Get(ctx, org, id)
	return err
}

func (o *ownRoom) List(_ context.Context, _ string, page container.Page) (out []container.Container, more bool, err error) {
	for _, id := range slices.Backward(o.ids) {
		if page.After == "" || id < page.After {
			out = append(out, container.Container{ID: id})
		}
	}
	if page.Limit > 0 && len(out) > page.Limit {
		return out[:page.Limit], true, nil
	}
	return out, false, nil
}

func TestOneListOfBoth(t *testing.T) {
	s, _ := setUp(t)
	own := &ownRoom{}
	h := NewHall(own, s)
	var want []string
	for i := range 5 {
		if i%2 == 0 {
			own.ids = append(own.ids, id.New(id.Container))
			want = append(want, own.ids[len(own.ids)-1])
			continue
		}
		c, err := h.Create(t.Context(), "org_a", container.CreateSpec{Name: "v"})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, c.ID)
	}
	slices.Reverse(want)
	for limit := 1; limit <= 6; limit++ {
		var got []string
		for after, more := "", true; more; {
			page, m, err := h.List(t.Context(), "org_a", container.Page{Limit: limit, After: after})
			if err != nil || len(page) > limit || m && len(page) == 0 {
				t.Fatalf("limit %d: %d, %v, %v", limit, len(page), m, err)
			}
			for _, c := range page {
				got = append(got, c.ID)
			}
			if more = m; more {
				after = got[len(got)-1]
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("limit %d: %v, want %v", limit, got, want)
		}
	}
	for _, id := range want {
		if _, err := h.Get(t.Context(), "org_a", id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if err := h.Delete(t.Context(), "org_a", id); err != nil {
			t.Errorf("delete %s: %v", id, err)
		}
	}
	if list, _, err := s.list(t.Context(), "org_a", container.Page{}); err != nil || len(list) > 0 {
		t.Errorf("%v are left, %v", list, err)
	}
	if _, err := h.Get(t.Context(), "org_a", "nonsense"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("%v", err)
	}
}

// Whose a new container is must be plain.
func TestAContainerNeedsOneProvider(t *testing.T) {
	s, v := setUp(t)
	s.upstreams["another"] = v
	if _, err := NewHall(&ownRoom{}, s).Create(t.Context(), "org_a", container.CreateSpec{}); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "another, vendor") {
		t.Errorf("%v", err)
	}
}

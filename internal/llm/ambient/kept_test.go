package ambient

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// finder finds "1", "2", … after a while, each of which ends an hour later.
type finder struct {
	searches int
	takes    time.Duration
	err      error
}

func (f *finder) find(ctx context.Context) (string, time.Time, error) {
	f.searches++
	n := f.searches
	select {
	case <-time.After(f.takes):
		return strconv.Itoa(n), time.Now().Add(time.Hour), f.err
	case <-ctx.Done():
		return "", time.Time{}, ctx.Err()
	}
}

func TestManyCauseOneSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k Kept[string]
		f := &finder{takes: time.Second}
		got := make(chan string)
		for range 8 {
			go func() {
				v, err := k.Get(t.Context(), Env{}, time.Minute, f.find)
				if err != nil {
					t.Error(err)
				}
				got <- v
			}()
		}
		for range 8 {
			if v := <-got; v != "1" {
				t.Errorf("got %q", v)
			}
		}
		if f.searches != 1 {
			t.Errorf("%d searches", f.searches)
		}
	})
}

// One who leaves does not wait for the search, and does not end it for those who stay.
func TestOneWhoLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k Kept[string]
		f := &finder{takes: 10 * time.Second}
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		stayed := make(chan string)
		go func() {
			if _, err := k.Get(ctx, Env{}, time.Minute, f.find); fault.KindOf(err) != fault.Cancelled {
				t.Errorf("err = %v", err)
			}
			if took := time.Since(begun); took != time.Second {
				t.Errorf("one who wanted to wait a second waited %s", took)
			}
		}()
		synctest.Wait() // it is his search
		go func() {
			v, err := k.Get(t.Context(), Env{}, time.Minute, f.find)
			if err != nil {
				t.Error(err)
			}
			stayed <- v
		}()
		if v := <-stayed; v != "1" || f.searches != 1 || time.Since(begun) != 10*time.Second {
			t.Errorf("got %q, %d searches, after %s", v, f.searches, time.Since(begun))
		}
	})
}

// A search that finds nobody at home ends.
func TestSearchIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k Kept[string]
		f := &finder{takes: time.Hour}
		begun := time.Now()
		if _, err := k.Get(t.Context(), Env{}, time.Minute, f.find); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != Patience {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
	})
}

func TestSoughtAnewBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k Kept[string]
		f := &finder{takes: time.Second}
		get := func() string {
			t.Helper()
			v, err := k.Get(t.Context(), Env{}, 5*time.Minute, f.find)
			if err != nil {
				return err.Error()
			}
			return v
		}
		want := func(v string, searches int) {
			t.Helper()
			got := get()
			synctest.Wait() // a search that it caused has begun
			if got != v || f.searches != searches {
				t.Errorf("got %q after %d searches, want %q after %d", got, f.searches, v, searches)
			}
		}
		want("1", 1)
		time.Sleep(54 * time.Minute)
		want("1", 1)
		time.Sleep(2 * time.Minute)
		begun := time.Now()
		get()
		if took := time.Since(begun); took != 0 {
			t.Errorf("waited %s for the next one while the old one is good", took)
		}
		want("1", 2) // still under way: no second search
		time.Sleep(2 * time.Second)
		want("2", 2)

		// What goes wrong with the next one is told when the old one has ended.
		f.err = errors.New("nobody at home")
		time.Sleep(57 * time.Minute)
		get()
		time.Sleep(2 * time.Second)
		want("2", 4)
		time.Sleep(5 * time.Minute)
		if got := get(); got != "nobody at home" {
			t.Errorf("got %q", got)
		}
		f.err = nil
		if got := get(); got != "6" {
			t.Errorf("got %q", got)
		}
	})
}

// What has no end is sought once.
func TestKeptForEver(t *testing.T) {
	var k Kept[string]
	searches := 0
	env := Env{Now: func() time.Time { return time.Now().Add(time.Duration(searches) * 1000 * time.Hour) }}
	for range 3 {
		v, err := k.Get(t.Context(), env, time.Minute, func(context.Context) (string, time.Time, error) {
			searches++
			return "x", time.Time{}, nil
		})
		if v != "x" || err != nil || searches != 1 {
			t.Errorf("%q, %v, %d searches", v, err, searches)
		}
	}
}

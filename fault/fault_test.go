package fault

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestKindNames(t *testing.T) {
	seen := map[string]bool{}
	for k := Internal; k <= Cancelled; k++ {
		name := k.String()
		if name == "" || seen[name] {
			t.Errorf("kind %d is called %q", k, name)
		}
		seen[name] = true
	}
	if len(kindNames) != int(Cancelled)+1 {
		t.Errorf("%d names for %d kinds", len(kindNames), Cancelled+1)
	}
	for _, k := range []Kind{-1, Cancelled + 1, 1000} {
		if k.String() != "internal" {
			t.Errorf("an unknown kind %d is called %q", k, k)
		}
	}
}

func TestTexts(t *testing.T) {
	e := Wrap(NotFound, io.ErrUnexpectedEOF, "container %s is gone.", "cntr_1").WithCode("c").WithParam("p").WithTry("a new %s", "one")
	if got, want := e.Public(), "container cntr_1 is gone. Try: a new one"; got != want {
		t.Errorf("Public = %q, want %q", got, want)
	}
	if got, want := e.Error(), "container cntr_1 is gone.: unexpected EOF"; got != want {
		t.Errorf("Error = %q, want %q", got, want)
	}
	if e.Kind != NotFound || e.Code != "c" || e.Param != "p" {
		t.Errorf("%+v", e)
	}
	plain := New(Invalid, "no")
	if plain.Public() != "no" || plain.Error() != "no" || plain.Unwrap() != nil {
		t.Errorf("%+v", plain)
	}
}

func TestWithCopies(t *testing.T) {
	base := New(Invalid, "no")
	base.WithCode("c").WithParam("p").WithTry("t")
	if base.Code != "" || base.Param != "" || base.Try != "" {
		t.Errorf("a With changed its receiver: %+v", base)
	}
}

func TestChain(t *testing.T) {
	inner := Wrap(Upstream, io.EOF, "inner")
	outer := fmt.Errorf("outer: %w", Wrap(Unavailable, inner, "middle"))
	if e, ok := As(outer); !ok || e.Message != "middle" || KindOf(outer) != Unavailable {
		t.Errorf("the first fault of the chain is %v", e)
	}
	if !errors.Is(outer, io.EOF) {
		t.Error("the cause is lost")
	}
	if _, ok := As(io.EOF); ok || KindOf(io.EOF) != Internal || KindOf(nil) != Internal {
		t.Error("an error nobody classed must be internal")
	}
}

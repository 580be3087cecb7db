package cleanup

import (
	"slices"
	"testing"
)

func TestStack(t *testing.T) {
	var order []int
	var s Stack
	s.Run() // nothing to do is fine
	for i := range 3 {
		s.Add(func() { order = append(order, i) })
	}
	s.Run()
	s.Run()
	if !slices.Equal(order, []int{2, 1, 0}) {
		t.Errorf("order %v, want last in, first out, once", order)
	}
}

func TestRelease(t *testing.T) {
	ran := 0
	func() {
		var s Stack
		defer s.Run()
		s.Add(func() { ran++ })
		s.Release()
		s.Add(func() { ran += 10 })
	}()
	if ran != 10 {
		t.Errorf("ran = %d: what was released must stay, what came later must go", ran)
	}
}

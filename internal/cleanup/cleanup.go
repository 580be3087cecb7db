// Package cleanup is an undo stack for set-up in several steps: push an undo after each step that worked, run them
// all on failure, release them on success.
//
//	var undo cleanup.Stack
//	defer undo.Run()
//	f, err := os.Create(path)
//	if err != nil {
//		return err
//	}
//	undo.Add(func() { os.Remove(path) })
//	…
//	undo.Release()
package cleanup

// Stack holds undo steps. The zero value is ready; it is not for use from two goroutines.
type Stack struct{ steps []func() }

// Add pushes a step. Steps run last in, first out.
func (s *Stack) Add(undo func()) { s.steps = append(s.steps, undo) }

// Run runs and forgets every step. A second call does nothing.
func (s *Stack) Run() {
	for i := len(s.steps) - 1; i >= 0; i-- {
		s.steps[i]()
	}
	s.steps = nil
}

// Release forgets every step without running it: what was set up is to stay.
func (s *Stack) Release() { s.steps = nil }

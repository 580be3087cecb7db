package screen_test

import (
	"fmt"

	"github.com/hardshell-dev/hardshell/terminal/screen"
)

// A progress bar is the line that it ended as, and colours are nothing.
func ExampleRender() {
	out := "fetching 10%\rfetching 100%\n\x1b[32mok\x1b[0m\n"
	fmt.Print(screen.Render([]byte(out), 0))
	// Output:
	// fetching 100%
	// ok
}

// Takes go on where the last one stopped; what was written over comes again.
func ExampleScreen_Take() {
	s := screen.New(screen.Options{Rows: 24, Cols: 80, Raw: true})
	s.Write([]byte("built 1 of 2"))
	fmt.Printf("%q\n", s.Take())
	s.Write([]byte("\rbuilt 2 of 2\r\nall done\r\n"))
	fmt.Printf("%q\n", s.Take())
	// Output:
	// "built 1 of 2"
	// "built 2 of 2\nall done\n"
}

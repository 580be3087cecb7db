// Package screen turns the output of a command into the text that a terminal would finally show.
//
//	s := screen.New(screen.Options{Rows: 24, Cols: 80})
//	s.Write([]byte("10%\r50%\r\x1b[32mdone\x1b[0m\n"))
//	fmt.Print(s.Take().String()) // done
//
// A progress bar is the line that it ended as, colours are nothing, a program that drew over the whole screen and left
// is nothing, and lines that the terminal broke for want of room are whole again. [Screen.Take] gives what is new since
// the last one: a line that only grew continues where it stopped, one that was written over comes again as it stands.
// The takes of a command that never moves backwards are, put together, exactly what it wrote.
//
// It is for reading, not for looking: there is no colour, no font and no answer to a terminal's questions. What holds: no
// input makes it panic or take more memory than its bounds, and what it leaves out of a text it counts.
package screen

// Package session keeps commands that live on between calls: an agent starts one, types, waits, reads, and comes back.
//
//	store := session.New(session.Options{})
//	defer store.Close()
//	s, err := store.Start(ctx, session.Spec{Starter: box, Command: process.Command{
//		Argv: []string{"python3"}, Env: env, Dir: work, TTY: &process.Size{}}})
//	if err != nil {
//		return err
//	}
//	first, err := s.Collect(ctx, session.Wait{Yield: time.Second}) // the banner and ">>> "
//	err = s.Write(ctx, []byte("6*7\n"))
//	next, err := s.Collect(ctx, session.Wait{Yield: time.Second}) // 42
//
// A [Store] belongs to one client of the engine and bounds what that client may have open: beyond [Options.Max] the
// least useful session is ended to make room, and the next snapshots say which. A [Session] is one command in a box. It
// is read by [Session.Collect], which waits for what the caller asked for (an exit, a pattern, a port, silence, or just
// a time measured from the start or the last write) and returns a [Snapshot]: what a terminal would finally show of the
// bytes that are new, and where the session stands.
//
// # What holds
//
// Where a session stands ([State]) is judged from the kernel: who has the terminal and who is blocked reading it; and,
// for an interactive shell, from marks that its own settings make it print. Silence decides nothing, and the text of a
// command is never touched. Every byte is counted, the raw stream stays readable ([Session.Raw]), and a session that
// ended can be asked again. A password is given by [Session.Answer], by a person, and is shown to nobody.
//
// The package judges no command and confines none: what runs is decided before, and a box runs it.
package session

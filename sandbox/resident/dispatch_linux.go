package resident

import (
	"os"
	"runtime"
)

// init makes the process a resident or a spawner when it was started under one of their names, before the packages
// that the rest of the binary needs are initialised.
func init() {
	if len(os.Args) == 0 {
		return
	}
	switch os.Args[0] {
	case Name:
		runtime.MemProfileRate = 0 // nobody reads it, and it takes memory
		runtime.LockOSThread()     // on the main thread, where init functions run
		serve()
	case SpawnerName:
		spawn()
	case holderName:
		hold()
	}
}

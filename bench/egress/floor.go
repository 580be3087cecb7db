package main

import (
	"bufio"
	"io"
	"net"
)

// serveFloor is the least proxy that can be: it reads a head, judges nothing, and copies. What it adds to a connection
// no proxy of this kind can save, as the wake-ups alone cost more than a system call on a machine that idles between
// them.
func serveFloor(l net.Listener, target string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			in := bufio.NewReader(c)
			for line := "x"; line != "\r\n"; {
				var err error
				if line, err = in.ReadString('\n'); err != nil {
					return
				}
			}
			remote, err := net.Dial("tcp", target)
			if err != nil {
				return
			}
			defer remote.Close()
			if _, err := io.WriteString(c, established); err != nil {
				return
			}
			go func() {
				io.Copy(remote, in)
				remote.(*net.TCPConn).CloseWrite()
			}()
			io.Copy(c, remote)
		}()
	}
}

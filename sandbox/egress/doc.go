// Package egress is the only way out of a box that has no network: a listener in, a policy, a dial out.
//
// A [Proxy] accepts on any [net.Listener] and speaks HTTP CONNECT, plain HTTP and SOCKS5 there. It judges names, never
// addresses that a client chose; it resolves a name only after the policy matched it, checks every answer, and dials
// the very address that it checked. It carries TLS unread, after the name in the ClientHello was seen to be the name
// that was asked for. For hosts that own a [Secret] it ends the TLS with an authority of its own, swaps the placeholder
// that the box holds for the value, and verifies the real host's certificate always.
//
// It knows no sandbox: that a process has no other way out is for the network namespace around it. It filters no
// content: bytes inside a tunnel, and bodies, pass as they are, so an allowed host can be told anything, a host behind
// the same front (domain fronting, encrypted ClientHello) can be reached through an allowed one, and an allowed host
// that repeats a header in a body gives the secret away.
//
// What holds: the zero [Policy] and the zero [Ceiling] let nothing through; an unknown word is refused, never guessed;
// a value leaves toward its hosts only, in a header, over verified TLS; no record, error or text holds a header value.
package egress

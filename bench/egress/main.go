// Command egress measures what the way out of a box costs: a connection through the proxy against a direct one and
// against one through the least proxy that can be, bytes through a tunnel, and the first request with a secret against
// the first over plain TLS.
//
//	go run ./bench/egress [-n 1000] [-bytes 4294967296] [-json]
//
// Everything is on this machine's loopback interface. Where a box can be made the client runs inside one, on a listener
// that the box gave out, which is how it is used; else both ends are out here, and the report says so. It is not a test:
// it asserts no time. What did not do its work ends it with an error.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
)

// figure is one measured way.
type figure struct {
	Name  string  `json:"name"`
	P50   float64 `json:"p50_ms,omitempty"`
	P99   float64 `json:"p99_ms,omitempty"`
	Added float64 `json:"added_p50_ms,omitempty"` // against the direct way of the same kind
	GBs   float64 `json:"gb_per_s,omitempty"`
}

type report struct {
	Bench   string   `json:"bench"`
	Samples int      `json:"samples"`
	Bytes   int64    `json:"bytes"`
	Inside  bool     `json:"client_in_a_box"`
	Note    string   `json:"note,omitempty"`
	Figures []figure `json:"figures"`
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == clientArg {
		os.Exit(client(os.Args[2]))
	}
	samples := flag.Int("n", 1000, "connections of each kind")
	bytes := flag.Int64("bytes", 4<<30, "bytes through a tunnel")
	asJSON := flag.Bool("json", false, "print an object")
	flag.Parse()
	r, err := run(context.Background(), *samples, *bytes)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/egress:", err)
		os.Exit(1)
	}
	if *asJSON {
		json.NewEncoder(os.Stdout).Encode(r)
		return
	}
	fmt.Printf("%-54s %9s %9s %9s %7s\n", "way", "p50 ms", "p99 ms", "added ms", "GB/s")
	for _, f := range r.Figures {
		fmt.Printf("%-54s %9.3f %9.3f %9.3f %7.2f\n", f.Name, f.P50, f.P99, f.Added, f.GBs)
	}
	where := "client in a box"
	if !r.Inside {
		where = "client out here: " + r.Note
	}
	fmt.Printf("%d connections of each kind, interleaved; %s; hold: at most 1.25x what the least proxy adds, aim 0.15 ms a connection; ≥ 1 GB/s; first request with a secret ≤ 5 ms added\n", r.Samples, where)
}

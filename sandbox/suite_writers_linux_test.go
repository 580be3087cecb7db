package sandbox_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// aWriter writes the beginnings of a file of random bytes to both streams and ends at once.
type aWriter struct{ out, err, kind int }

const maxWritten = 1 << 20

func drawWriter(r *rand.Rand) aWriter {
	w := aWriter{out: drawn(r, maxWritten), err: drawn(r, maxWritten), kind: r.IntN(5)}
	switch w.kind {
	case 0:
		w.err = 0
	case 1:
		w.out = 0
	case 4:
		w.out, w.err = min(w.out, 4000), min(w.err, 4000) // a process each would be too many
	}
	return w
}

func (w aWriter) script() string {
	switch w.kind {
	case 0:
		return fmt.Sprintf("exec head -c %d bytes", w.out)
	case 1:
		return fmt.Sprintf("exec head -c %d bytes >&2", w.err)
	case 2:
		return fmt.Sprintf("head -c %d bytes; exec head -c %d bytes >&2", w.out, w.err)
	case 3: // both at once
		return fmt.Sprintf("head -c %d bytes & head -c %d bytes >&2; wait", w.out, w.err)
	default: // in small pieces
		return fmt.Sprintf("head -c %d bytes | dd bs=7 status=none; exec head -c %d bytes >&2", w.out, w.err)
	}
}

func (w aWriter) command(key string) process.Command {
	return process.Command{Key: key, Argv: []string{"bash", "-c", "echo " + key + " >>ran; " + w.script()}, Env: environment,
		Dir: "/mnt/data", Timeout: 5 * time.Minute}
}

// check says what is wrong with what came of the writer.
func (w aWriter) check(all []byte, exit process.Exit, out, note []byte) error {
	switch {
	case exit.Code != 0 || exit.StdoutLost != 0 || exit.StderrLost != 0:
		return fmt.Errorf("%+v ended with %+v: %.200s", w, exit, note)
	case exit.Stdout != int64(w.out) || exit.Stderr != int64(w.err):
		return fmt.Errorf("%+v: counted %d and %d", w, exit.Stdout, exit.Stderr)
	case !bytes.Equal(out, all[:w.out]) || !bytes.Equal(note, all[:w.err]):
		return fmt.Errorf("%+v: read %d and %d bytes, or others", w, len(out), len(note))
	}
	return nil
}

// bytesIn makes the file that writers read.
func bytesIn(t *testing.T, p place) []byte {
	t.Helper()
	all := make([]byte, maxWritten)
	source := rand.NewChaCha8([32]byte{1})
	source.Read(all)
	must(t, os.WriteFile(p.data("bytes"), all, 0o644))
	return all
}

// follow reads a job as it writes.
func follow(ctx context.Context, job *process.Job) (out, note []byte, err error) {
	var streams [3][]byte
	for chunk, err := range job.Follow(ctx) {
		if err != nil {
			return nil, nil, err
		}
		if chunk.Offset != int64(len(streams[chunk.Stream])) {
			return nil, nil, fmt.Errorf("stream %d goes on at %d after %d bytes", chunk.Stream, chunk.Offset, len(streams[chunk.Stream]))
		}
		streams[chunk.Stream] = append(streams[chunk.Stream], chunk.Data...)
	}
	return streams[process.Stdout], streams[process.Stderr], nil
}

// R13: 10,000 short writers lose nothing.
func TestSuiteWriters(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	box, all := p.open(t), bytesIn(t, p)
	play(t, 10_000, 8, func(i int, r *rand.Rand) {
		w := drawWriter(r)
		job, err := box.Start(t.Context(), w.command("w"+strconv.Itoa(i)))
		if err != nil {
			t.Error(err)
			return
		}
		var out, note []byte
		if r.IntN(2) == 0 {
			out, note, err = follow(t.Context(), job)
		}
		exit, lost := job.Wait(t.Context())
		if out == nil && note == nil && err == nil {
			if out, err = io.ReadAll(job.Reader(process.Stdout)); err == nil {
				note, err = io.ReadAll(job.Reader(process.Stderr))
			}
		}
		if err != nil || lost != nil {
			t.Errorf("round %d: %v, %v", i, err, lost)
		} else if err := w.check(all, exit, out, note); err != nil {
			t.Errorf("round %d: %v", i, err)
		}
	})
}

// A stream through which much flows is drained with pauses; what comes on the other one meanwhile is not shown before
// what was written earlier.
func TestOrderOfABusyStream(t *testing.T) {
	box := newPlace(t).open(t)
	const before = 3_000_000
	for range 10 {
		job := start(t, box, bash("head -c 3000000 /dev/zero; echo mark >&2; head -c 3000000 /dev/zero; echo mark >&2"))
		var shown int64
		marks := 0
		for chunk, err := range job.Follow(t.Context()) {
			must(t, err)
			if chunk.Stream == process.Stdout {
				shown += int64(len(chunk.Data))
				continue
			}
			if marks += len(chunk.Data) / 5; shown < before*int64(marks) {
				t.Errorf("%d marks after %d bytes", marks, shown)
			}
		}
		if shown != 2*before || marks != 2 {
			t.Errorf("%d bytes and %d marks", shown, marks)
		}
	}
}

// writersArg makes this test binary an owner of a box that starts writers and reads them until it is killed.
const writersArg = "own-writers"

type writersOwned struct {
	Spec       sandbox.Spec
	Seed       uint64
	From, Till int
}

// ownWriters starts some writers and reads them. Whatever comes of that, its end is to be killed.
func ownWriters(text string) int {
	var o writersOwned
	ctx := context.Background()
	err := json.Unmarshal([]byte(text), &o)
	var box *sandbox.Box
	if err == nil {
		if box, err = sandbox.Attach(ctx, o.Spec.Dir, o.Spec.Fence); err != nil && o.From == 0 {
			box, err = sandbox.Open(ctx, o.Spec)
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("up")
	var wg sync.WaitGroup
	for i := o.From; i < o.Till; i++ {
		w := drawWriter(rand.New(rand.NewPCG(o.Seed, uint64(i))))
		job, err := box.Start(ctx, w.command("w"+strconv.Itoa(i)))
		if err != nil {
			fmt.Println(err)
			return 1
		}
		wg.Go(func() { follow(ctx, job) })
	}
	wg.Wait()
	select {}
}

// R13, across 400 kill -9 of the reader: 10,000 writers, of whom each reader starts a few before it is killed.
func TestSuiteKilledReaders(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	all := bytesIn(t, p)
	seed, kills := suiteSeed(t), suiteRounds(400)
	r := rand.New(rand.NewPCG(seed, 1<<32))
	const each = 25
	o := writersOwned{Spec: p.spec, Seed: seed}
	o.Spec.Grace = 10 * time.Minute
	for n := range kills {
		o.Spec.Fence++
		o.From, o.Till = n*each, (n+1)*each
		killReader(t, o, time.Duration(r.IntN(60))*time.Millisecond)
	}
	box, err := sandbox.Attach(t.Context(), p.spec.Dir, o.Spec.Fence+1)
	must(t, err)
	t.Cleanup(func() { box.Close() })
	started := bytes.Count(readFile(t, p.data("ran")), []byte("\n"))
	for i := range kills * each {
		w := drawWriter(rand.New(rand.NewPCG(seed, uint64(i))))
		got := run(t, box, w.command("w"+strconv.Itoa(i)))
		if err := w.check(all, got.Exit, []byte(got.out), []byte(got.err)); err != nil {
			t.Fatalf("writer %d: %v", i, err)
		}
	}
	ran := strings.Fields(string(readFile(t, p.data("ran"))))
	counts := map[string]int{}
	for _, key := range ran {
		if counts[key]++; counts[key] > 1 {
			t.Errorf("%s ran again", key)
		}
	}
	if len(counts) != kills*each {
		t.Errorf("%d writers ran, want %d", len(counts), kills*each)
	}
	t.Logf("%d kills; %d of %d writers had begun by then", kills, started, kills*each)
}

// killReader lets an owner live for a while after it has its box.
func killReader(t *testing.T, o writersOwned, life time.Duration) {
	t.Helper()
	text, err := json.Marshal(o)
	must(t, err)
	owner := exec.Command("/proc/self/exe", writersArg, string(text))
	out, err := owner.StdoutPipe()
	must(t, err)
	must(t, owner.Start())
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line == "up\n" {
		time.Sleep(life) // any moment will do
	}
	owner.Process.Kill()
	owner.Wait()
	if line != "up\n" {
		t.Fatalf("owner %d: %s", o.From, line)
	}
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	must(t, err)
	return b
}

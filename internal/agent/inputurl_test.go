package agent

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	uploads "github.com/hardshell-dev/hardshell/internal/file"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// web is what addresses lead to, and what was fetched.
type web struct {
	files   map[string]string
	fetched []string
}

func (w *web) Fetch(_ context.Context, address string, limit int64) (uploads.Download, error) {
	w.fetched = append(w.fetched, address)
	text, ok := w.files[address]
	switch {
	case !ok:
		return uploads.Download{}, fault.New(fault.Upstream, "The file could not be fetched.").WithCode("input_file_fetch_failed")
	case int64(len(text)) > limit:
		return uploads.Download{}, fault.New(fault.TooLarge, "The file has more than %d bytes.", limit).WithCode("input_file_too_large")
	}
	return uploads.Download{MediaType: "text/csv", Data: []byte(text)}, nil
}

func urlPart(address string) string { return `{"type":"input_file","file_url":"` + address + `"}` }

const dataURL = "https://example.com/a/data.csv?signature=1"

func TestInputFilesByURL(t *testing.T) {
	w := newWorld(t, runs("a"), says("ok"))
	w.commands["a"] = printed("", "", 0)
	net := &web{files: map[string]string{dataURL: "1,2", "https://example.com/": "3"}}
	w.options.Downloads = net
	w.run(withFiles(urlPart(dataURL), filePart("data.csv", "other"), urlPart(dataURL), urlPart("https://example.com/"),
		strings.Replace(urlPart(dataURL), "{", `{"filename":"mine.csv",`, 1)))
	if want := []string{"data.csv=1,2 (0 started)", "data-2.csv=other (0 started)", "file-4.csv=3 (0 started)", "mine.csv=1,2 (0 started)"}; !slices.Equal(w.put, want) {
		t.Errorf("put %q", w.put)
	}
	if seen := shown(w.asked[0]); !strings.Contains(seen, "[file data.csv, 3 bytes, is at /mnt/data/data.csv]") || strings.Contains(seen, "signature") {
		t.Errorf("the model reads\n%s", seen)
	}
	if stored := string(w.begun[0].Input[0].Raw); strings.Contains(stored, "file_data") || !strings.Contains(stored, `"path":"/mnt/data/data.csv"`) {
		t.Errorf("stored: %s", stored)
	}
	// The next turn of the chain fetches nothing and puts nothing.
	fetched := len(net.fetched)
	w.chains["resp_1"] = response.Chain{Items: w.begun[0].Input, ContainerID: "cntr_1"}
	w.put, w.rounds = nil, append(w.rounds, runs("a"), says("still there"))
	w.run(`{"model":"m","input":"again","previous_response_id":"resp_1","tools":[{"type":"shell"}]}`)
	if len(w.put) != 0 || len(net.fetched) != fetched {
		t.Errorf("put %q, fetched %q", w.put, net.fetched[fetched:])
	}
}

func TestInputFileByURLWithoutAShellIsReadToTheModel(t *testing.T) {
	w := newWorld(t, says("ok"))
	w.options.Downloads = &web{files: map[string]string{dataURL: "1,2"}}
	w.run(`{"model":"m","input":[{"role":"user","content":[` + urlPart(dataURL) + `]}]}`)
	if seen := texts(w.asked[0].Items); seen != "[file data.csv, 3 bytes]\n1,2\n[end of file data.csv]" {
		t.Errorf("the model reads %q", seen)
	}
	if stored := string(w.begun[0].Input[0].Raw); strings.Contains(stored, "file_url") || !strings.Contains(stored, "data:text/csv;base64,MSwy") {
		t.Errorf("stored: %s", stored)
	}
}

func TestInputFileByURLRefusals(t *testing.T) {
	const binary, large, long = "https://example.com/binary", "https://example.com/large", "https://example.com/long"
	net := func() Downloads {
		return &web{files: map[string]string{dataURL: "1,2", binary: "a\x00b", large: strings.Repeat("x", maxInputBytes+1), long: strings.Repeat("x", maxInlineBytes+1)}}
	}
	for name, c := range map[string]struct {
		body string
		none bool
		kind fault.Kind
		code string
	}{
		"not served":            {withFiles(urlPart(dataURL)), true, fault.Invalid, "invalid_input_file_url"},
		"not there":             {withFiles(urlPart("https://example.com/none")), false, fault.Upstream, "input_file_fetch_failed"},
		"too large":             {withFiles(urlPart(large)), false, fault.TooLarge, "input_file_too_large"},
		"too large, with data":  {withFiles(filePart("a", strings.Repeat("x", 10)), urlPart("https://example.com/large")), false, fault.TooLarge, "input_file_too_large"},
		"with an id":            {withFiles(`{"type":"input_file","file_url":"` + dataURL + `","file_id":"file_a"}`), false, fault.Invalid, "invalid_input_file"},
		"too many":              {withFiles(slices.Repeat([]string{urlPart(dataURL)}, maxInputFiles+1)...), false, fault.Invalid, "too_many_input_files"},
		"binary, without shell": {`{"model":"m","input":[{"role":"user","content":[` + urlPart(binary) + `]}]}`, false, fault.Invalid, "invalid_input_file"},
		"long, without shell":   {`{"model":"m","input":[{"role":"user","content":[` + urlPart(long) + `]}]}`, false, fault.TooLarge, "input_file_too_large"},
	} {
		w := newWorld(t, says("ok"))
		if !c.none {
			w.options.Downloads = net()
		}
		_, err := w.create(request(t, c.body))
		if f, ok := fault.As(err); !ok || f.Kind != c.kind || f.Code != c.code || !strings.HasPrefix(f.Param, "input[0].content[") {
			t.Errorf("%s: %+v", name, err)
		}
	}
}

// A file that was answered before is neither fetched nor put again where it was; a new container gets it.
func TestReplayedFilesByURL(t *testing.T) {
	history := `{"role":"user","content":[` + urlPart(dataURL) + `]},{"role":"assistant","content":"edited"},{"role":"user","content":"and now?"}`
	noted := strings.Replace(history, `"file_url"`, `"path":"/mnt/data/data-2.csv","filename":"data-2.csv","bytes":3,"file_url"`, 1)
	for name, c := range map[string]struct{ items, env, put string }{
		"the same container":        {history, `{"type":"container_reference","container_id":"cntr_1"}`, ""},
		"a new one":                 {history, `{"type":"container_auto"}`, "data.csv"},
		"our item, the same":        {noted, `{"type":"container_reference","container_id":"cntr_1"}`, ""},
		"our item, a new container": {noted, `{"type":"container_auto"}`, "data-2.csv"},
	} {
		w := newWorld(t, runs("a"), says("ok"))
		w.commands["a"] = printed("", "", 0)
		net := &web{files: map[string]string{dataURL: "1,2"}}
		w.options.Downloads = net
		w.run(`{"model":"m","input":[` + c.items + `],"tools":[{"type":"shell","environment":` + c.env + `}]}`)
		got, _, _ := strings.Cut(strings.Join(w.put, " "), "=")
		if got != c.put || (len(net.fetched) > 0) != (c.put != "") || !strings.Contains(shown(w.asked[0]), "is at /mnt/data/data") {
			t.Errorf("%s: put %q, fetched %q\n%s", name, w.put, net.fetched, shown(w.asked[0]))
		}
	}
}

// One container gets a file once, whichever request brings it; over what else is there it is never put.
func TestAFileThatTheContainerHas(t *testing.T) {
	w := newWorld(t, runs("a"), says("ok"))
	w.commands["a"] = printed("", "", 0)
	w.options.Downloads = &web{files: map[string]string{dataURL: "1,2"}}
	const same = `"tools":[{"type":"shell","environment":{"type":"container_reference","container_id":"cntr_1"}}]`
	in := func(part string) string {
		return strings.Replace(withFiles(part), `"tools":[{"type":"shell"}]`, same, 1)
	}
	for _, part := range []string{urlPart(dataURL), filePart("data.csv", "3,4"), filePart("made.csv", "5")} {
		w.there["cntr_1 made.csv"] = true // by a command
		w.rounds = append(slices.Clone(w.rounds[:len(w.asked)]), runs("a"), says("ok"), runs("a"), says("ok"))
		w.run(in(part))
		w.run(in(part)) // asks for the same name
	}
	var names []string
	for _, p := range w.put {
		name, _, _ := strings.Cut(p, "=")
		names = append(names, name)
	}
	if got := strings.Join(names, " "); got != "data.csv data.csv data-2.csv data-2.csv made-2.csv made-2.csv" {
		t.Errorf("put %s", got) // the second of each is the room's to leave as it is
	}
}

// Files of file_ids are there first: a file of the input goes beside them.
func TestFilesOfTheContainerAndOfTheInput(t *testing.T) {
	w := newWorld(t, runs("a"), says("ok"))
	w.commands["a"] = printed("", "", 0)
	w.options.Uploads = pile{"file_a": "1,2"}
	w.run(strings.Replace(withFiles(filePart("file_a.csv", "3,4")), `{"type":"shell"}`,
		`{"type":"shell","environment":{"type":"container_auto","file_ids":["file_a"]}}`, 1))
	if len(w.put) != 1 || !strings.HasPrefix(w.put[0], "file_a-2.csv=3,4") {
		t.Errorf("put %q", w.put)
	}
}

// What an address gave is kept for an owner who has to go on: nobody fetches it twice.
func TestAFetchedFileIsKept(t *testing.T) {
	w := newWorld(t, says("ok"))
	w.options.Downloads = &web{files: map[string]string{dataURL: "1,2"}}
	if _, err := w.create(request(t, `{"model":"scripted-none"}`)); err == nil { // makes the agent
		t.Fatal("a request without input was taken")
	}
	p, err := w.agent.plan(t.Context(), principal, request(t, withFiles(urlPart(dataURL))))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := p.work()
	if err != nil || !strings.Contains(string(raw), `"data":"MSwy"`) {
		t.Fatalf("%s, %v", raw, err)
	}
	w.options.Downloads.(*web).files = nil
	again, err := w.agent.replan(t.Context(), &response.Claim{Org: principal.Org, Work: raw, Input: []openai.Item{}})
	if err != nil || len(again.files) != 1 || string(again.files[0].data) != "1,2" || again.files[0].key != p.files[0].key || p.files[0].key == "" {
		t.Errorf("%+v, %v", again, err)
	}
}

// The row of a response may be written late, in a goroutine of its own: it keeps the files that are staged by then too.
func TestFilesAreNotedAfterTheyAreStaged(t *testing.T) {
	w := newWorld(t, says("ok"))
	w.options.Downloads = &web{files: map[string]string{dataURL: "1,2"}}
	w.run(withFiles(urlPart(dataURL))) // makes the agent
	p, err := w.agent.plan(t.Context(), principal, request(t, withFiles(urlPart(dataURL))))
	if err != nil {
		t.Fatal(err)
	}
	noted, l := p.begin().Work, &loop{agent: w.agent, plan: p, container: "cntr_1"}
	if err := l.stage(t.Context()); err != nil || l.plan.files != nil {
		t.Fatalf("staged: %v, and %d files are held", err, len(l.plan.files))
	}
	if raw, err := noted(); err != nil || !strings.Contains(string(raw), `"data":"MSwy"`) {
		t.Errorf("%s, %v", raw, err)
	}
}

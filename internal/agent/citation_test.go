package agent

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func outputFile(name string) openai.OutputFile {
	return openai.OutputFile{ContainerID: "cntr_1", FileID: "cfile_" + name, Path: "/mnt/data/" + name,
		Filename: name[strings.LastIndex(name, "/")+1:]}
}

func TestCite(t *testing.T) {
	for name, c := range map[string]struct {
		text      string
		all, last []string
		want      []string // file start-end
	}{
		"by path":            {"See /mnt/data/a.csv.", []string{"a.csv"}, nil, []string{"a.csv 4-19"}},
		"as a sandbox link":  {"[a](sandbox:/mnt/data/a.csv)", []string{"a.csv"}, nil, []string{"a.csv 12-27"}},
		"by name":            {"See `a.csv`!", []string{"a.csv"}, nil, []string{"a.csv 5-10"}},
		"in code points":     {"Größe → a.csv", []string{"a.csv"}, nil, []string{"a.csv 8-13"}},
		"below":              {"in out/a.csv", []string{"out/a.csv"}, nil, []string{"out/a.csv 3-12"}},
		"below, with a dot":  {"in ./out/a.csv", []string{"out/a.csv"}, nil, []string{"out/a.csv 3-14"}},
		"first place only":   {"a.csv and a.csv", []string{"a.csv"}, nil, []string{"a.csv 0-5"}},
		"not inside a word":  {"data.csv a.csv.gz xa.csv a.csv/b", []string{"a.csv"}, nil, nil},
		"later as a word":    {"aa.csv a.csv", []string{"a.csv"}, nil, []string{"a.csv 7-12"}},
		"same name, no path": {"a.csv", []string{"x/a.csv", "y/a.csv"}, nil, nil},
		"same name, a path":  {"y/a.csv", []string{"x/a.csv", "y/a.csv"}, nil, []string{"y/a.csv 0-7"}},
		"unnamed, last call": {"Done.", []string{"a.csv", "b.csv"}, []string{"b.csv"}, []string{"b.csv 0-0"}},
		"named and last":     {"a.csv is made.", []string{"a.csv"}, []string{"a.csv"}, []string{"a.csv 0-5"}},
		"in order of text":   {"b.csv, a.csv", []string{"a.csv", "b.csv"}, nil, []string{"b.csv 0-5", "a.csv 7-12"}},
		"no text":            {"", []string{"a.csv"}, []string{"a.csv"}, []string{"a.csv 0-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			list := func(names []string) (out []openai.OutputFile) {
				for _, n := range names {
					out = append(out, outputFile(n))
				}
				return out
			}
			var got []string
			for _, a := range cite([]string{c.text}, list(c.all), list(c.last))[0] {
				got = append(got, fmt.Sprintf("%s %d-%d", strings.TrimPrefix(a.FileID, "cfile_"), a.StartIndex, a.EndIndex))
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestUnnamedCitationsAreBounded(t *testing.T) {
	var last []openai.OutputFile
	for i := range 100 {
		last = append(last, outputFile(fmt.Sprintf("%d.txt", i)))
	}
	if n := len(cite([]string{"a", "b"}, last, last)[1]); n != maxUnnamed {
		t.Errorf("%d citations, want %d", n, maxUnnamed)
	}
}

// TestOnlyTheAnswerIsCited: words between calls carry no citation, and a file that was removed since is not cited.
func TestOnlyTheAnswerIsCited(t *testing.T) {
	w := newWorld(t, runs("make"), func(t *llm.Turn) {
		t.Text([]byte("a.csv is there; checking."))
		t.Call("shell").Write(argumentsOf("rm"))
		t.Complete(nil)
	}, says("a.csv and b.csv and c.csv"))
	w.removed["cfile_b.csv"] = true
	w.commands = map[string]command{"make": printed("", "", 0, file("a.csv", 1), file("b.csv", 1)), "rm": printed("", "", 0, file("c.csv", 2))}
	_, o := w.run(plainShell)
	notes := func(i openai.Item) (out []string) {
		var m openai.Message
		if err := i.Decode(&m); err != nil {
			t.Fatal(err)
		}
		for _, a := range m.Content[0].Annotations {
			out = append(out, a.Filename)
		}
		return out
	}
	if got := notes(o.Output[2]); len(got) != 0 {
		t.Errorf("words between calls cite %q", got)
	}
	if got := notes(o.Output[5]); !reflect.DeepEqual(got, []string{"a.csv", "c.csv"}) {
		t.Errorf("the answer cites %q", got)
	}
}

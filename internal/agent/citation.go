package agent

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// maxUnnamed bounds the citations of files that the answer does not name: an archive unpacked by the last call is no
// reading list. The files are all in output_files.
const maxUnnamed = 20

// mention is where a text names a file, in code points.
type mention struct {
	file       openai.OutputFile
	start, end int
}

// mentions finds the files that a text names, each at its first place: by its path, by its path below the workspace,
// or by its name where no other file has it.
func mentions(text string, files []openai.OutputFile) []mention {
	names := map[string]int{}
	for _, f := range files {
		names[f.Filename]++
	}
	var out []mention
	for _, f := range files {
		below := strings.TrimPrefix(f.Path, workspace+"/")
		ways := []string{f.Path, "./" + below, below}
		if names[f.Filename] == 1 {
			ways = append(ways, f.Filename)
		}
		for _, way := range ways {
			at := find(text, way)
			if at < 0 {
				continue
			}
			start := utf8.RuneCountInString(text[:at])
			out = append(out, mention{f, start, start + utf8.RuneCountInString(way)})
			break
		}
	}
	slices.SortStableFunc(out, func(a, b mention) int { return a.start - b.start })
	return out
}

// find returns the byte offset of the first place where name stands as a word of its own: "a.csv" is not in
// "data.csv", nor in "a.csv.gz", but at the end of a sentence, in "a.csv.", it is.
func find(text, name string) int {
	if name == "" {
		return -1
	}
	for from := 0; ; {
		i := strings.Index(text[from:], name)
		if i < 0 {
			return -1
		}
		at := from + i
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		if !(at > 0 && (wordRune(before) || before == '.' || before == '/' && !strings.HasPrefix(name, "/"))) &&
			endsWord(text[at+len(name):]) {
			return at
		}
		from = at + len(name)
	}
}

func endsWord(rest string) bool {
	r, size := utf8.DecodeRuneInString(rest)
	switch {
	case size == 0:
		return true
	case r == '.': // a full stop, unless an extension follows
		next, n := utf8.DecodeRuneInString(rest[size:])
		return n == 0 || !wordRune(next)
	default:
		return !wordRune(r) && r != '/'
	}
}

func wordRune(r rune) bool {
	return r == '_' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// cite makes the citations of an answer, one list per text part: the files of this response that a part names, and
// at the end of the last part the files that the last calls changed and no part names.
func cite(texts []string, all, last []openai.OutputFile) [][]openai.Annotation {
	out := make([][]openai.Annotation, len(texts))
	if len(texts) == 0 {
		return out
	}
	named := map[string]bool{}
	for n, text := range texts {
		for _, m := range mentions(text, all) {
			named[m.file.FileID] = true
			out[n] = append(out[n], citation(m.file, m.start, m.end))
		}
	}
	unnamed := 0
	for _, f := range last {
		if named[f.FileID] || unnamed == maxUnnamed {
			continue
		}
		named[f.FileID] = true
		unnamed++
		out[len(out)-1] = append(out[len(out)-1], citation(f, 0, 0))
	}
	return out
}

func citation(f openai.OutputFile, start, end int) openai.Annotation {
	return openai.Annotation{Type: "container_file_citation", ContainerID: f.ContainerID, FileID: f.FileID,
		Filename: path.Base(f.Path), StartIndex: start, EndIndex: end}
}

// merge adds files to a list; a file that is in it already is replaced, as its size may have changed.
func merge(list, add []openai.OutputFile) []openai.OutputFile {
	for _, f := range add {
		i := slices.IndexFunc(list, func(o openai.OutputFile) bool { return o.Path == f.Path })
		if i >= 0 {
			list[i] = f
		} else {
			list = append(list, f)
		}
	}
	return list
}

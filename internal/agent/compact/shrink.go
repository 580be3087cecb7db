package compact

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// slack is how much longer a text may be than what it would be cut to: the line that stands for the rest is no shorter.
const slack = 80

// shrink keeps so many characters of each stream of an output, head and tail, with the line between them that views have;
// 0 leaves a stub. Exit codes, files and what we don't know stay. It says false where nothing was gained, or where the
// item is no output.
func shrink(i openai.Item, chars int, omitted func(string) int64) (openai.Item, bool) {
	var keys map[string]json.RawMessage
	if i.Type != openai.TypeShellCallOutput && i.Type != openai.TypeFunctionCallOutput || i.Decode(&keys) != nil || keys == nil {
		return i, false
	}
	var out any
	var changed bool
	if i.Type == openai.TypeShellCallOutput {
		out, changed = shrinkEntries(keys["output"], chars, omitted)
	} else {
		out, changed = shrinkParts(keys["output"], chars, omitted)
	}
	if !changed {
		return i, false
	}
	raw, err := openai.Marshal(out)
	if err != nil {
		return i, false
	}
	keys["output"] = raw
	return openai.NewItem(keys), true
}

func shrinkEntries(raw json.RawMessage, chars int, omitted func(string) int64) (entries []map[string]json.RawMessage, changed bool) {
	if json.Unmarshal(raw, &entries) != nil {
		return nil, false
	}
	for _, e := range entries {
		for _, stream := range []string{"stdout", "stderr"} {
			var text string
			if json.Unmarshal(e[stream], &text) != nil {
				continue
			}
			if small, ok := ends(text, chars, omitted); ok {
				e[stream], _ = openai.Marshal(small) // strings always marshal
				changed = true
			}
		}
	}
	return entries, changed
}

// shrinkParts shortens a function's output: text, or a list of parts, of which what is no text goes where a stub is
// wanted.
func shrinkParts(raw json.RawMessage, chars int, omitted func(string) int64) (out any, changed bool) {
	if bytes.HasPrefix(raw, []byte(`"`)) {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return nil, false
		}
		return ends(text, chars, omitted)
	}
	var list []map[string]json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil, false
	}
	for n, p := range list {
		var typ, text string
		_ = json.Unmarshal(p["type"], &typ)
		if json.Unmarshal(p["text"], &text) == nil && p["text"] != nil {
			if small, ok := ends(text, chars, omitted); ok {
				p["text"], _ = openai.Marshal(small)
				changed = true
			}
		} else if chars == 0 && typ != "" {
			note, _ := openai.Marshal("[" + typ + " left out to make room]")
			list[n] = map[string]json.RawMessage{"type": json.RawMessage(`"input_text"`), "text": note}
			changed = true
		}
	}
	return list, changed
}

// ends keeps the head and the tail of a text. Where the text is a view that leaves something out already, that counts too
// and its line goes.
func ends(text string, chars int, omitted func(string) int64) (string, bool) {
	n := utf8.RuneCountInString(text)
	if n <= chars+slack {
		return text, false
	}
	half := chars / 2
	hidden := int64(n - 2*half)
	if omitted != nil {
		if before := omitted(text); before > 0 {
			line := "\n" + process.Omission(before, 0) + "\n"
			if head, _, ok := strings.Cut(text, "\n[… "); ok {
				cut := half - min(half, utf8.RuneCountInString(head))
				half, hidden = half-cut, hidden+int64(2*cut)
			}
			if strings.Contains(text, line) {
				hidden -= int64(utf8.RuneCountInString(line))
			}
			hidden += before
		}
	}
	return text[:offset(text, half)] + "\n" + process.Omission(max(hidden, 1), 0) + "\n" + text[len(text)-tail(text, half):], true
}

// offset is where the first characters of a text end.
func offset(s string, chars int) int {
	for i := range s {
		if chars == 0 {
			return i
		}
		chars--
	}
	return len(s)
}

// tail is how many bytes the last characters of a text take.
func tail(s string, chars int) int {
	n := len(s)
	for ; chars > 0 && n > 0; chars-- {
		_, size := utf8.DecodeLastRuneInString(s[:n])
		n -= size
	}
	return len(s) - n
}

// WithoutFiles replaces the files of a message that lie in no workspace by their names: a compaction carries words.
func WithoutFiles(i openai.Item) openai.Item {
	var m struct{ Content []map[string]json.RawMessage }
	if i.Type != openai.TypeMessage || !bytes.Contains(i.Raw, []byte(`"input_file"`)) || i.Decode(&m) != nil {
		return i
	}
	for n, p := range m.Content {
		var typ, name, path string
		_ = json.Unmarshal(p["type"], &typ)
		_ = json.Unmarshal(p["filename"], &name)
		if _ = json.Unmarshal(p["path"], &path); typ == "input_file" && path == "" {
			note, _ := openai.Marshal("[file " + name + ", left out]") // strings always marshal
			m.Content[n] = map[string]json.RawMessage{"type": json.RawMessage(`"input_text"`), "text": note}
		}
	}
	var keys map[string]json.RawMessage
	content, err := openai.Marshal(m.Content)
	if err != nil || i.Decode(&keys) != nil {
		return i
	}
	keys["content"] = content
	return openai.NewItem(keys)
}

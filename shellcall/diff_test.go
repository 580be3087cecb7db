package shellcall

import (
	"strings"
	"testing"
)

func TestApplyADiff(t *testing.T) {
	const file = "one\ntwo\nthree\nfour\nfive\n"
	for name, test := range map[string]struct{ text, diff, want string }{
		"a change in its context":          {file, " two\n-three\n+3\n four\n", "one\ntwo\n3\nfour\nfive\n"},
		"a bare @@":                        {file, "@@\n two\n-three\n+3\n", "one\ntwo\n3\nfour\nfive\n"},
		"an anchor":                        {"f() {\n  x\n}\ng() {\n  x\n}\n", "@@ g() {\n-  x\n+  y\n", "f() {\n  x\n}\ng() {\n  y\n}\n"},
		"two anchors":                      {"class A\n def f\n  x\nclass B\n def f\n  x\n", "@@ class B\n@@  def f\n-  x\n+  y\n", "class A\n def f\n  x\nclass B\n def f\n  y\n"},
		"an anchor that is in the context": {file, "@@ two\n two\n-three\n+3\n", "one\ntwo\n3\nfour\nfive\n"},
		"several hunks":                    {file, "@@\n-one\n+1\n@@\n-five\n+5\n", "1\ntwo\nthree\nfour\n5\n"},
		"the numbers of a unified diff":    {file, "@@ -2,2 +2,2 @@\n two\n-three\n+3\n", "one\ntwo\n3\nfour\nfive\n"},
		"the end of the file":              {"x\ny\nx\n", "@@\n-x\n+z\n*** End of File", "x\ny\nz\n"},
		"an empty line without its blank":  {"a\n\nb\n", " a\n\n-b\n+c", "a\n\nc\n"},
		"blanks at an end":                 {"a  \nb\n", " a\n-b\n+c\n", "a  \nc\n"},
		"blanks at the beginning":          {"\ta\n\tb\n", " a\n-b\n+\tc\n", "\ta\n\tc\n"},
		"only new lines, nowhere":          {file, "+six\n", file + "six\n"},
		"only new lines, behind an anchor": {file, "@@ two\n+2.5\n", "one\ntwo\n2.5\nthree\nfour\nfive\n"},
		"an empty file":                    {"", "+one\n", "one\n"},
		"all goes":                         {"one\n", "-one\n", ""},
		"no newline at the end stays":      {"one\ntwo", "-one\n+1\n", "1\ntwo"},
		"a new last line has its end":      {"one", "+two", "one\ntwo\n"},
		"a new last line that is empty":    {"one", "+", "one\n\n"},
		"the last line goes":               {"one\ntwo", " one\n-two", "one\n"},
		"the words for it":                 {"one\ntwo", " one\n-two\n\\ No newline at end of file\n+2\n\\ No newline at end of file\n", "one\n2"},
		"CRLF stays":                       {"one\r\ntwo\r\n", "-one\n+1\n+1.5\n", "1\r\n1.5\r\ntwo\r\n"},
		"a diff with CRLF":                 {"one\ntwo\n", "-one\r\n+1\r\n", "1\ntwo\n"},
		"the end of a patch":               {"one\n", "-one\n+1\n*** End Patch\n", "1\n"},
		"lines that look like a diff":      {"+a\n-b\n", " +a\n--b\n+-c\n", "+a\n-c\n"},
	} {
		t.Run(name, func(t *testing.T) {
			hunks, err := parseDiff(test.diff)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := apply(test.text, hunks); err != nil || got != test.want {
				t.Errorf("%q, %v; want %q", got, err, test.want)
			}
		})
	}
}

func TestADiffThatCannotBeApplied(t *testing.T) {
	for name, test := range map[string]struct{ text, diff, why string }{
		"empty":                  {"a\n", "", "empty"},
		"no such line":           {"a\n", "-b\n+c\n", `its lines are not in the file behind line 0: "b"`},
		"out of order":           {"a\nb\n", "@@\n-b\n+c\n@@\n-a\n+d\n", "behind line 2"},
		"no such anchor":         {"a\n", "@@ nowhere\n+c\n", `no line "nowhere"`},
		"a line of another kind": {"a\n", "*a\n", "a line begins with"},
		"another file's header":  {"a\n", "*** Update File: b\n-a\n", "for one file"},
		"an empty hunk":          {"a\n", "-a\n@@\n", "empty"},
		"behind the end":         {"a\n", "-a\n*** End of File\n-b\n", "behind *** End of File"},
		"an end of nothing":      {"a\n", "*** End of File\n", "ends no hunk"},
		"behind the patch":       {"a\n", "*** End Patch\n-a\n", "behind *** End Patch"},
		"a long line":            {"a\n", "-" + strings.Repeat("é", 100) + "\n", "…"},
	} {
		t.Run(name, func(t *testing.T) {
			hunks, err := parseDiff(test.diff)
			if err == nil {
				_, err = apply(test.text, hunks)
			}
			if err == nil || !strings.Contains(err.Error(), test.why) {
				t.Errorf("%v, want %s", err, test.why)
			}
		})
	}
}

func TestTheDiffOfANewFile(t *testing.T) {
	for diff, want := range map[string]string{"": "", "+a": "a\n", "+a\n+\n+b\n": "a\n\nb\n", "+a\r\n+b\r\n": "a\nb\n", "+a\n*** End Patch": "a\n"} {
		if got, _, err := parseCreate(diff); err != nil || got != want {
			t.Errorf("%q: %q, %v", diff, got, err)
		}
	}
	for _, diff := range []string{"a", "+a\n\n+b", "-a", "@@\n+a", "+a\n*** End Patch\n+b"} {
		if _, _, err := parseCreate(diff); err == nil {
			t.Errorf("%q was taken", diff)
		}
	}
}

// FuzzDiff: no diff breaks the parser, and one that applies changes as many lines as it says.
func FuzzDiff(f *testing.F) {
	f.Add("one\ntwo\nthree\n", "@@ one\n-two\n+2\n three\n*** End of File")
	f.Add("a\r\nb", " a\n+x\n@@\n-b")
	f.Add("", "+a\n")
	f.Add("0", "+")
	f.Fuzz(func(t *testing.T, text, diff string) {
		parseCreate(diff)
		hunks, err := parseDiff(diff)
		if err != nil {
			return
		}
		got, err := apply(text, hunks)
		if err != nil {
			return
		}
		added, removed := 0, 0
		for _, h := range hunks {
			added, removed = added+h.added, removed+h.removed
		}
		if before, after := lines(text), lines(got); after-before != added-removed {
			t.Errorf("%q by %q is %q: from %d to %d lines, +%d -%d", text, diff, got, before, after, added, removed)
		}
	})
}

// lines counts the lines of a file, the last one also where nothing ends it.
func lines(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}

package process

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

// TestTheErrorLineIsInTheView holds a log of fifty megabytes with one error, wherever it stands.
func TestTheErrorLineIsInTheView(t *testing.T) {
	const line = "2026-01-01T00:00:00 job 17 ERROR: connection refused by 10.0.0.7"
	filler := strings.Repeat("2026-01-01T00:00:00 all is well with this part of the run, as it was before\n", 14_000) // a megabyte
	for name, at := range map[string]int{"the start": 0, "the middle": 25, "the end": 50} {
		t.Run(name, func(t *testing.T) {
			var parts []io.Reader
			for i := range 51 {
				if i == at {
					parts = append(parts, strings.NewReader(line+"\n"))
				}
				if i < 50 {
					parts = append(parts, strings.NewReader(filler))
				}
			}
			v, err := ReadView(io.MultiReader(parts...), 8000)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(v.Text, line) {
				t.Errorf("the error is not in the view:\n%s", v.Text)
			}
			if n := utf8.RuneCountInString(v.Text); n > 8000+120 {
				t.Errorf("the view has %d characters", n)
			}
			if total := int64(50*len(filler) + len(line) + 1); v.Bytes != total || v.OmittedChars < total-8000 || v.OmittedChars > total-6000 {
				t.Errorf("%d bytes, %d left out of %d", v.Bytes, v.OmittedChars, total)
			}
		})
	}
}

func TestNotableLines(t *testing.T) {
	dull := strings.Repeat(strings.Repeat("x", 49)+"\n", 40) // 2,000 characters
	for _, c := range []struct {
		name, in string
		want     []string // lines of the middle, in order; nil: none
	}{
		{"none", dull + dull, nil},
		{"one", dull + "Error: no\n" + dull, []string{"Error: no"}},
		{"without a line break at the end it is the tail's", dull + dull + "Error: no", nil},
		{"in the head", "Error: yes\n" + dull + dull, nil},
		{"two in order", dull + "make: *** failed\n" + dull + "panic: oh\n" + dull, []string{"make: *** failed", "panic: oh"}},
		{"carriage returns", dull + "fatal: x\r\n" + dull, []string{"fatal: x"}},
		{"two signs in one line", dull + "fatal error: failed\n" + dull, []string{"fatal error: failed"}},
		{"a long line is clipped around its sign", dull + strings.Repeat("é", 900) + " Error here " + strings.Repeat("z", 900) + "\n" + dull,
			[]string{" Error here "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in)), iotest.HalfReader(strings.NewReader(c.in))} {
				v, err := ReadView(r, 1000)
				if err != nil {
					t.Fatal(err)
				}
				_, middle, found := strings.Cut(v.Text, NotableMark+"\n")
				middle, _, _ = strings.Cut(middle, "\n"+NotableEnd+"\n")
				if found != (c.want != nil) {
					t.Fatalf("view\n%s", v.Text)
				}
				got := strings.Split(middle, "\n")
				for i, want := range c.want {
					if i >= len(got) || !strings.Contains(got[i], want) {
						t.Errorf("line %d of %q, want %q", i, got, want)
					}
				}
				if c.want != nil && len(got) != len(c.want) {
					t.Errorf("lines %q, want %q", got, c.want)
				}
				if n := utf8.RuneCountInString(v.Text); n > 1000+120 {
					t.Errorf("%d characters in a budget of 1000", n)
				}
				shown := utf8.RuneCountInString(v.Text)
				if c.want != nil {
					mark := strings.Index(v.Text, "\n[… ")
					marks := utf8.RuneCountInString(v.Text[mark:strings.Index(v.Text, NotableMark)+len(NotableMark)]) + len("\n") + utf8.RuneCountInString("\n"+NotableEnd+"\n") + len(got) - 1
					if total := int64(utf8.RuneCountInString(c.in)); int64(shown-marks)+v.OmittedChars != total && !strings.Contains(c.in, "\r") {
						t.Errorf("%d shown and %d left out of %d", shown-marks, v.OmittedChars, total)
					}
				}
			}
		})
	}
}

// TestManyNotableLines: the first and the last of them, within the budget.
func TestManyNotableLines(t *testing.T) {
	var b strings.Builder
	b.WriteString(strings.Repeat("dull\n", 400))
	for i := range 1000 {
		fmt.Fprintf(&b, "error %d\n", i)
	}
	b.WriteString(strings.Repeat("dull\n", 400))
	v, err := ReadView(strings.NewReader(b.String()), 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nerror 0\nerror 1\n", "\nerror 998\nerror 999\n" + NotableEnd} {
		if !strings.Contains(v.Text, want) {
			t.Errorf("no %q in\n%s", want, v.Text)
		}
	}
	if n := utf8.RuneCountInString(v.Text); n > 1120 {
		t.Errorf("%d characters", n)
	}
}

func FuzzNotable(f *testing.F) {
	f.Add([]byte(strings.Repeat("x\n", 300)+"Error\n"+strings.Repeat("y\n", 300)), uint8(3))
	f.Add([]byte(strings.Repeat("Error 😀\xff\n", 300)), uint8(200))
	f.Fuzz(func(t *testing.T, in []byte, step uint8) {
		const most = 400
		whole, err := ReadView(strings.NewReader(string(in)), most)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := ReadView(stepReader{strings.NewReader(string(in)), int(step) + 1}, most)
		if err != nil || whole.Text != steps.Text && len(in) < maxCarry || whole.OmittedChars != steps.OmittedChars && len(in) < maxCarry {
			t.Fatalf("read in steps of %d:\n%+v\nat once\n%+v, %v", int(step)+1, steps, whole, err)
		}
		if n := utf8.RuneCountInString(whole.Text); n > most+120 || !utf8.ValidString(whole.Text) {
			t.Fatalf("%d characters: %q", n, whole.Text)
		}
	})
}

package id

import "testing"

func TestForeign(t *testing.T) {
	ours := map[string]string{"cntr_689a1b2c": "cntr_ours"}
	for text, want := range map[string]string{
		"Container cntr_689a1b2c is gone":            "Container cntr_ours is gone",
		"cntr_ffff0000, file-AbC12 and resp_68aa11!": "[id], [id] and [id]!",
		"no file_search here, call it a day":         "no file_search here, call it a day",
		"nothing":                                    "nothing",
	} {
		if got := Foreign(text, ours); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

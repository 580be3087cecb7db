package ambient

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestServices(t *testing.T) {
	elsewhere := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		case "/elsewhere":
			elsewhere++
		case "/refused":
			http.Error(w, "no", http.StatusForbidden)
		default:
			w.Write([]byte(strings.Repeat("x", 2*maxAnswer)))
		}
	}))
	defer srv.Close()
	for _, ask := range []func(*http.Request) (Answer, error){Near, Far} {
		for path, want := range map[string]Answer{"/": {true, []byte(strings.Repeat("x", maxAnswer))}, "/refused": {false, []byte("no\n")}, "/redirect": {}} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := ask(req)
			if err != nil || got.OK != want.OK || want.Body != nil && string(got.Body) != string(want.Body) {
				t.Errorf("%s: %v, %d bytes, %v", path, got.OK, len(got.Body), err)
			}
		}
	}
	if elsewhere != 0 {
		t.Error("a redirect was followed")
	}
}

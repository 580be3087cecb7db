package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// ServeAttachment serves bytes that a client or a command wrote, under a name and a type, whole or by range. They are
// never shown as a page of this server: it is an attachment, its type is not guessed, and a browser that opens it anyway
// runs nothing in it.
func ServeAttachment(w http.ResponseWriter, r *http.Request, content io.ReadSeeker, name, kind string) error {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", Attachment(name))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cache-Control", "private, no-cache")
	rw := &rangeWriter{ResponseWriter: w}
	http.ServeContent(rw, r, "", time.Time{}, content)
	if rw.refused {
		for _, name := range []string{"Content-Disposition", "Content-Security-Policy", "Cache-Control"} {
			h.Del(name)
		}
		return WithStatus(http.StatusRequestedRangeNotSatisfiable,
			fault.New(fault.Invalid, "The file has no such range of bytes.").WithCode("invalid_range"))
	}
	return nil
}

// rangeWriter keeps http.ServeContent's own plain-text refusals from going out, so that the envelope can.
type rangeWriter struct {
	http.ResponseWriter
	refused bool
}

func (w *rangeWriter) WriteHeader(status int) {
	if status >= 400 {
		w.refused = true
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *rangeWriter) Write(p []byte) (int, error) {
	if w.refused {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// Attachment is a Content-Disposition that names a download twice: in ASCII for old readers and in UTF-8 as RFC 5987 has it.
func Attachment(name string) string {
	ascii := strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e || r == '"' || r == '\\' || r == '%' {
			return '_'
		}
		return r
	}, name)
	return fmt.Sprintf(`attachment; filename="%s"; filename*=UTF-8''%s`, ascii, extValue(name))
}

// extValue percent-encodes everything that RFC 5987 does not let stand for itself.
func extValue(s string) string {
	return strings.ReplaceAll(url.QueryEscape(strings.ToValidUTF8(s, "_")), "+", "%20")
}

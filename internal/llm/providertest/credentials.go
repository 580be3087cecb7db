package providertest

import (
	"context"
	"net/http"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
)

// Impatient holds that one who does not want to wait is not held up by another one's search for credentials. find makes
// a chain of which a service at the URL is asked, which answers nothing until the test is over.
func Impatient(t *testing.T, find func(url string) func(context.Context) error) {
	t.Helper()
	reached, release := make(chan struct{}, 1), make(chan struct{})
	search := find(Serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case reached <- struct{}{}:
		default:
		}
		<-release
	})))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = search(context.Background()) // finds nothing: the service says nothing
	}()
	<-reached
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := search(ctx); fault.KindOf(err) != fault.Cancelled {
		t.Errorf("err = %v", err)
	}
	close(release)
	<-ended
}

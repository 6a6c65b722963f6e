package client_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stet-run/stet/client"
)

// TestNoRedirectIsFollowed: the token is for the server at the address, and for no other.
func TestNoRedirectIsFollowed(t *testing.T) {
	var asked atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, status)
		}))
		given := &http.Client{}
		c, err := client.New(web.URL, client.Options{Token: "stet_secret", HTTP: given})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Info(t.Context()); err == nil || !strings.Contains(err.Error(), elsewhere.URL) {
			t.Errorf("%d: expected a refusal that names where it leads, found %v", status, err)
		}
		if given.CheckRedirect != nil {
			t.Error("the caller's own client was changed")
		}
		web.Close()
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the other server was asked %d times", n)
	}
}

package server_test

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet/server"
)

// TestRequestsAndFollowersAreTold: a request by its route, never by what its path names; a
// follower when it begins and when it ends.
func TestRequestsAndFollowersAreTold(t *testing.T) {
	var mu sync.Mutex
	var requests []string
	changes := make(chan int, 10)
	w := newWorld(t, true, func(o *server.Options) {
		o.Requested = func(method, route string, status int, took time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			if took < 0 || took > time.Minute {
				t.Errorf("a request has taken %v", took)
			}
			requests = append(requests, fmt.Sprint(method, " ", route, " ", status))
		}
		o.Following = func(change int) { changes <- change }
	})
	w.refused("viewer", "GET", "runs/secret-id", nil, "not_found")
	w.refused("viewer", "GET", "runs/secret-id/nonsense", nil, "no_endpoint")
	w.refused("viewer", "POST", "runs/secret-id/cancel", map[string]any{}, "forbidden")
	mu.Lock()
	got := slices.Clone(requests)
	mu.Unlock()
	want := []string{"GET /api/v1/runs/{id} 404", "GET /api/v1/ 404", "POST /api/v1/runs/{id}/cancel 403"}
	if !slices.Equal(got, want) {
		t.Errorf("expected %q, found %q", want, got)
	}
	web := httptest.NewServer(w.handler)
	defer web.Close()
	w.started("order", "o-1", "apple")
	began := func(e event) bool { return strings.HasPrefix(e.name, "run") }
	follow(t, web.URL+"/api/v1/events?run=o-1", "viewer", "", began)
	if begun, ended := <-changes, <-changes; begun != 1 || ended != -1 {
		t.Errorf("expected 1 and -1, found %d and %d", begun, ended)
	}
}

package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
)

// behindProxy has all requests come from one address.
func behindProxy(w *world) {
	h := w.handler
	w.handler = server.Behind{Next: h, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.RemoteAddr = "10.0.0.1:80"
		h.ServeHTTP(w, r)
	})}
}

// TestWrongCredentialsLockOutNobody who shares the address: a good credential, a stream that has
// begun and a bulk go on, whatever was refused before.
func TestWrongCredentialsLockOutNobody(t *testing.T) {
	for what, wrong := range map[string]func(int) string{
		"the same again":  func(int) string { return "Bearer wrong" },
		"many of another": func(i int) string { return fmt.Sprint("Bearer wrong ", i) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, true)
				behindProxy(w)
				w.started("order", "o-1", "apple")
				ctx, leave := context.WithCancel(t.Context())
				var over atomic.Bool
				go func() {
					r := httptest.NewRequestWithContext(ctx, "GET", "/api/v1/events?nodes=true", nil)
					r.Header.Set("Authorization", "Bearer viewer")
					w.handler.ServeHTTP(httptest.NewRecorder(), r)
					over.Store(true)
				}()
				codes := map[int]int{}
				for i := range 40 {
					codes[w.do("", "GET", "info", nil, "Authorization", wrong(i)).StatusCode]++
				}
				if codes[200] > 0 || codes[401] < 10 {
					t.Errorf("wrong credentials are answered %v", codes)
				}
				w.get("viewer", "info", nil)
				w.ask("", "POST", "login", api.Login{Token: "viewer"}, http.StatusOK, nil)
				w.act("operator", w.preview("operator", api.BulkRequest{Verb: "pause"}).Token)
				for range 8 { // the stream asks for its credential meanwhile
					w.do("", "GET", "info", nil, "Authorization", wrong(0))
					time.Sleep(5 * time.Second)
				}
				if synctest.Wait(); over.Load() {
					t.Error("the stream has ended")
				}
				leave()
				w.stop()
			})
		})
	}
}

// TestGuessesAreDelayed: above ten in a minute, other credentials of an address are refused a
// second later, and above 64 at the same time at once.
func TestGuessesAreDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false)
		begun, codes := time.Now(), make(chan int, 200)
		for i := range 200 {
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1/info", nil)
			r.Header.Set("Authorization", fmt.Sprint("Bearer guess ", i))
			go func() {
				rec := httptest.NewRecorder()
				w.handler.ServeHTTP(rec, r)
				codes <- rec.Code
			}()
		}
		count := func() map[int]int {
			synctest.Wait()
			found := map[int]int{}
			for range len(codes) {
				found[<-codes]++
			}
			return found
		}
		if at := count(); at[401] != 10 || at[429] != 126 {
			t.Errorf("at once: %v", at)
		}
		time.Sleep(time.Second)
		if at := count(); at[401] != 64 || len(at) != 1 {
			t.Errorf("after %s: %v", time.Since(begun), at)
		}
	})
}

// returning is a place where people log in: those with the state "good" alone.
type returning struct{ access.Authenticator }

func (returning) Title() string { return "Example" }

func (returning) Begin(context.Context) (address, state string, err error) {
	return "https://id.example.com/", "good", nil
}

func (returning) Finish(_ context.Context, state string, _ url.Values) (string, error) {
	if state != "good" {
		return "", access.ErrDenied
	}
	return "viewer", nil
}

// TestRefusedLoginsLockOutNobody who returns from the identity provider to the same address.
func TestRefusedLoginsLockOutNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, func(o *server.Options) {
			o.Access = []access.Authenticator{returning{server.Func(byName)}}
		})
		behindProxy(w)
		for i := range 30 {
			w.do("", "GET", "login/callback?code=x", nil, "Cookie", fmt.Sprint("stet_login=bad", i%2))
		}
		if r := w.do("", "GET", "login/callback?code=x", nil, "Cookie", "stet_login=bad0"); r.StatusCode != 429 {
			t.Errorf("a state that was refused ten times: %s", r.Status)
		}
		if r := w.do("", "GET", "login/callback?code=x", nil, "Cookie", "stet_login=good"); r.StatusCode != 303 {
			t.Errorf("a person who may log in: %s", r.Status)
		}
	})
}

// TestWrongSignaturesLockOutNobody: what is signed is taken, whatever was refused before at the
// address; the rate is that of the webhook.
func TestWrongSignaturesLockOutNobody(t *testing.T) {
	admitted := 0
	w := newWorld(t, true, func(o *server.Options) {
		o.Rate, o.Admitted = 5, func(context.Context) { admitted++ }
	})
	defer w.stop()
	behindProxy(w)
	w.hook("orders", api.SetHook{Scheme: "hmac", Start: "order", Target: "/id", Value: "/sku"})
	codes := map[int]int{}
	for range 30 {
		codes[w.do("", "POST", "hooks/orders", `{}`, byHMAC("another secret of many bytes", `{}`)...).StatusCode]++
	}
	if codes[401] != 10 || codes[429] != 20 {
		t.Errorf("wrong signatures are answered %v", codes)
	}
	if admitted != 1 {
		t.Errorf("%d requests were admitted, with that which has made the webhook", admitted)
	}
	body := `{"id": "o-1", "sku": "apple"}`
	w.calls(202, false, "orders", body, byHMAC(hookSecret, body)...)
	if admitted != 2 {
		t.Errorf("%d requests were admitted", admitted)
	}
}

package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
)

// keyOnly lets the holder of one token in, which has a letter that an address escapes.
var keyOnly = server.Func(func(r *http.Request) (*access.Identity, error) {
	switch r.Header.Get("Authorization") {
	case "":
		return nil, nil
	case "Bearer let/me+in":
		return &access.Identity{Name: "olga", Role: access.Operator}, nil
	}
	return nil, access.ErrDenied
})

// phone makes the tab as large as a phone's screen.
func (tb *tab) phone() {
	tb.t.Helper()
	tb.do(call(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: 390, Height: 844, DeviceScaleFactor: 2, Mobile: true,
	}))
}

// TestAnAddressWithATokenOpensTheRuns: a person who opens the address that stet serve prints, in a browser that has
// never been there, is on the page of runs, and the token is nowhere. So it is in a tab that has the page open.
func TestAnAddressWithATokenOpensTheRuns(t *testing.T) {
	soak.Faults(t)
	s := newSiteWith(t, keyOnly)
	s.fill(t)
	address := s.url + "#token=let%2Fme%2Bin"
	inside := func(tb *tab) {
		t.Helper()
		tb.until(`.runs [data-row="5"]`)
		tb.untilTrue(`document.querySelector("header")?.textContent.includes("olga") ?? false`)
		if at := is[string](tb, `location.hash`); at != "#/runs" {
			t.Errorf("the tab is at %s", at)
		}
		text := is[string](tb, `[document.cookie, location, document.body.textContent,
			...[localStorage, sessionStorage].map((s) => JSON.stringify(s))].join()`)
		if strings.Contains(text, "let/me") || strings.Contains(text, "let%2Fme") {
			t.Errorf("the page has the token: %s", text)
		}
		tb.script(`document.querySelector('nav a[href="#/queues"], a[href="#/queues"]').click(); 0`)
		tb.untilTrue(`document.querySelector("h1")?.textContent === "Queues"`)
		tb.script(`history.back(); 0`)
		tb.until(`.runs [data-row="5"]`)
	}
	for _, c := range []struct {
		name  string
		begin func(*tab)
	}{
		{"light", func(tb *tab) { tb.scheme("light") }},
		{"dark", func(tb *tab) { tb.scheme("dark") }},
		{"phone", (*tab).phone},
	} {
		t.Run(c.name, func(t *testing.T) {
			// The tab is at another page of the server first, so that the address loads the dashboard.
			tb := open(t, browser(t), s.url+"nothing", "body")
			tb.faults = nil // what is not there is an error of the log
			c.begin(tb)
			tb.do(chromedp.Navigate(address))
			inside(tb)
		})
	}
	t.Run("a tab that is open", func(t *testing.T) {
		tb := open(t, browser(t), s.url, ".sign-in form")
		tb.do(chromedp.Navigate(address))
		inside(tb)
	})
	t.Run("a token that is not valid", func(t *testing.T) {
		tb := open(t, browser(t), s.url+"#token=wrong", ".sign-in form")
		if at := is[string](tb, `location.hash`); at != "#/runs" {
			t.Errorf("the tab is at %s", at)
		}
	})
}

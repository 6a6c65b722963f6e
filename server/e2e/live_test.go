package e2e

import (
	"strings"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

var counted = stet.Define("counted", func(ctx stet.Context, _ any) (int, error) {
	for n := 0; ; n++ {
		err := stet.Value[int]("count").Set(ctx, n)
		if err == nil && n > 0 {
			err = stet.Stream[int]("numbers").Append(ctx, n)
		}
		if err == nil {
			_, err = stet.Message[int]("next").Receive(ctx)
		}
		if err != nil {
			return n, err
		}
	}
})

// asked returns how many requests were made whose path ends so.
func (tb *tab) asked(end string) int {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	n := 0
	for _, u := range tb.urls {
		u, _, _ = strings.Cut(u, "?")
		if strings.HasSuffix(u, end) {
			n++
		}
	}
	return n
}

// TestPagesLiveByEvents: what comes into the inbox, what a value becomes and what is appended to
// a stream stands on the page of the run without a question of the page.
func TestPagesLiveByEvents(t *testing.T) {
	b := browser(t)
	s := newSite(t, admin)
	ctx := t.Context()
	must[*stet.Run[int]](t)(counted.Start(ctx, s.engine, nil, stet.ID("counted-1")))
	s.until(t, "counted-1", store.Suspended)

	tb := open(t, b, s.url+runPath("counted-1", "inbox"), ".empty")
	tb.untilTrue(`document.querySelector("header .live").textContent === "live"`)
	before := tb.asked("/inbox")
	if err := stet.Message[string]("other").Send(ctx, s.engine, "counted-1", "a word for nobody"); err != nil {
		t.Fatal(err)
	}
	tb.untilTrue(`document.querySelector(".cards")?.textContent.includes("a word for nobody") ?? false`)
	if n := tb.asked("/inbox"); n != before {
		t.Errorf("the page has asked for the inbox %d times more", n-before)
	}
	tb.clean()

	tb = open(t, b, s.url+runPath("counted-1", "values"), ".cards li")
	tb.untilTrue(`document.querySelector("header .live").textContent === "live"`)
	send := func() {
		if err := stet.Message[int]("next").Send(ctx, s.engine, "counted-1", 0); err != nil {
			t.Fatal(err)
		}
	}
	send() // the stream is new: the page reads which there are
	tb.untilTrue(`document.querySelectorAll(".stream li").length === 1`)
	for _, want := range []string{"2", "3", "4"} {
		before := tb.asked("/streams/numbers")
		send()
		tb.untilTrue(`document.querySelector(".cards li .json").textContent === "` + want + `"`)
		tb.untilTrue(`[...document.querySelectorAll(".stream li code")].at(-1)?.textContent === "` + want + `"`)
		if n := tb.asked("/streams/numbers"); n != before {
			t.Errorf("the page has asked for the stream %d times more", n-before)
		}
	}
	tb.picture("values-live-light")
	tb.clean()
}

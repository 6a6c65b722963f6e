package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
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

// held has a step that needs a permit of a queue.
var held = stet.Define("held", func(ctx stet.Context, _ any) (int, error) {
	return stet.Step(ctx, "print", func(context.Context) (int, error) { return 1, nil }, stet.OnStepQueue("mail"))
})

// TestListLivesByEvents: what changes in the list of runs stands on the page, and the page has
// asked for no list since it was there; it asks for counts once in a while.
func TestListLivesByEvents(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	s := newSite(t, admin)
	ctx := t.Context()
	must[*stet.Run[int]](t)(counted.Start(ctx, s.engine, nil, stet.ID("counted-1")))
	s.until(t, "counted-1", store.Suspended)
	tb := open(t, b, s.url+"#/runs", `.runs [data-row="0"]`)
	tb.untilTrue(`document.querySelector("header .live").textContent === "live"`)
	lists, counts := tb.asked("/runs"), tb.asked("/counts")
	for i := range 12 {
		must[*stet.Run[int]](t)(counted.Start(ctx, s.engine, nil, stet.ID("more-"+itoa(i))))
	}
	tb.untilTrue(`document.querySelector(".fresh")?.textContent.startsWith("12 new") ?? false`)
	must[bool](t)(s.engine.Runs().Terminate(ctx, "counted-1", stet.Act{Why: "a test"}))
	tb.untilTrue(`document.querySelector('.runs [data-row="0"]').textContent.includes("cancelled")`)
	if n := tb.asked("/runs"); n != lists {
		t.Errorf("the page has asked for a list %d times more", n-lists)
	}
	tb.untilTrue(`[...document.querySelectorAll(".count.is-suspended b")].some((e) => e.textContent === "12")`)
	if n := tb.asked("/counts"); n-counts > 8 {
		t.Errorf("the page has asked for counts %d times more", n-counts)
	}
	if n := tb.asked("/events"); n != 1 {
		t.Errorf("the page follows %d streams", n)
	}
	tb.clean()
}

// TestWaitForAPermitIsShown: a step that waits for a permit is drawn as that, and its name can be
// hidden.
func TestWaitForAPermitIsShown(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	s := newSite(t, admin)
	s.fill(t) // the queue is paused
	must[*stet.Run[int]](t)(held.Start(t.Context(), s.engine, nil, stet.ID("held-1")))
	s.until(t, "held-1", store.Suspended)
	tb := open(t, b, s.url+runPath("held-1"), `.bar.permit`)
	tb.untilTrue(`document.querySelector(".bar.permit").title.startsWith("waits for a permit of queue mail")`)
	tb.untilTrue(`document.querySelector(".windowed [data-row]").textContent.includes("waits for a permit of queue mail")`)
	tb.looks("permit")
	tb.script(`(() => { const f = document.querySelectorAll(".find input")[1]; f.value = "prin";
		f.dispatchEvent(new Event("input", { bubbles: true })); })()`)
	tb.untilTrue(`document.querySelector(".bar.permit") === null`)
	tb.clean()
}

// TestLinksToLogs: the links of the options lead from the page of a run, with what they name of it;
// one that needs a trace is there for runs that have one.
func TestLinksToLogs(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	s := serve(t, stet.Config{Workflows: []stet.Definition{counted}}, server.Options{
		Access: []access.Authenticator{server.Func(func(*http.Request) (*access.Identity, error) { return admin, nil })},
		Links: []api.Link{
			{Name: "logs", URL: "https://logs.example.com/search?run={id}&workflow={workflow}"},
			{Name: "trace", URL: "https://traces.example.com/{trace}"},
		},
	})
	const trace = "0af7651916cd43dd8448eb211c80319c"
	must[*stet.Run[int]](t)(counted.Start(t.Context(), s.engine, nil, stet.ID("a&b")))
	must[*stet.Run[int]](t)(counted.Start(t.Context(), s.engine, nil, stet.ID("traced"),
		stet.Headers{"traceparent": "00-" + trace + "-b7ad6b7169203331-01"}))
	for id, want := range map[string]string{
		"a&b":    "https://logs.example.com/search?run=a%26b&workflow=counted",
		"traced": "https://logs.example.com/search?run=traced&workflow=counted https://traces.example.com/" + trace,
	} {
		tb := open(t, b, s.url+runPath(id), ".links a")
		if got := is[string](tb, `[...document.querySelectorAll(".links a")].map((a) => a.href).join(" ")`); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
		tb.clean()
	}
}

// TestNodesLiveByEvents: a node that comes, and one that is heard of no more, stand on the page of
// the nodes, which has asked for them once.
func TestNodesLiveByEvents(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	s := newSite(t, admin)
	tb := open(t, b, s.url+"#/nodes", "td")
	tb.untilTrue(`document.querySelector("header .live").textContent === "live"`)
	other := store.Node{
		ID: "node-2", Boot: "b-2", Build: "1121.0", Host: "elsewhere", PID: 4,
		TTL: store.Delay(2 * time.Second / time.Microsecond),
	}
	must[store.Time](t)(s.engine.Store().Register(t.Context(), other))
	tb.untilTrue(`[...document.querySelectorAll("tbody tr")].some((r) =>
		r.textContent.includes("node-2") && r.textContent.includes("standing by") && r.textContent.includes("lately"))`)
	tb.untilTrue(`[...document.querySelectorAll("tbody tr")].some((r) =>
		r.textContent.includes("node-2") && r.textContent.includes("silent") &&
		/^[2-9] s ago/.test(r.cells[7].textContent))`)
	tb.untilTrue(`[...document.querySelectorAll("tbody tr")].some((r) =>
		r.textContent.includes("node-1") && r.textContent.includes("working"))`)
	if n := tb.asked("/nodes"); n != 1 {
		t.Errorf("the page has asked for the nodes %d times", n)
	}
	tb.looks("nodes-silent")
	tb.clean()
}

// TestPagesLiveByEvents: what comes into the inbox, what a value becomes and what is appended to
// a stream stands on the page of the run without a question of the page.
func TestPagesLiveByEvents(t *testing.T) {
	soak.Faults(t)
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
	tb.looks("values-live")
	tb.clean()
}

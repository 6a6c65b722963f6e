package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// serveAt serves a store whose clock stands at a time when the test begins, and goes on.
func serveAt(t *testing.T, at time.Time, workflows ...stet.Definition) *site {
	t.Helper()
	ahead := time.Until(at)
	return serve(t, stet.Config{
		Store:     memory.New(memory.Clock(func() time.Time { return time.Now().Add(ahead) })),
		Workflows: workflows,
	}, server.Options{Access: []access.Authenticator{server.Func(
		func(*http.Request) (*access.Identity, error) { return admin, nil })}})
}

// TestAMonthOfInstants: an hourly schedule has all hours of all five weeks, and the day on which
// the clocks change says which hour is skipped or comes twice.
func TestAMonthOfInstants(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	for _, c := range []struct {
		name, from, change, says string
		today, at                []string // the instants that are shown of today and of the day of the change
	}{
		{
			"skipped", "2027-03-10T09:30:00Z", "28", "02:00–03:00 skipped",
			[]string{"11:00", "12:00", "13:00", "14:00", "9 more"}, []string{"00:00", "01:00", "03:00", "04:00", "19 more"},
		},
		{
			"repeated", "2027-10-20T09:30:00Z", "31", "02:00–03:00 repeated",
			[]string{"12:00", "13:00", "14:00", "15:00", "8 more"},
			[]string{"00:00", "01:00", "02:00", "02:00 again", "21 more"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			begin, err := time.Parse(time.RFC3339, c.from)
			if err != nil {
				t.Fatal(err)
			}
			later := stet.Define("later", func(_ stet.Context, text string) (string, error) { return text, nil })
			s := serveAt(t, begin, later)
			hourly := stet.Schedule{Cron: "0 * * * *", Zone: "Europe/Berlin"}
			if err := later.Schedule(t.Context(), s.engine, "hourly", "x", hourly); err != nil {
				t.Fatal(err)
			}
			tb := open(t, b, s.url+"#/schedules/hourly", `.month td div`)
			tb.untilTrue(`document.querySelectorAll(".month tbody td").length === 35 &&
				document.querySelector(".month tbody tr:last-child td:last-child").textContent.includes("more")`)
			rows := is[[][]string](tb, `[...document.querySelectorAll(".month tbody td")].map(
				(c) => [...c.children].map((e) => e.innerText.replace(/\s+/g, " ").trim()))`)
			today := int(begin.Weekday()+6) % 7
			changes := 0
			for i, row := range rows {
				day, instants := row[0], row[1:]
				want := []string{"00:00", "01:00", "02:00", "03:00", "20 more"}
				switch {
				case i < today:
					want = nil
				case i == today:
					want = c.today
				case strings.Contains(day, "–"):
					changes++
					want = c.at
					if !strings.HasPrefix(day, c.change+" ") || !strings.HasSuffix(day, c.says) {
						t.Errorf("the clocks change on %q, want %s on %s", day, c.says, c.change)
					}
				}
				if got, want := fmt.Sprintf("%q", instants), fmt.Sprintf("%q", want); got != want {
					t.Errorf("day %d, %s: %s, want %s", i, day, got, want)
				}
			}
			if changes != 1 {
				t.Errorf("expected a day on which the clocks change, found %d", changes)
			}
			tb.looks("month-" + c.name)
			tb.clean()
		})
	}
}

// older reads further pages until there is none, and returns how many of what a selector names
// were shown after each.
func (tb *tab) older(selector string) []int {
	tb.t.Helper()
	count := func() int { return is[int](tb, `document.querySelectorAll(`+quote(selector)+`).length`) }
	counts := []int{count()}
	for is[bool](tb, `document.querySelector(".foot .button") !== null`) {
		tb.press(".foot", "Show older")
		tb.untilTrue(`document.querySelectorAll(` + quote(selector) + `).length > ` + itoa(counts[len(counts)-1]) + ` &&
			document.querySelector(".foot .button[aria-disabled=true]") === null`)
		counts = append(counts, count())
	}
	return counts
}

// TestFurtherPages: all dead letters and all acts of the audit can be reached, each once, also
// those beyond the second page.
func TestFurtherPages(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	s := newSite(t, admin)
	ctx, e := t.Context(), s.engine
	must[*stet.Run[string]](t)(contract.Start(ctx, e, 0, stet.ID("contract-1")))
	s.until(t, "contract-1", store.Suspended)
	for i := range 230 {
		if err := stet.Message[int](fmt.Sprintf("note %d.", i)).Send(ctx, e, "contract-1", i); err != nil {
			t.Fatal(err)
		}
	}
	must[bool](t)(e.Runs().Terminate(ctx, "contract-1", stet.Act{}))
	if err := e.Queues().Create(ctx, "mail", stet.QueueSettings{Concurrency: 1}); err != nil {
		t.Fatal(err)
	}
	for i := range 430 {
		act := stet.Act{By: fmt.Sprint("bob ", i%2), Why: fmt.Sprintf("because %d.", i)}
		if err := e.Queues().Set(ctx, "mail", stet.QueueSettings{Concurrency: i + 2}, act); err != nil {
			t.Fatal(err)
		}
	}
	all := func(tb *tab, selector, what string, n, step int) {
		t.Helper()
		missing := is[[]int](tb, `(() => { const texts = [...document.querySelectorAll(`+quote(selector)+`)].map(
			(e) => e.textContent); return [...Array(`+itoa(n)+`).keys()].filter((i) => i % `+itoa(step)+` === 0 &&
			texts.filter((t) => t.includes(`+quote(what+" ")+` + i + ".")).length !== 1); })()`)
		if len(missing) > 0 {
			t.Errorf("%s: not there once: %v", what, missing)
		}
	}
	s.until(t, "contract-1", store.Cancelled)
	tb := open(t, b, s.url+"#/letters", ".letter")
	tb.says("header .live", "every 5 s")
	if got := fmt.Sprint(tb.older(".letter")); got != "[100 200 230]" {
		t.Errorf("letters shown: %s", got)
	}
	all(tb, ".letter", "note", 230, 1)
	tb.says("header .live", "as read")
	tb.untilTrue(`document.querySelector(".foot").textContent === "230 letters shown"`)
	tb.clean()

	tb = open(t, b, s.url+"#/audit", "td")
	if err := e.Queues().Pause(ctx, "mail", stet.Act{By: "bob 1", Why: "seen at once"}); err != nil {
		t.Fatal(err)
	}
	tb.says("td", "seen at once") // by itself
	if got := fmt.Sprint(tb.older("tbody tr")); got != "[200 400 431]" {
		t.Errorf("acts shown: %s", got)
	}
	all(tb, "tbody tr", "because", 430, 1)
	tb.script(`(() => { const f = document.querySelector(".form.line input"); f.value = "bob 0";
		f.dispatchEvent(new Event("input", { bubbles: true })); })()`)
	tb.untilTrue(`document.querySelectorAll("tbody tr").length === 200`) // of others it shows none
	if got := fmt.Sprint(tb.older("tbody tr")); got != "[200 215]" {
		t.Errorf("acts of one shown: %s", got)
	}
	all(tb, "tbody tr", "because", 430, 2)
	tb.clean()
}

// brittle stalls when it gets a message that is too large.
var (
	brittle = stet.Define("brittle", func(ctx stet.Context, _ int) (int, error) {
		n, err := stet.Message[int]("next").Receive(ctx)
		if err != nil {
			return 0, err
		}
		return []int{1, 2, 3}[n], nil
	})
	brood = stet.Define("brood", func(ctx stet.Context, n int) (int, error) {
		for i := range n {
			if _, err := brittle.Go(ctx, i); err != nil {
				return 0, err
			}
		}
		return stet.Message[int]("enough").Receive(ctx)
	})
)

// TestChildrenLiveByEvents: a child that stalls stands first among the children of a run, with its
// reason, without a question of the person who looks.
func TestChildrenLiveByEvents(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	s := serveAt(t, time.Now(), brittle, brood)
	ctx, e := t.Context(), s.engine
	must[*stet.Run[int]](t)(brood.Start(ctx, e, 3, stet.ID("brood-1")))
	s.until(t, "brood-1", store.Suspended)
	tb := open(t, b, s.url+runPath("brood-1", "children"), `.small-list li:nth-child(3)`)
	tb.untilTrue(`document.querySelector("header .live").textContent === "live"`)
	tb.untilTrue(`document.querySelector(".small-list").innerText.match(/suspended/g)?.length === 3`)
	tb.script(`window.gone = 0; new MutationObserver(() => {
		if (!document.querySelector(".small-list")) window.gone++;
	}).observe(document.body, { childList: true, subtree: true }); 0`)
	id := is[string](tb, `document.querySelector(".small-list li:nth-child(3) .id").textContent`)
	if err := stet.Message[int]("next").Send(ctx, e, id, 7); err != nil {
		t.Fatal(err)
	}
	tb.untilTrue(`document.querySelector(".small-list li:first-child").textContent.includes("stalled") &&
		document.querySelector(".small-list li:first-child .id").textContent === ` + quote(id))
	tb.untilTrue(`document.querySelector(".small-list li:first-child").textContent.includes("index out of range")`)
	tb.untilTrue(`document.querySelector('[aria-label="Children"]').textContent.includes("1 failed or stalled")`)
	if n := is[int](tb, `window.gone`); n != 0 {
		t.Errorf("the list was away %d times while it was read again", n)
	}
	tb.looks("children-stalled")
	tb.clean()
}

// TestALockOfAQueueIsOnItsPage: with the runs that hold the permits and those that wait, and what to do.
func TestALockOfAQueueIsOnItsPage(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	place := stet.OnQueue{Name: "one"}
	inner := stet.Define("inner", func(stet.Context, int) (int, error) { return 1, nil })
	outer := stet.Define("outer", func(ctx stet.Context, n int) (int, error) {
		return inner.Call(ctx, n, stet.ID("below"), place)
	})
	s := serve(t, stet.Config{Workflows: []stet.Definition{inner, outer}}, server.Options{Access: []access.Authenticator{
		server.Func(func(*http.Request) (*access.Identity, error) { return admin, nil })}})
	ctx, e := t.Context(), s.engine
	if err := e.Queues().Create(ctx, "one", stet.QueueSettings{Concurrency: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := outer.Start(ctx, e, 1, stet.ID("above"), place); err != nil {
		t.Fatal(err)
	}
	tb := open(t, b, s.url+"#/queues/one", ".facts")
	tb.says(".note.is-warn", "Locked: the only permit is held by above, which only waits. below waits for it.")
	tb.says(".note.is-warn", "ReleaseWhileSuspended")
	tb.looks("queue-locked")
	tb.visit("#/queues", "td .badge.is-stalled")
	tb.says("td .badge.is-stalled", "locked")
	tb.clean()
}

// TestResetOfAnOverride: what an operator has set in place of what is declared is said to be that,
// with who and why, and goes by a button of the queue's page.
func TestResetOfAnOverride(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	s := newSite(t, admin)
	ctx, e := t.Context(), s.engine
	if err := e.Queues().Create(ctx, "mail", stet.QueueSettings{Concurrency: 2, PerKey: 1}); err != nil {
		t.Fatal(err)
	}
	tb := open(t, b, s.url+"#/queues/mail", ".facts")
	tb.press(".page", "Limits")
	tb.confirm("Change", "At once", "7", "At once per key", "", "Reason", "a sale")
	tb.closed()
	tb.says(".facts", "7 at once")
	tb.says(".facts", "alice")
	tb.says(".facts", "a sale")
	tb.says(".facts", "2 at once, 1 per key") // what is declared stands beside it
	tb.press(".page", "Reset limits")
	tb.says("dialog[open]", "2 at once, 1 per key, in place of 7 at once")
	tb.confirm("Reset", "Reason", "it is over")
	tb.closed()
	tb.untilTrue(`!document.querySelector(".facts").textContent.includes("overridden") &&
		![...document.querySelectorAll(".page .button")].some((b) => b.textContent.startsWith("Reset"))`)
	q := must[*stet.QueueInfo](t)(e.Queues().Info(ctx, "mail"))
	if q.Settings.Concurrency != 2 || q.Settings.PerKey != 1 || q.Override != nil {
		t.Errorf("the queue: %+v", q)
	}
	found := must[[]stet.AuditEntry](t)(stet.AuditOf(e).List(ctx, stet.AuditFilter{About: "queue mail"}))
	if len(found) != 2 || found[0].By != "alice" || found[0].Why != "it is over" {
		t.Errorf("the audit: %+v", found)
	}
	tb.clean()
}

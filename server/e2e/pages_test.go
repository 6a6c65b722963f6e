package e2e

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
)

//go:embed testdata/axe.min.js
var axe string

// violation is what axe has found.
type violation struct {
	ID    string `json:"id"`
	Help  string `json:"help"`
	Nodes []struct {
		HTML    string `json:"html"`
		Summary string `json:"failureSummary"`
	} `json:"nodes"`
}

// accessible fails the test for each violation of WCAG 2.2 AA and of axe's best practices.
func (tb *tab) accessible(what string) {
	tb.t.Helper()
	before := is[int](tb, `seen.violations.length`)
	tb.script(axe + "\n;0")
	tb.script(`window.axeDone = "";
		axe.run(document, { resultTypes: ["violations"], rules: { "target-size": { enabled: true } } }).then(
			(r) => {
				window.axeDone = JSON.stringify(
					r.violations.map((v) => ({ id: v.id, help: v.help, nodes: v.nodes.slice(0, 4) })));
			},
			(e) => { window.axeDone = "error: " + e; }); 0`)
	tb.untilTrue(`window.axeDone !== ""`)
	answer := is[string](tb, `window.axeDone`)
	var list []violation
	if err := json.Unmarshal([]byte(answer), &list); err != nil {
		tb.t.Fatalf("%s: axe: %s", what, answer)
	}
	for _, v := range list {
		for _, n := range v.Nodes {
			tb.t.Errorf("%s: %s: %s\n%.300s\n%s", what, v.ID, v.Help, n.HTML, n.Summary)
		}
	}
	tb.script(`seen.violations.length = ` + itoa(before)) // the others are axe's own
}

// looks keeps a picture of what is open in both colour schemes, and has axe look at each.
func (tb *tab) looks(name string) {
	tb.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		tb.scheme(scheme)
		tb.picture(name + "-" + scheme)
		tb.accessible(name + ", " + scheme)
	}
}

func itoa(n int) string {
	data, err := json.Marshal(n)
	if err != nil {
		panic(err) // a number always encodes
	}
	return string(data)
}

func runPath(id string, rest ...string) string {
	return "#/runs/" + strings.Join(append([]string{url.PathEscape(id)}, rest...), "/")
}

// pages are all pages, with what must be on each before it is looked at.
var pages = []struct{ name, path, until string }{
	{"runs", "#/runs", `.runs [data-row="5"]`},
	{"attention", "#/runs?query=status%3Dfailed,stalled+workflow%3Dcheckout,invoice", `.runs [data-row="1"]`},
	{"failed", runPath("order-4711"), `.stopped .message`},
	{"failed-step", runPath("order-4711", "timeline?at=charge"), `.operation .failure`},
	{"stalled", runPath("invoice-2211"), `.stopped.is-warn`},
	{"waiting", runPath("order-4712"), `body:has(.waits.is-suspended) .windowed [data-row="6"]`},
	{"graph", runPath("order-4712", "graph"), `.graph .beside`},
	{"history", runPath("order-4712", "history"), `.windowed [data-row="6"]`},
	{"inbox", runPath("order-4712", "inbox"), `.cards li`},
	{"children", runPath("order-4712", "children"), `.small-list li`},
	{"values", runPath("order-4712", "values"), `.cards li`},
	{"run-audit", runPath("order-4713", "audit"), `td`},
	{"data", runPath("order-4709", "data"), `.json`},
	{"executing", runPath("import-7"), `body:has(.waits.is-running) .windowed [data-row="0"]`},
	{"queues", "#/queues", `td`},
	{"queue", "#/queues/mail", `.facts`},
	{"schedules", "#/schedules", `td`},
	{"schedule", "#/schedules/nightly", `.month td div`},
	{"topics", "#/topics", `td`},
	{"topic", "#/topics/jobs", `.cards li`},
	{"letters", "#/letters", `.cards li + li`},
	{"nodes", "#/nodes", `td`},
	{"audit", "#/audit", `td`},
	{"no-run", "#/runs?query=workflow%3Dnobody", `.empty`},
	{"no-page", "#/nothing", `.empty`},
}

// newShop is a site with every run, queue, schedule and letter that pages need.
func newShop(t *testing.T) *site {
	t.Helper()
	s := newSite(t, admin)
	s.fill(t)
	// The second dead letter, so that two values are on a page.
	must[*stet.Run[receipt]](t)(checkout.Start(t.Context(), s.engine,
		order{ID: "order-4715", Tenant: "acme", SKUs: []string{"tea"}, Approval: true}, stet.ID("order-4715")))
	s.until(t, "order-4715", store.Suspended)
	if err := stet.Message[string]("refund").Send(t.Context(), s.engine, "order-4715", "3 EUR"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.engine.Runs().Cancel(t.Context(), "order-4715", stet.Act{By: "bob"}); err != nil {
		t.Fatal(err)
	}
	s.until(t, "order-4715", store.Cancelled)
	return s
}

// TestEveryPageOpens: no error, no violation of the policy and no foreign request, in the light colours. Keys reach
// everything that a click reaches. It is the one test of make test that has a browser.
func TestEveryPageOpens(t *testing.T) {
	b := browser(t)
	s := newShop(t)
	for _, p := range pages {
		t.Run(p.name, func(t *testing.T) {
			tb := open(t, b, s.url+p.path, p.until)
			tb.reachable()
			tb.clean()
		})
	}
	t.Run("by keys", func(t *testing.T) {
		tb := open(t, b, s.url+"#/runs?query=workflow%3Dcheckout%20status%3Dfailed", `.runs [data-row="0"]`)
		tb.opensByKeys()
		tb.clean()
	})
}

// TestPages opens every page in both colour schemes: what TestEveryPageOpens expects, and nothing that axe finds.
func TestPages(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	s := newShop(t)
	for _, p := range pages {
		t.Run(p.name, func(t *testing.T) {
			tb := open(t, b, s.url+p.path, p.until)
			tb.looks(p.name)
			tb.clean()
		})
	}
}

// TestDialogsLook opens dialogs of each kind in both colour schemes, and leaves each by Escape.
func TestDialogsLook(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	s := newSite(t, admin)
	s.fill(t)
	for _, row := range []struct{ name, path, scope, label string }{
		{"retry", runPath("order-4711"), ".title-line", "Retry"},
		{"cancel", runPath("order-4712"), ".title-line", "Cancel"},
		{"rewind", runPath("order-4709", "timeline?at=ship"), ".operation", "Rewind"},
		{"edit", runPath("order-4711", "timeline?at=charge"), ".operation", "Edit"},
		{"send", runPath("order-4712"), ".waits", "Send"},
		{"start", "#/runs", ".views", "Start a run"},
		{"limits", "#/queues/mail", ".page", "Limits"},
		{"backfill", "#/schedules/nightly", ".page", "Backfill"},
		{"publish", "#/topics/jobs", ".page", "Publish"},
		{"replay", "#/letters", ".letter", "Replay"},
		{"drain", "#/nodes", "td", "Drain"},
	} {
		t.Run(row.name, func(t *testing.T) {
			tb := open(t, b, s.url+row.path, ".page, .views")
			tb.press(row.scope, row.label)
			tb.until("dialog[open]")
			tb.untilTrue(`document.querySelectorAll("[aria-busy]").length === 0`)
			tb.looks("dialog-" + row.name)
			tb.keys(kb.Escape)
			tb.closed()
			tb.clean()
		})
	}
}

// TestFirstPaint: three answers, of which the page itself is one, are all that stands between a
// person and the first thing that a page shows, whichever it is: all others are held back here
// until it shows something.
func TestFirstPaint(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	s := newSite(t, admin)
	s.fill(t)
	origin, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: origin.Scheme, Host: origin.Host})
	for _, path := range []string{"", "#/runs", runPath("order-4711"), "#/nodes"} {
		t.Run(path, func(t *testing.T) {
			shown, answered := make(chan struct{}), int64(0)
			show := sync.OnceFunc(func() { close(shown) })
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if atomic.AddInt64(&answered, 1) > 3 {
					select {
					case <-shown:
					case <-r.Context().Done():
						return
					}
				}
				forward.ServeHTTP(w, r)
			}))
			defer web.Close()
			defer show()
			tb := open(t, b, web.URL+origin.Path+path, "body")
			defer func() { _ = chromedp.Cancel(tb.ctx) }() // it is closed with the browser otherwise
			tb.untilTrue(`performance.getEntriesByName("first-contentful-paint").length === 1`)
			tb.untilTrue(`document.body.innerText.trim() !== ""`)
			show()
			tb.until("h1, .runs")
			tb.clean()
		})
	}
}

// TestHostileTexts: what runs are called and say is shown as text, on every page of theirs.
func TestHostileTexts(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	s := newSite(t, admin)
	s.fill(t)
	for i, text := range hostile {
		id := hostileID(i)
		for _, view := range []string{"timeline", "graph", "history", "values", "data", "audit", "children"} {
			t.Run(itoa(i)+" "+view, func(t *testing.T) { // its tab closes: a browser allows six streams to a host
				tb := open(t, b, s.url+runPath(id, view), ".tabs")
				tb.untilTrue(`document.querySelector("h1").textContent === ` + quote(id))
				tb.says(".stopped .message", "error: "+text)
				tb.untilTrue(`document.querySelectorAll("[aria-busy]").length === 0`)
				const markup = "#app script, #app img, #app iframe, #app [onerror], #app b[data-x], h1 *"
				if n := is[int](tb, `document.querySelectorAll("`+markup+`").length`); n != 0 {
					t.Errorf("%s of %q: %d elements were made of text", view, id, n)
				}
				tb.clean()
			})
		}
	}
	query := url.QueryEscape(`id="` + `0 <img src=x onerror=alert(1)>` + `"`)
	tb := open(t, b, s.url+"#/runs?query="+query, `.runs [data-row="0"]`)
	tb.clean()
}

func quote(text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text always encodes
	}
	return string(data)
}

// TestKeysAlone finds the failed run, its step and its error, and opens the retry, without a
// pointer.
func TestKeysAlone(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	s := newSite(t, admin)
	s.fill(t)
	tb := open(t, b, s.url+"#/runs?query=workflow%3Dcheckout%20status%3Dfailed", `.runs [data-row="0"]`)
	focus := func(what string) {
		t.Helper()
		for range 60 {
			if is[bool](tb, `document.activeElement !== null && document.activeElement.matches(`+quote(what)+`)`) {
				return
			}
			tb.keys(kb.Tab)
		}
		t.Fatalf("no way to %s by the tab key:\n%s", what, tb.text())
	}
	focus(`.runs [data-row="0"]`)
	tb.keys(kb.Enter)
	tb.until(".stopped .message")
	focus(".stopped .as-link")
	tb.keys(kb.Enter)
	tb.until(".operation .failure")
	tb.untilTrue(`document.querySelector(".operation").textContent.includes("card declined")`)
	tb.until(`.windowed [data-row]`)
	focus(`.windowed [data-row]`)
	tb.keys(kb.End)
	tb.untilTrue(`document.activeElement.matches("[data-row]") && document.activeElement.getAttribute("aria-rowindex") ===
		String(document.querySelector(".windowed").getAttribute("aria-rowcount"))`)
	tb.keys(kb.Home, kb.Enter)
	tb.until(".operation")
	focus(".title-line .button.primary") // retry
	tb.keys(kb.Enter)
	tb.until("dialog[open]")
	tb.untilTrue(`document.querySelector("dialog[open]").contains(document.activeElement)`)
	tb.keys(kb.Escape)
	tb.untilTrue(`document.querySelector("dialog[open]") === null`)
	tb.untilTrue(`document.activeElement.matches(".title-line .button.primary")`) // back where it was
	tb.clean()
}

// TestARunOf10000Entries holds the page to few nodes and, on a machine that has nothing else
// to do, which STET_E2E_MARKS=1 says, to no long task after it has loaded.
func TestARunOf10000Entries(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	s := newSite(t, admin)
	must[*stet.Run[int]](t)(many.Start(t.Context(), s.engine, 5000, stet.ID("many-1")))
	if _, err := s.engine.Runs().Wait(t.Context(), "many-1"); err != nil {
		t.Fatal(err)
	}
	tb := open(t, b, s.url+runPath("many-1"), `.windowed [data-row="3"]`)
	tb.untilTrue(`![...document.querySelectorAll(".dim")].some((e) => e.textContent.startsWith("Reading"))`)
	tb.untilTrue(`document.querySelector(".tool-line").textContent.includes("critical path")`) // the shape is there too
	const most = 1500
	if n := is[int](tb, `document.querySelectorAll("*").length`); n > most {
		t.Errorf("expected at most %d nodes, found %d", most, n)
	} else {
		t.Logf("%d nodes", n)
	}
	for _, l := range is[[][2]float64](tb, `seen.long`) {
		t.Logf("a task of %.0f ms while it loaded, at %.0f ms", l[1], l[0])
	}
	// From here on it is loaded: scrolling, zooming and keys cost no long task.
	tb.script(`window.loaded = performance.now()`)
	for _, at := range []string{"0.5", "0.9", "0.1"} {
		tb.script(`(() => { const w = document.querySelector(".window"); w.scrollTop = w.scrollHeight * ` + at + `; })()`)
		tb.untilTrue(`(() => { const w = document.querySelector(".window"), r = w.getBoundingClientRect();
			return document.elementFromPoint(r.left + 60, r.top + 100)?.closest("[data-row]") !== null; })()`)
	}
	tb.do(chromedp.Click(chromedp.CSS(`button[aria-label="Zoom in"]`)),
		chromedp.Click(chromedp.CSS(`button[aria-label="Later"]`)))
	if n := is[int](tb, `document.querySelectorAll("*").length`); n > most {
		t.Errorf("scrolled: expected at most %d nodes, found %d", most, n)
	}
	for _, l := range is[[][2]float64](tb, `seen.long.filter((l) => l[0] > window.loaded)`) {
		if os.Getenv("STET_E2E_MARKS") == "" { // a machine with other work makes any task long
			t.Logf("a task of %.0f ms after the page was loaded, at %.0f ms", l[1], l[0])
			continue
		}
		t.Errorf("a task of %.0f ms after the page was loaded, at %.0f ms", l[1], l[0])
	}
	tb.looks("many")
	tb.clean()
}

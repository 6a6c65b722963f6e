package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/script"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
)

// hostileNames are names that queues, schedules, topics, messages, tasks and scripts may have: no
// control character, and at most 64 bytes.
func hostileNames() []string {
	return append([]string{".", "..", "~", "a/b", "x\u2067y\u2066z", strings.Repeat("W", 64)}, hostile...)
}

// hostileIdentity is the name of an identity, a node or a token, which may have 255 bytes.
func hostileIdentity(i int) string {
	if name := hostileNames()[i]; len(name) < 64 {
		return name
	}
	return strings.Repeat("W", 255)
}

// hostileTexts are those of reasons, workers, sources and values, which may have any character.
func hostileTexts() []string {
	return append([]string{"one\ntwo\r\n\tthree\x00\x1b[31m", strings.Repeat("no-blank", 30)}, hostile...)
}

// shown is how a page shows a text: what turns the direction of text is visible.
func shown(text string) string {
	return strings.NewReplacer("\u202e", `\u202e`, "\u2066", `\u2066`, "\u2067", `\u2067`).Replace(text)
}

// inJSON is how a text stands in JSON, without the quotes.
func inJSON(text string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil {
		panic(err) // a text always encodes
	}
	return strings.Trim(b.String(), "\"\n")
}

// sound fails the test if a text has become markup, a link leads elsewhere, a character turns
// the text after it, or a text has pushed something out of the window.
func (tb *tab) sound(what string) {
	tb.t.Helper()
	tb.untilTrue(`document.querySelectorAll("[aria-busy]").length === 0`)
	const markup = "#app script, #app img, #app iframe, #app [onerror], #app b[data-x], #app u, #app s, h1 *"
	for _, f := range is[[]string](tb, `(() => {
		const found = [], app = document.getElementById("app");
		for (const e of document.querySelectorAll("`+markup+`")) found.push("made of text: " + e.outerHTML);
		for (const a of document.links) {
			if (a.origin !== location.origin || !(a.href.split("#")[0] === location.href.split("#")[0] ||
				a.href.startsWith(document.baseURI.split("#")[0] + "api/"))) found.push("a link to " + a.href);
		}
		const turns = app.innerText.match(/.{0,20}[\u202a-\u202e\u2066-\u2069]/);
		if (turns) found.push("the text is turned: " + turns[0]);
		const wide = document.documentElement.scrollWidth;
		if (wide > innerWidth) found.push("the page is " + wide + " wide, of " + innerWidth);
		for (const e of app.querySelectorAll("h1, h2, header *, a, button, input, .badge, p, dialog[open] *")) {
			if (e.closest(".source, .graph, .windowed, .unseen, .skip, .list")) continue;
			const r = e.getBoundingClientRect();
			if (r.width && (r.right > innerWidth + 1 || r.left < -1)) {
				found.push("out of the window: " + e.outerHTML.slice(0, 200));
			}
		}
		return found.slice(0, 5);
	})()`) {
		tb.t.Errorf("%s: %s", what, f)
	}
}

// visit goes to another page in the same tab.
func (tb *tab) visit(hash, until string) {
	tb.t.Helper()
	tb.script(`location.hash = ` + quote(hash) + `; 0`)
	tb.untilTrue(`location.hash === new URL(` + quote(hash) + `, location.href).hash`)
	tb.until(until)
}

// says waits until a text of the page, as it is read, has another one.
func (tb *tab) says(selector, text string) {
	tb.t.Helper()
	flat := strings.Join(strings.FieldsFunc(shown(text), func(r rune) bool { return r <= ' ' }), " ")
	tb.untilTrue(`[...document.querySelectorAll(` + quote(selector) + `)].some((e) =>
		e.textContent.replace(/[\u0000-\u0020]+/g, " ").includes(` + quote(flat) + `))`)
}

// hostileSite serves a store in which everything that has a name or a text has a hostile one. What
// cannot have more than one, as the node and who looks, has the one of the number.
func hostileSite(t *testing.T, number int) *site {
	t.Helper()
	names, texts := hostileNames(), hostileTexts()
	lib := must[*script.Library](t)(script.Open(script.Config{}))
	resize := stet.Define("resize", func(ctx stet.Context, n int) (int, error) {
		return stet.Task[int, int](names[n]).Run(ctx, n, stet.Permit{Queue: names[n]})
	})
	ended := stet.Define("ended", func(ctx stet.Context, _ int) (string, error) {
		return stet.Message[string]("done").Receive(ctx)
	})
	later := stet.Define("later", func(_ stet.Context, text string) (string, error) { return text, nil })
	who := &access.Identity{Name: hostileIdentity(number), Role: access.Administrator}
	s := serve(t, stet.Config{
		Workflows: []stet.Definition{resize, ended, later}, Library: lib, Node: hostileIdentity(number), Build: texts[0],
		Groups: []string{names[number], "default"},
	}, server.Options{Scripts: lib, Access: []access.Authenticator{server.Func(
		func(*http.Request) (*access.Identity, error) { return who, nil })}})
	ctx, e := t.Context(), s.engine
	must[*stet.Run[string]](t)(ended.Start(ctx, e, 0, stet.ID("ended-1")))
	s.until(t, "ended-1", store.Suspended)
	for i, name := range names {
		text := texts[i%len(texts)]
		by := hostileIdentity(i)
		act := stet.Act{By: by, Why: text}
		every := stet.Schedule{Every: 1000 * time.Hour}
		headers := stet.Headers{"stet.by": by}
		_, published := (stet.Topic[string]{Name: name, Mode: stet.Consumed}).Publish(ctx, e, text, headers)
		_, made := stet.TokensOf(e).Create(ctx, stet.TokenInfo{Name: by, Role: "viewer"}, act)
		source := stet.ScriptCode{Code: fmt.Sprintf("async function workflow() { return %d }", i),
			Files: []stet.ScriptFile{{Name: text, Text: text + "\n" + name}}}
		must[int](t)(script.Deploy(ctx, e, name, source, act))
		if err := errors.Join(published, made,
			e.Queues().Create(ctx, name, stet.QueueSettings{Concurrency: 1}),
			later.Schedule(ctx, e, name, text, every, act),
			stet.Message[string](name).Send(ctx, e, "ended-1", text, headers),
		); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if err := e.Schedules().Pause(ctx, name, act); err != nil {
			t.Fatal(err)
		}
		must[*stet.Run[int]](t)(resize.Start(ctx, e, i, stet.ID("resize-"+itoa(i))))
		leased := must[*stet.Leased](t)(e.Tasks().Lease(ctx, stet.LeaseRequest{
			Worker: text[:min(len(text), 255)], Names: []string{name}, Wait: 20 * time.Second}))
		if len(leased.Tasks) != 1 {
			t.Fatalf("%q: leased %+v", name, leased)
		}
		if err := e.Queues().Pause(ctx, name, act); err != nil {
			t.Fatal(err)
		}
	}
	if err := stet.Message[string]("done").Send(ctx, e, "ended-1", ""); err != nil {
		t.Fatal(err)
	}
	s.until(t, "ended-1", store.Succeeded)
	return s
}

// TestHostileNames: names of queues, schedules, topics, events, dead letters, scripts, tasks,
// workers, nodes and identities, and the reasons of what was done, are shown as texts. Each link
// leads to what it names, and nothing is pushed out of the window.
func TestHostileNames(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	names, texts := hostileNames(), hostileTexts()
	s := hostileSite(t, len(names)-2) // which turns the direction of text
	for _, kind := range []struct {
		name string
		also func(tb *tab, i int)
	}{
		{"queues", func(tb *tab, i int) {
			tb.says(".note", texts[i%len(texts)])
			tb.says(".note", hostileIdentity(i))
			tb.says(`[aria-label="Tasks"] td`, names[i])
			tb.says(`[aria-label="Tasks"] td`, texts[i%len(texts)])
		}},
		{"schedules", func(tb *tab, i int) { tb.says(".note", texts[i%len(texts)]) }},
		{"topics", func(tb *tab, i int) {
			tb.until(".cards li")
			tb.script(`document.querySelector(".cards summary").click(); 0`)
			tb.says(".json-string", inJSON(texts[i%len(texts)]))
		}},
		{"scripts", func(tb *tab, i int) {
			tb.until(".source li")
			tb.says("h3", texts[i%len(texts)])
			tb.says("td", texts[i%len(texts)])
			for line := range strings.Lines(texts[i%len(texts)]) {
				tb.says(".source li", strings.TrimSpace(line))
			}
			tb.says("td", hostileIdentity(i))
			tb.says(".source", names[i])
		}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			tb := open(t, b, s.url+"#/"+kind.name, "td a")
			tb.sound(kind.name)
			tb.picture("hostile-" + kind.name)
			for i, name := range names {
				tb.visit("#/"+kind.name, "td a")
				tb.follow("td", shown(name))
				tb.untilTrue(`document.querySelector("h1").textContent === ` + quote(shown(name)))
				kind.also(tb, i)
				tb.sound(kind.name + " " + name)
				if kind.name == "scripts" {
					continue
				}
				tb.script(`document.querySelector(".page .button").click(); 0`)
				tb.until("dialog[open]")
				tb.says("dialog[open] h2", name)
				tb.sound("a dialog of " + kind.name + " " + name)
				tb.press("dialog[open] footer", "Do nothing")
				tb.closed()
			}
			tb.clean()
		})
	}
	for _, page := range []string{
		"#/letters", "#/nodes", "#/audit", runPath("resize-3"), runPath("resize-5", "history"), runPath("resize-4", "graph"),
	} {
		t.Run(page, func(t *testing.T) {
			tb := open(t, b, s.url+page, "td, .cards li, .row[data-row], .node")
			switch page {
			case "#/letters":
				for i, name := range names {
					tb.says(".letter", name)
					tb.says(".letter", inJSON(texts[i%len(texts)]))
				}
			case "#/nodes":
				tb.says("td", names[len(names)-2])
				tb.says("td", texts[0])
				tb.press("td", "Drain")
				tb.says("dialog[open] h2", names[len(names)-2])
			case "#/audit":
				for i, name := range names {
					tb.says("td", "queue "+name)
					tb.says("td", texts[i%len(texts)])
				}
			}
			tb.picture("hostile-" + strings.Trim(strings.ReplaceAll(page, "/", "-"), "#-"))
			tb.sound(page)
			tb.clean()
		})
	}
}

// TestHostileIdentity: who looks, and the node that works, may be called anything: the bar on top
// and the page of the nodes stay as they are.
func TestHostileIdentity(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	for _, i := range []int{5, 6} { // the longest, and markup
		t.Run(itoa(i), func(t *testing.T) {
			s := hostileSite(t, i)
			tb := open(t, b, s.url+"#/nodes", "td")
			tb.says("header", hostileIdentity(i))
			tb.sound("nodes")
			tb.picture("hostile-identity-" + itoa(i))
			tb.press("td", "Drain")
			tb.until("dialog[open]")
			tb.sound("drain")
			tb.clean()
		})
	}
}

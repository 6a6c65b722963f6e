package e2e

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
)

// labelled is a condition on the focus: an element that a selector names and whose text, without
// dots, begins with the label.
func labelled(selector, label string) string {
	return `(() => { const e = document.activeElement; return e !== null && e.matches(` + quote(selector) + `) &&
		[e.textContent, e.labels?.[0]?.textContent ?? "", e.ariaLabel ?? ""].some(
			(t) => t.replace("…", "").trim().startsWith(` + quote(label) + `)); })()`
}

// reach goes on by the tab key until the focus is where it is to be, and looks whether it can be
// seen there.
func (tb *tab) reach(selector, label string) {
	tb.t.Helper()
	for range 120 {
		if is[bool](tb, labelled(selector, label)) {
			tb.seen(label)
			return
		}
		tb.keys(kb.Tab)
	}
	tb.t.Fatalf("no way to %s %q by the tab key:\n%s", selector, label, tb.text())
}

// seen fails the test if the focus has no ring, or something covers what has it.
func (tb *tab) seen(what string) {
	tb.t.Helper()
	if fault := is[string](tb, `(() => {
		const e = document.activeElement, style = getComputedStyle(e), r = e.getBoundingClientRect();
		if (!e.matches(":focus-visible") || style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 1) {
			return "it has no ring";
		}
		const over = document.elementFromPoint(r.left + Math.min(r.width, innerWidth) / 2, r.top + r.height / 2);
		return over && (e.contains(over) || e.labels?.[0]?.contains(over)) ? "" :
			"it is covered, or outside of the window: " + (over?.outerHTML.slice(0, 100) ?? "nothing is there");
	})()`); fault != "" {
		tb.t.Errorf("the focus on %q: %s", what, fault)
	}
}

// answer is in a dialog that has just opened: it fills the fields in, by their labels, and presses
// a button of it.
func (tb *tab) answer(button string, fields ...string) {
	tb.t.Helper()
	tb.untilTrue(`document.activeElement.matches("dialog[open] form input, dialog[open] form textarea")`) // the first one
	for i := 0; i < len(fields); i += 2 {
		tb.reach("dialog[open] input, dialog[open] textarea", fields[i])
		tb.keys(fields[i+1])
	}
	tb.reach("dialog[open] footer .button", button)
	tb.keys(kb.Enter)
	tb.closed()
}

// leave opens the dialog of a button, and leaves it by Escape.
func (tb *tab) leave(selector, label string) {
	tb.t.Helper()
	tb.reach(selector, label)
	tb.keys(kb.Enter)
	tb.untilTrue(`document.querySelector("dialog[open]")?.contains(document.activeElement) ?? false`)
	tb.keys(kb.Escape)
	tb.back(selector, label)
}

// back waits until a dialog has been left by Escape or one of its buttons, and the focus is where
// it was.
func (tb *tab) back(selector, label string) {
	tb.t.Helper()
	tb.closed()
	tb.untilTrue(labelled(selector, label))
	tb.seen(label)
}

// reachable fails the test for each element that takes clicks and that no key reaches. In a list
// one row can have the focus, and arrows move it.
func (tb *tab) reachable() {
	tb.t.Helper()
	for _, html := range is[[]string](tb, `(() => {
		const taking = [...seen.clicked].filter((e) => e instanceof Element && e.isConnected);
		if (!taking.length) return ["expected an element that takes clicks, found none"];
		return taking.filter((e) => e.tabIndex < 0 && !e.disabled &&
			!e.closest("[role=grid], [role=treegrid]")?.querySelector("[tabindex='0']")).map((e) => e.outerHTML.slice(0, 200));
	})()`) {
		tb.t.Errorf("no key reaches it: %s", html)
	}
}

// opensByKeys goes from a list of runs to its first one, into a dialog and back, without a pointer. TestKeysAlone and
// TestKeysOfPages do more.
func (tb *tab) opensByKeys() {
	tb.t.Helper()
	tb.reach(`.runs [data-row="0"]`, "")
	tb.keys(kb.Enter)
	tb.until(".stopped .message")
	tb.leave(".title-line .button", "Retry")
}

// TestKeysOfPages acts on queues, schedules, topics, letters and nodes, and reads further pages of
// the audit, without a pointer: all is reached by the tab key, the focus can be seen, and returns
// to what has opened a dialog, or stays close to it.
func TestKeysOfPages(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	s := newSite(t, admin)
	s.fill(t)
	ctx, e := t.Context(), s.engine
	queue := func() *stet.QueueInfo { return must[*stet.QueueInfo](t)(e.Queues().Info(ctx, "mail")) }
	schedule := func() *stet.ScheduleInfo { return must[*stet.ScheduleInfo](t)(e.Schedules().Info(ctx, "nightly")) }
	for _, row := range []struct {
		name, page, until string
		keys              func(*testing.T, *tab)
	}{
		{"queues", "#/queues", "td a", func(t *testing.T, tb *tab) {
			tb.leave("td .button", "Resume")
			tb.keys(kb.Enter)
			tb.answer("Resume", "Reason", "by keys")
			tb.back("td .button", "Pause") // it is the same button
			eventually(t, "resumed", func() bool { return !queue().Paused })
			tb.keys(kb.Enter)
			tb.answer("Do nothing")
			tb.back("td .button", "Pause")
		}},
		{"queue", "#/queues", "td a", func(t *testing.T, tb *tab) {
			tb.reach("td a", "mail")
			tb.keys(kb.Enter)
			tb.until(".facts")
			tb.reach(".button", "Limits")
			tb.keys(kb.Enter)
			tb.answer("Change", "At once", "7", "Reason", "by keys")
			tb.back(".button", "Limits")
			eventually(t, "the limit", func() bool { return queue().Settings.Concurrency == 7 })
		}},
		{"schedules", "#/schedules", "td a", func(t *testing.T, tb *tab) {
			tb.reach("td a", "nightly")
			tb.keys(kb.Enter)
			tb.until(".month")
			tb.reach(".button", "Pause")
			tb.keys(kb.Enter)
			tb.answer("Pause", "Reason", "by keys")
			tb.back(".button", "Resume")
			eventually(t, "paused", func() bool { return schedule().Schedule.Paused })
			tb.reach(".button", "Start now")
			n := schedule().Started
			tb.keys(kb.Enter)
			tb.answer("Start now", "Reason", "by keys")
			tb.back(".button", "Start now")
			eventually(t, "started", func() bool { return schedule().Started == n+1 })
		}},
		{"topics", "#/topics", "td a", func(t *testing.T, tb *tab) {
			tb.reach("td a", "jobs")
			tb.keys(kb.Enter)
			tb.until(".cards > li")
			tb.reach(".button", "Publish")
			tb.keys(kb.Enter)
			tb.answer("Publish", "Value", `"by keys"`)
			tb.back(".button", "Publish")
			tb.untilTrue(`document.querySelectorAll(".cards > li").length === 4`)
			tb.reach(".cards summary", "")
			tb.keys(kb.Enter)
			tb.reach(".cards .button", "Remove")
			tb.keys(kb.Enter)
			tb.answer("Remove", "Reason", "by keys")
			tb.untilTrue(`document.querySelectorAll(".cards > li").length === 3`)
			tb.untilTrue(`document.activeElement.matches(".cards")`) // what had it is gone
		}},
		{"letters", "#/letters", ".letter", func(t *testing.T, tb *tab) {
			tb.reach(".page > .buttons .button", "Replay selected")
			tb.keys(kb.Enter) // nothing is selected
			tb.reach(".letter input", "Select")
			tb.keys(" ")
			tb.untilTrue(`document.querySelector(".letter input").checked`)
			tb.script(`document.getElementById("main").focus(); 0`) // to the top, as the link to skip to it does
			tb.reach(".page > .buttons .button", "Replay selected (1)")
			tb.keys(kb.Enter)
			tb.answer("Replay", "To another run", "order-4712", "Reason", "by keys")
			tb.untilTrue(`document.querySelectorAll(".letter").length === 0`)
			tb.untilTrue(`document.activeElement !== document.body`)
			items := must[[]store.Item](t)(e.Store().Inbox(ctx, must[*stet.RunInfo](t)(e.Runs().Info(ctx, "order-4712")).Number))
			if len(items) != 2 {
				t.Errorf("expected two messages, found %+v", items)
			}
		}},
		{"nodes", "#/nodes", "td .button", func(t *testing.T, tb *tab) {
			tb.leave("td .button", "Drain")
			if n := must[[]store.Node](t)(e.Nodes().List(ctx)); len(n) != 1 || n[0].Draining {
				t.Errorf("the nodes: %+v", n)
			}
		}},
		{"audit", "#/audit", "td", func(t *testing.T, tb *tab) {
			for i := range 210 {
				act := stet.Act{By: "bob", Why: fmt.Sprint("once more ", i)}
				if err := e.Queues().Set(ctx, "mail", stet.QueueSettings{Concurrency: i + 1}, act); err != nil {
					t.Fatal(err)
				}
			}
			tb.script(`location.reload(); 0`)
			tb.untilTrue(`document.querySelectorAll("tbody tr").length === 200`)
			tb.reach(".foot .button", "Show older")
			tb.keys(kb.Enter)
			tb.untilTrue(`document.querySelectorAll("tbody tr").length > 210`)
			tb.untilTrue(`document.activeElement.matches(".foot")`) // there is nothing older
		}},
		{"bulk", "#/runs?query=status%3Dsuspended", `.runs [data-row="0"]`, func(t *testing.T, tb *tab) {
			tb.reach(".acts .menu > .button", "All that match")
			tb.keys(kb.Enter)
			tb.untilTrue(`document.activeElement.textContent.startsWith("Retry")`)
			tb.keys(kb.ArrowDown, kb.ArrowDown, kb.Enter)
			tb.untilTrue(`document.querySelector("dialog[open] h2")?.textContent === "Pause all that match"`)
			tb.keys(kb.Escape)
			tb.back(".acts .menu > .button", "All that match")
		}},
		{"filter", "#/runs", `.runs [data-row="0"]`, func(t *testing.T, tb *tab) {
			tb.reach(".filter .button", "Terms")
			tb.keys(kb.Enter)
			tb.reach(".terms .chip", "status=failed")
			tb.keys(kb.Enter)
			tb.reach(".filter .button", "Apply")
			tb.keys(kb.Enter)
			tb.untilTrue(`decodeURIComponent(location.hash).includes("status=failed,stalled")`)
			tb.untilTrue(`document.activeElement !== document.body`)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			tb := open(t, b, s.url+row.page, row.until)
			row.keys(t, tb)
			tb.clean()
		})
	}
}

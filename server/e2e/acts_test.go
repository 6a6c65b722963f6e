package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
)

// press clicks the first control inside of scope whose text, without dots, is the label.
func (tb *tab) press(scope, label string) {
	tb.t.Helper()
	find := `[...document.querySelectorAll(` + quote(scope+" button, "+scope+" [role=menuitem], "+scope+" summary") +
		`)].find((b) => b.offsetParent !== null && !b.disabled &&
			[b.textContent, b.firstElementChild?.textContent].some(
				(t) => t?.replace("…", "").trim() === ` + quote(label) + `))`
	tb.untilTrue(find + ` !== undefined`)
	tb.script(find + `.click(); 0`)
}

// choose opens the menu More, or another one, and presses one of its choices.
func (tb *tab) choose(scope, menu, label string) {
	tb.t.Helper()
	tb.press(scope, menu)
	tb.press(scope, label)
}

// write puts a text into the field of the open dialog, or of the page, whose label begins so.
func (tb *tab) write(label, text string) {
	tb.t.Helper()
	find := `(() => {
		const l = [...document.querySelectorAll("dialog[open] label, .sign-in label")]
			.find((l) => l.textContent.startsWith(` + quote(label) + `));
		return l ? l.querySelector("input") ?? l.control : null;
	})()`
	tb.untilTrue(find + ` !== null`)
	tb.script(`(() => { const f = ` + find + `; f.focus(); f.value = ` + quote(text) +
		`; f.dispatchEvent(new Event("input", { bubbles: true })); })(); 0`)
}

// closed waits until no dialog is open.
func (tb *tab) closed() {
	tb.t.Helper()
	tb.untilTrue(`document.querySelector("dialog[open]") === null`)
}

// confirm writes what the dialog asks for and presses its button.
func (tb *tab) confirm(button string, fields ...string) {
	tb.t.Helper()
	tb.until("dialog[open]")
	for i := 0; i < len(fields); i += 2 {
		tb.write(fields[i], fields[i+1])
	}
	tb.press("dialog[open] footer", button)
}

// audited fails the test if the last request about a run is not alice's, with the reason.
func (s *site) audited(t *testing.T, id, reason string) {
	t.Helper()
	found := must[[]store.Audit](t)(s.engine.Runs().Audit(t.Context(), id))
	text, err := json.Marshal(found)
	if err != nil || !strings.Contains(string(text), "alice") || !strings.Contains(string(text), reason) {
		t.Errorf("the audit of %s: expected alice and %q, found %s", id, reason, text)
	}
}

// eventually waits until a condition of the store holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(wait); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("never came true: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestRunDialogs clicks through each dialog of a run and looks at what became of the run.
func TestRunDialogs(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	s := newSite(t, admin)
	s.fill(t)
	for _, id := range []string{"contract-1", "contract-2"} {
		must[*stet.Run[string]](t)(contract.Start(t.Context(), s.engine, 0, stet.ID(id)))
		s.until(t, id, store.Suspended)
	}
	mark := func(id string, m store.Marks) bool {
		return must[*stet.RunInfo](t)(s.engine.Runs().Info(t.Context(), id)).Marks&m != 0
	}
	const title = ".title-line"
	rows := []struct {
		name, run, view string
		click           func(*tab)
		reason          string
		effect          func(*testing.T)
	}{
		{"pause", "order-4712", "", func(tb *tab) {
			tb.press(title, "Pause")
			tb.confirm("Pause", "Reason", "night work")
		}, "night work", func(t *testing.T) {
			eventually(t, "paused", func() bool { return mark("order-4712", store.Paused) })
		}},
		{"resume", "order-4712", "", func(tb *tab) {
			tb.press(title, "Resume")
			tb.confirm("Resume", "Reason", "morning again")
		}, "morning again", func(t *testing.T) {
			eventually(t, "resumed", func() bool { return !mark("order-4712", store.Paused) })
		}},
		{"send", "order-4712", "", func(tb *tab) {
			tb.choose(title, "More", "Send a message")
			tb.confirm("Send", "Name", "note", "Value", `{"a":1}`)
		}, "", func(t *testing.T) {
			items := must[[]store.Item](t)(s.engine.Store().Inbox(t.Context(),
				must[*stet.RunInfo](t)(s.engine.Runs().Info(t.Context(), "order-4712")).Number))
			if len(items) != 2 {
				t.Errorf("expected two messages, found %+v", items)
			}
		}},
		{"cancel", "order-4712", "", func(tb *tab) {
			tb.press(title, "Cancel")
			tb.confirm("Cancel", "Reason", "a wrong address")
		}, "a wrong address", func(t *testing.T) { s.until(t, "order-4712", store.Cancelled) }},
		{"retry", "order-4711", "", func(tb *tab) {
			tb.press(title, "Retry")
			tb.confirm("Retry", "Reason", "the bank is back")
		}, "the bank is back", func(t *testing.T) { s.until(t, "order-4711", store.Failed) }},
		{"fork", "order-4709", "timeline?at=charge", func(tb *tab) {
			tb.press(".operation", "Fork")
			tb.confirm("Fork", "ID", "the-fork", "Reason", "once more")
			tb.untilTrue(`location.hash.startsWith("#/runs/the-fork")`)
		}, "", func(t *testing.T) { s.until(t, "the-fork", store.Succeeded) }},
		{"rewind", "order-4709", "timeline?at=ship", func(tb *tab) {
			tb.press(".operation", "Rewind")
			tb.confirm("Rewind", "Reason", "the parcel came back", "Type", "order-4709")
		}, "the parcel came back", func(t *testing.T) { s.until(t, "order-4709", store.Succeeded) }},
		{"start one like it", "order-4709", "", func(tb *tab) {
			tb.choose(title, "More", "Start one like it")
			tb.confirm("Start", "ID", "the-copy")
			tb.untilTrue(`location.hash.startsWith("#/runs/the-copy")`)
		}, "", func(t *testing.T) { s.until(t, "the-copy", store.Succeeded) }},
		{"delete", "the-copy", "", func(tb *tab) {
			tb.choose(title, "More", "Delete")
			tb.untilTrue(`document.querySelector("dialog[open]").textContent.includes("Deletes 1 run: the-copy")`)
			tb.confirm("Delete", "Reason", "a try", "Type", "the-copy")
			tb.untilTrue(`location.hash === "#/runs"`)
		}, "", func(t *testing.T) {
			found := must[[]stet.Deletion](t)(s.engine.Runs().Deletions(t.Context()))
			if len(found) != 1 || found[0].RunID != "the-copy" || found[0].By != "alice" || found[0].Why != "a try" {
				t.Errorf("deletions: %+v", found)
			}
		}},
		{"resolve", "contract-1", "", func(tb *tab) {
			tb.press(".waits", "Assign")
			tb.confirm("Resolve", "Value", `"Ada"`)
		}, "", func(t *testing.T) { s.until(t, "contract-1", store.Succeeded) }},
		{"reject", "contract-2", "", func(tb *tab) {
			tb.press(".waits", "Assign")
			tb.until("dialog[open]")
			tb.script(`[...document.querySelectorAll("dialog[open] input[type=radio]")][1].click(); 0`)
			tb.confirm("Reject", "Text", "not ours")
		}, "", func(t *testing.T) { s.until(t, "contract-2", store.Failed) }},
		{"edit", "order-4711", "timeline?at=charge", func(tb *tab) {
			tb.press(".operation", "Edit")
			tb.confirm("Edit", "Result", `{"id":"by hand","cents":1,"lines":[]}`, "Reason", "paid in cash", "Type", "order-4711")
		}, "paid in cash", func(t *testing.T) { s.until(t, "order-4711", store.Succeeded) }},
		{"terminate", "import-7", "", func(tb *tab) {
			tb.choose(title, "More", "Terminate")
			tb.confirm("Terminate", "Reason", "it hangs", "Type", "import-7")
		}, "it hangs", func(t *testing.T) { s.until(t, "import-7", store.Cancelled) }},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			tb := open(t, b, s.url+runPath(row.run, row.view), title+" button")
			row.click(tb)
			tb.closed()
			row.effect(t)
			if row.reason != "" {
				s.audited(t, row.run, row.reason)
			}
			tb.clean()
		})
	}
}

// TestBulkDialog shows which runs match, acts on them, and tells what became of them.
func TestBulkDialog(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	s := newSite(t, admin)
	s.fill(t)
	tb := open(t, b, s.url+"#/runs?query=workflow%3Dcheckout%20status%3Dsuspended", `.runs [data-row="0"]`)
	tb.choose(".acts", "All that match", "Cancel")
	tb.confirm("Show which", "Reason", "the shop is closed")
	tb.untilTrue(`document.querySelector("dialog[open] .results")?.children.length === 2`)
	tb.looks("bulk")
	s.until(t, "order-4712", store.Suspended) // nothing has happened
	tb.confirm("Cancel 2", "Type", "2")
	tb.untilTrue(`document.querySelector("dialog[open]").textContent.includes("2 runs done")`)
	s.until(t, "order-4712", store.Cancelled)
	s.audited(t, "order-4712", "the shop is closed")
	tb.press("dialog[open] footer", "Close")
	tb.closed()
	tb.clean()
}

// TestOtherDialogs clicks through the dialogs of queues, schedules and letters, one after the
// other: each begins where the one before has left the store.
func TestOtherDialogs(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	s := newSite(t, admin)
	s.fill(t)
	queue := func() *stet.QueueInfo { return must[*stet.QueueInfo](t)(s.engine.Queues().Info(t.Context(), "mail")) }
	paused := func(name string) bool {
		return must[*stet.ScheduleInfo](t)(s.engine.Schedules().Info(t.Context(), name)).Schedule.Paused
	}
	runs := func() int { // of the workflow mail
		found, _, err := s.engine.Runs().List(t.Context(), store.Filter{Workflows: []string{"mail"}})
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	letters := func() int {
		found, _, err := s.engine.DeadLetters().List(t.Context(), store.DeadFilter{})
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	must[*stet.Run[string]](t)(contract.Start(t.Context(), s.engine, 0, stet.ID("contract-1")))
	if err := stet.Message[int]("void").Send(t.Context(), s.engine, "contract-1", 1); err != nil {
		t.Fatal(err)
	}
	must[bool](t)(s.engine.Runs().Terminate(t.Context(), "contract-1", stet.Act{}))
	n := 0
	for _, row := range []struct {
		name, page string
		click      func(*tab)
		effect     func() bool
	}{
		{"queue resume", "#/queues/mail", func(tb *tab) {
			tb.press(".page", "Resume")
			tb.confirm("Resume", "Reason", "moved")
		}, func() bool { return !queue().Paused }},
		{"queue pause", "#/queues", func(tb *tab) {
			tb.press("td", "Pause")
			tb.confirm("Pause", "Reason", "again")
			tb.untilTrue(`document.querySelector("td").textContent.includes("again")`) // who passes by sees why
		}, func() bool { q := queue(); return q.Paused && q.PausedBy.By == "alice" && q.PausedBy.Why == "again" }},
		{"queue limits", "#/queues/mail", func(tb *tab) {
			tb.press(".page", "Limits")
			tb.confirm("Change", "At once", "7", "Reason", "more room")
		}, func() bool { return queue().Settings.Concurrency == 7 }},
		{"queue resume again", "#/queues/mail", func(tb *tab) {
			tb.press(".page", "Resume")
			tb.confirm("Resume")
		}, func() bool { return !queue().Paused }},
		{"schedule pause", "#/schedules/nightly", func(tb *tab) {
			tb.press(".page", "Pause")
			tb.confirm("Pause", "Reason", "holidays")
		}, func() bool { return paused("nightly") }},
		{"schedule resume", "#/schedules/nightly", func(tb *tab) {
			tb.press(".page", "Resume")
			tb.confirm("Resume")
		}, func() bool { return !paused("nightly") }},
		{"schedule trigger", "#/schedules/nightly", func(tb *tab) {
			n = runs()
			tb.press(".page", "Start now")
			tb.confirm("Start now", "Reason", "now")
		}, func() bool { return runs() == n+1 }},
		{"schedule backfill", "#/schedules/nightly", func(tb *tab) {
			n = runs()
			tb.press(".page", "Backfill")
			tb.untilTrue(`document.querySelector("dialog[open] .button.primary")?.disabled ?? false`) // without times
			tb.confirm("Backfill", "From", "2026-01-01T00:00", "To", "2026-01-03T00:00")
		}, func() bool { return runs() == n+2 }},
		{"schedule delete", "#/schedules/paused%20one", func(tb *tab) {
			tb.press(".page", "Delete")
			tb.confirm("Delete", "Reason", "not wanted")
		}, func() bool { return len(must[[]*stet.ScheduleInfo](t)(s.engine.Schedules().List(t.Context()))) == 1 }},
		{"topic publish", "#/topics/jobs", func(tb *tab) {
			tb.press(".page", "Publish")
			tb.confirm("Publish", "Value", `"by hand"`, "Reason", "a test")
			tb.untilTrue(`document.querySelectorAll(".cards > li").length === 4`)
		}, func() bool {
			events := must[[]stet.EventInfo](t)(s.engine.Topics().Events(t.Context(), "jobs"))
			topic := must[*stet.TopicInfo](t)(s.engine.Topics().Info(t.Context(), "jobs"))
			last := events[len(events)-1]
			return len(events) == 4 && last.Headers["stet.by"] == "alice" && last.Headers["reason"] == "a test" &&
				topic.Expiry == time.Hour && topic.Mode == stet.Consumed // what it had
		}},
		{"topic removal", "#/topics/jobs", func(tb *tab) {
			tb.until(".cards li")
			tb.script(`document.querySelector(".cards summary").click(); 0`)
			tb.press(".cards", "Remove")
			tb.confirm("Remove", "Reason", "each run fails by it")
			tb.untilTrue(`document.querySelectorAll(".cards > li").length === 3`)
		}, func() bool {
			found := must[[]stet.AuditEntry](t)(stet.AuditOf(s.engine).List(t.Context(), stet.AuditFilter{About: "event "}))
			return len(found) == 1 && found[0].By == "alice" && found[0].Why == "each run fails by it" &&
				len(must[[]stet.EventInfo](t)(s.engine.Topics().Events(t.Context(), "jobs"))) == 3
		}},
		{"letter replay", "#/letters", func(tb *tab) {
			tb.press(".letter", "Replay")
			tb.confirm("Replay", "To another run", "order-4712")
		}, func() bool {
			items := must[[]store.Item](t)(s.engine.Store().Inbox(t.Context(),
				must[*stet.RunInfo](t)(s.engine.Runs().Info(t.Context(), "order-4712")).Number))
			return len(items) == 2
		}},
		{"letter removal", "#/letters", func(tb *tab) {
			n = letters()
			tb.press(".letter", "Remove")
			tb.confirm("Remove", "Reason", "it is void")
		}, func() bool { return letters() == n-1 }},
		{"start", "#/runs", func(tb *tab) {
			tb.press(".views", "Start a run")
			tb.confirm("Start", "Workflow", "mail", "Input", `"bob"`, "ID", "mail-by-hand")
			tb.untilTrue(`location.hash.startsWith("#/runs/mail-by-hand")`)
		}, func() bool {
			info, err := s.engine.Runs().Info(t.Context(), "mail-by-hand")
			return err == nil && info.Workflow == "mail"
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			tb := open(t, b, s.url+row.page, ".page button, .views button")
			row.click(tb)
			tb.closed()
			eventually(t, row.name, row.effect)
			tb.clean()
		})
	}
}

// TestRefusedDialog: what is refused stays in the dialog, with the reason. A store in memory has
// one process, which nobody can relieve.
func TestRefusedDialog(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	s := newSite(t, admin)
	tb := open(t, b, s.url+"#/nodes", "td button")
	tb.press("td", "Drain")
	tb.confirm("Drain", "Reason", "an update")
	tb.untilTrue(`document.querySelector("dialog[open]").textContent.includes("one process at a time works on this")`)
	tb.press("dialog[open] footer", "Do nothing")
	tb.closed()
}

// TestLogin: without a credential there is a page that asks for a token; a wrong one is said
// to be wrong, a right one lets in, until it is signed out.
func TestLogin(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	s := newSiteWith(t, server.Func(func(r *http.Request) (*access.Identity, error) {
		switch r.Header.Get("Authorization") {
		case "":
			return nil, nil
		case "Bearer let-me-in":
			return &access.Identity{Name: "olga", Role: access.Operator}, nil
		}
		return nil, access.ErrDenied
	}))
	tb := open(t, b, s.url, ".sign-in form")
	tb.looks("login")
	tb.write("Token", "wrong")
	tb.press(".sign-in", "Sign in")
	tb.untilTrue(`document.querySelector(".sign-in").textContent.includes("not valid")`)
	tb.write("Token", "let-me-in")
	tb.press(".sign-in", "Sign in")
	tb.untilTrue(`document.querySelector("header")?.textContent.includes("olga") ?? false`)
	text := is[string](tb, `[document.cookie, location, ...[localStorage, sessionStorage].map((s) =>
		JSON.stringify(s))].join()`)
	if strings.Contains(text, "let-me-in") {
		t.Errorf("a script of the page can read the token: %s", text)
	}
	// A page that is loaded again is still signed in.
	tb.script(`location.reload(); 0`)
	tb.untilTrue(`document.querySelector("header")?.textContent.includes("olga") ?? false`)
	tb.press("header", "Sign out")
	tb.until(".sign-in form")
	tb.script(`location.reload(); 0`)
	tb.until(".sign-in form")
}

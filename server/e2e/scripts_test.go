package e2e

import (
	"context"
	"encoding/json"
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

// follow presses a link with a text.
func (tb *tab) follow(scope, label string) {
	tb.t.Helper()
	find := `[...document.querySelectorAll(` + quote(scope+" a") +
		`)].find((a) => a.textContent.trim() === ` + quote(label) + `)`
	tb.untilTrue(find + ` !== undefined`)
	tb.script(find + `.click(); 0`)
}

const approvalScript = `// What a person has written.
async function workflow(order) {
  const paid = await Task.run("charge", order);
  const r = await Task.race({
    ok: Signal.next("approved"),
    late: Task.delay(72 * 3600),
  });
  return [paid, r.key, "<b>no markup</b>"];
}
`

// TestScriptPages: the page of a run shows the source of its version with the lines at which it
// stands; that of a script its versions and their sources.
func TestScriptPages(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	lib, err := script.Open(script.Config{Tasks: []script.Task{
		script.Func("charge", func(_ context.Context, o json.RawMessage) (string, error) { return "paid", nil }),
	}})
	if err != nil {
		t.Fatal(err)
	}
	who := admin
	s := serve(t, stet.Config{Library: lib}, server.Options{Scripts: lib, Access: []access.Authenticator{server.Func(
		func(*http.Request) (*access.Identity, error) { return who, nil })}})
	ctx := t.Context()
	deploy := func(code, why string) {
		t.Helper()
		source := stet.ScriptCode{Code: code, Files: []stet.ScriptFile{{Name: "approval.js", Text: code}}}
		must[int](t)(script.Deploy(ctx, s.engine, "approval", source, stet.Act{By: "alice", Why: why}))
	}
	deploy(approvalScript, "the first one")
	order := stet.Ref[json.RawMessage, json.RawMessage]("approval")
	must[*stet.Run[json.RawMessage]](t)(order.Start(ctx, s.engine, json.RawMessage(`{"id":"o-1"}`), stet.ID("o-1")))
	s.until(t, "o-1", store.Suspended)
	deploy("// longer\n"+approvalScript, "we wait for longer")

	tb := open(t, b, s.url+runPath("o-1"), `.tabs a[href$="/script"]`)
	tb.follow(".tabs", "Script")
	tb.until(`.source li.is-here`)
	lines := is[[]string](tb, `[...document.querySelectorAll(".source li.is-here")].map(
		(l) => l.innerText.replace(/\s+/g, " ").trim())`)
	if len(lines) != 2 || lines[0] != `ok: Signal.next("approved"), approved/receive` ||
		lines[1] != "late: Task.delay(72 * 3600), delay/sleep" {
		t.Errorf("it stands at %q", lines)
	}
	got := is[[]int](tb, `[...document.querySelectorAll(".source li")].flatMap((l, i) => l.ariaCurrent ? [i + 1] : [])`)
	if len(got) != 2 || got[0] != 5 || got[1] != 6 {
		t.Errorf("the lines are %d", got)
	}
	if text := tb.text(); !strings.Contains(text, "Version 1 of approval; the current one is 2. It stands at 2 lines.") ||
		!strings.Contains(text, `"<b>no markup</b>"`) {
		t.Errorf("the page says %s", text)
	}
	tb.looks("run-script")
	if err := stet.Message[bool]("approved").Send(ctx, s.engine, "o-1", true); err != nil {
		t.Fatal(err)
	}
	// By itself:
	tb.untilTrue(`document.body.innerText.includes("It has ended.") && !document.querySelector(".is-here")`)
	tb.clean()

	tb = open(t, b, s.url+"#/scripts", `td a`)
	tb.looks("scripts")
	tb.follow("td", "approval")
	tb.until(`.source li`)
	if text := tb.text(); !strings.Contains(text, "we wait for longer") || !strings.Contains(text, "the first one") ||
		!strings.Contains(text, "Version 2") || !strings.Contains(text, "// longer") {
		t.Errorf("the versions: %s", text)
	}
	tb.follow("td", "1")
	tb.untilTrue(`document.querySelector("h2").innerText === "Version 1" &&
		!document.querySelector(".source").innerText.includes("longer")`)
	tb.looks("script")
	tb.clean()

	who = &access.Identity{Name: "vera", Role: access.Viewer}
	tb = open(t, b, s.url+"#/scripts/approval", `td a`)
	if text := tb.text(); !strings.Contains(text, "Your role does not show sources") ||
		strings.Contains(text, "Signal.next") {
		t.Errorf("a viewer sees %s", text)
	}
	tb.clean()
}

// TestTasksOfAQueue: the page of a queue shows which worker holds which task, which are offered,
// and whose lease has expired.
func TestTasksOfAQueue(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	resize := stet.Define("resize", func(ctx stet.Context, n int) (int, error) {
		return stet.Task[int, int]("resize").Run(ctx, n, stet.Permit{Queue: "media"}, stet.Undo(
			func(context.Context, int) error { return nil }))
	})
	s := serve(t, stet.Config{Workflows: []stet.Definition{resize}}, server.Options{Access: []access.Authenticator{
		server.Func(func(*http.Request) (*access.Identity, error) { return admin, nil })}})
	ctx := t.Context()
	if err := s.engine.Queues().Create(ctx, "media", stet.QueueSettings{}); err != nil {
		t.Fatal(err)
	}
	lease := func(worker string, length time.Duration) stet.LeasedTask {
		t.Helper()
		got := must[*stet.Leased](t)(s.engine.Tasks().Lease(ctx, stet.LeaseRequest{
			Worker: worker, Names: []string{"resize"}, Wait: 20 * time.Second, For: length}))
		if len(got.Tasks) != 1 {
			t.Fatalf("leased %+v", got)
		}
		return got.Tasks[0]
	}
	start := func(id string) {
		t.Helper()
		must[*stet.Run[int]](t)(resize.Start(ctx, s.engine, 1, stet.ID(id)))
	}
	start("r-1")
	lease("gone-worker", time.Second) // and is heard of no more
	eventually(t, "expired", func() bool {
		list := must[[]stet.TaskInfo](t)(s.engine.Tasks().List(ctx, "media", 0))
		return len(list) == 1 && list[0].State == stet.TaskExpired
	})
	tb := open(t, b, s.url+"#/queues/media", `[aria-label="Tasks"] td`)
	rows := func(want ...string) {
		t.Helper()
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		tb.untilTrue(`(() => { const rows = [...document.querySelectorAll('[aria-label="Tasks"] tbody tr')].map((r) =>
			[...r.cells].slice(0, 4).map((c) => c.innerText.trim()).join(" ")); return JSON.stringify(rows) === ` +
			"JSON.stringify(" + string(text) + `); })()`)
	}
	rows("resize expired gone-worker r-1")
	tb.looks("task-expired")
	task := lease("gpu-1", time.Minute)
	start("r-2")
	eventually(t, "offered", func() bool {
		return len(must[[]stet.TaskInfo](t)(s.engine.Tasks().List(ctx, "media", 0))) == 2
	})
	tb = open(t, b, s.url+"#/queues/media", `[aria-label="Tasks"] td`)
	rows("resize leased gpu-1 r-1", "resize offered  r-2")
	if _, err := s.engine.Runs().Cancel(ctx, "r-1", stet.Act{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "cancelling", func() bool {
		list := must[[]stet.TaskInfo](t)(s.engine.Tasks().List(ctx, "media", 0))
		return len(list) == 2 && list[0].Cancelling
	})
	tb = open(t, b, s.url+"#/queues/media", `[aria-label="Tasks"] td`)
	rows("resize leasedcancelling gpu-1 r-1", "resize offered  r-2")
	tb.looks("tasks")
	if err := s.engine.Tasks().Complete(ctx, task.Lease, json.RawMessage("1")); err != nil {
		t.Fatal(err)
	}
	rows("resize offered  r-2") // by itself
	tb.clean()
}

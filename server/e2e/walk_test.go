package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestTheWalkOfANewUser walks from the README's first program to the repair of a bad deploy, as a person does who has
// never seen the dashboard: by clicks on what a page says, in a browser that has never been there.
func TestTheWalkOfANewUser(t *testing.T) {
	soak.Faults(t)
	if runtime.GOOS == "windows" {
		t.Skip("a program cannot be interrupted by another one on Windows")
	}
	folder := firstProgram(t)
	for _, c := range []struct {
		name  string
		begin func(*tab)
	}{
		{"light", func(tb *tab) { tb.scheme("light") }},
		{"dark", func(tb *tab) { tb.scheme("dark") }},
		{"phone", (*tab).phone},
	} {
		t.Run(c.name, func(t *testing.T) {
			address, s := printedAddress(t, folder), newService(t) // they end after the tab, which follows their events
			w := &walk{open(t, browser(t), "about:blank", "body"), c.name}
			w.origin, _, _ = strings.Cut(address, "/#")
			c.begin(w.tab)
			w.do(chromedp.Navigate(address))
			w.theFirstProgram()
			w.clean()
			w.origin, _, _ = strings.Cut(strings.TrimSuffix(s.url, "/"), "/ops")
			w.do(chromedp.Navigate(s.url))
			w.aFailedRun(s)
			w.anUndoneRun(s)
			w.aBadDeploy(s)
			w.aSchedule(s)
			w.aQueue(s)
			w.aTask(s)
			w.clean()
		})
	}
}

// firstProgram builds the command line and the README's first program, executes that as the README says, and returns
// the folder of both.
func firstProgram(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(readme), "```go\n// main.go")
	program, _, found := strings.Cut("// main.go"+program, "```")
	if !found {
		t.Fatal("expected the program main.go in the README, found none")
	}
	folder := t.TempDir()
	for name, text := range map[string]string{
		"main.go": program,
		"go.mod":  "module shop\n\ngo 1.26.0\n",
		"go.work": "go 1.26.0\n\nuse (\n\t.\n\t" + filepath.ToSlash(root) + "\n)\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for dir, pkg := range map[string]string{root: "./cmd/stet", folder: "."} {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(folder, "bin")+"/", pkg)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK="+filepath.Join(dir, "go.work"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", pkg, err, out)
		}
	}
	// Press Ctrl-C after "charging" and run it again: it goes on after the charge.
	if out := execute(t, folder, "charging"); strings.Contains(out, "shipping") {
		t.Errorf("it was interrupted after the charge, and printed\n%s", out)
	}
	if out := execute(t, folder, ""); strings.Contains(out, "charging") || !strings.Contains(out, "is shipped, paid by") {
		t.Errorf("the next one printed\n%s", out)
	}
	return folder
}

// execute executes the program, until it prints a line that begins so or to its end, and returns what it printed.
func execute(t *testing.T, folder, until string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(folder, "bin", "shop"))
	cmd.Dir = folder
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(&printed, lines.Text())
		if until != "" && strings.HasPrefix(lines.Text(), until) {
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); (err != nil) != (until != "") {
		t.Errorf("the program: %v", err)
	}
	return printed.String()
}

// printedAddress serves the program's store until the test ends, and returns the address that is printed.
func printedAddress(t *testing.T, folder string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(folder, "bin", "stet"), "serve", "--db", "shop.db",
		"--addr", "127.0.0.1:0")
	cmd.Dir, cmd.Stderr = folder, t.Output()
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the context of the test has ended it
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(line, "/#token=") {
		t.Fatalf("expected an address with a token, found %q, %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return strings.TrimSpace(line)
}

// walk is a person before the dashboard, in one of three settings.
type walk struct {
	*tab
	setting string
}

// reads waits until the page says each of the texts.
func (w *walk) reads(texts ...string) {
	w.t.Helper()
	for _, text := range texts {
		w.untilTrue(`document.body.innerText.replace(/\s+/g, " ").includes(` + quote(text) + `)`)
	}
}

// comes waits until the page with a title is there.
func (w *walk) comes(title string) {
	w.t.Helper()
	w.untilTrue(`document.querySelector("h1")?.textContent.trim() === ` + quote(title))
}

// click presses with the pointer what the page calls so: a button, a link, or a choice of a menu. In an open dialog
// that is one of the dialog's. It must not be covered.
func (w *walk) click(text string) {
	w.t.Helper()
	find := `(() => {
		const where = document.querySelector("dialog[open]") ?? document, text = ` + quote(text) + `;
		const all = [...where.querySelectorAll("button, a, summary, [role=menuitem]")].filter(
			(e) => e.getClientRects().length && !e.disabled);
		const says = (e) => e.innerText.trim().replace(/\s+/g, " ");
		return all.find((e) => says(e) === text || e.ariaLabel === text) ?? all.find((e) => says(e).startsWith(text));
	})()`
	w.untilTrue(`document.querySelectorAll("[aria-busy]").length === 0 && ` + find + ` !== undefined`)
	at := is[[]float64](w.tab, `(() => {
		const e = `+find+`;
		e.scrollIntoView({ block: "center", inline: "center" });
		const r = e.getClientRects()[0], x = r.left + r.width / 2, y = r.top + r.height / 2;
		const hit = document.elementFromPoint(x, y);
		return hit && (e.contains(hit) || hit.contains(e)) ? [x, y] : [];
	})()`)
	if len(at) != 2 {
		w.t.Fatalf("%q is covered by something, or outside of the window:\n%s", text, w.text())
	}
	w.do(chromedp.MouseClickXY(at[0], at[1]))
}

// fill clicks into a field of the open dialog and types a text.
func (w *walk) fill(label, text string) {
	w.t.Helper()
	field := `[...document.querySelectorAll("dialog[open] label")].find((l) => l.innerText.startsWith(` + quote(label) +
		`))?.control`
	w.untilTrue(field + ` instanceof HTMLElement`)
	w.script(field + `.focus(); 0`)
	w.do(chromedp.KeyEvent(text))
}

// first waits until the first button of a run is this one.
func (w *walk) first(label string) {
	w.t.Helper()
	w.untilTrue(`document.querySelector(".title-line > .buttons > button")?.textContent.trim() === ` + quote(label))
}

// status waits until the run of the page has a status.
func (w *walk) status(status store.Status) {
	w.t.Helper()
	w.closed()
	w.untilTrue(`document.querySelector(".title-line .badge")?.textContent.trim() === ` + quote(status.String()))
}

// looks keeps a picture of the page, and fails the test if a person could not read or use it.
func (w *walk) looks(name string) {
	w.t.Helper()
	w.untilTrue(`document.querySelectorAll("[aria-busy]").length === 0`)
	name += "-" + w.setting
	w.picture(name)
	w.accessible(name)
	width := is[int](w.tab, `innerWidth`)
	if wide := is[int](w.tab, `document.documentElement.scrollWidth`); wide > width {
		w.t.Errorf("%s: the page has %d px, the screen %d", name, wide, width)
	}
	const bars = `Math.round(document.querySelector(".bars")?.getBoundingClientRect().width ?? 390)`
	if room := is[int](w.tab, bars); room < 120 {
		w.t.Errorf("%s: the bars of the timeline have %d px", name, room)
	}
	for _, what := range is[[]string](w.tab, `(() => {
		const box = (e) => e.getBoundingClientRect();
		const shown = (s) => [...document.querySelectorAll(s)].filter((e) => box(e).width);
		const ticks = shown(".tick"), cut = (e, of) => box(e).right > box(of).right + 1;
		return [
			...ticks.filter((e, i) => i + 1 < ticks.length && box(e).right > box(ticks[i + 1]).left || cut(e, e.parentElement)),
			...shown(".bars .bar").filter((e) => cut(e, e.parentElement)),
			...shown(".runs .why").filter((e) => box(e).right > innerWidth),
		].map((e) => e.className + " " + e.textContent);
	})()`) {
		w.t.Errorf("%s: something is over it, or it is cut off: %s", name, what)
	}
}

func (w *walk) theFirstProgram() {
	w.reads("order-42", "checkout", "succeeded")
	if at := is[string](w.tab, `location.hash`); at != "#/runs" {
		w.t.Errorf("the printed address leads to %s", at)
	}
	w.looks("a1-printed-address")
	w.click("order-42")
	w.comes("order-42")
	w.reads("charge", "ship", "cooling-off period")
	w.looks("first-program")
	w.click("Input and result")
	w.reads("order-42 is shipped, paid by charge of order-42")
	w.looks("first-program-result")
}

func (w *walk) aFailedRun(s *service) {
	w.click("Needs attention")
	w.reads("card declined")
	w.looks("needs-attention")
	w.click("order-1")
	w.comes("order-1")
	w.reads("Failed at charge after 3 attempts", "card declined: the issuer does not answer (code 91)")
	w.first("Retry…")
	w.looks("failed")
	s.declined.Store(false)
	w.click("Retry…")
	w.reads("The run goes on from the step that has failed")
	w.fill("Reason", "the bank is back")
	w.looks("retry")
	w.click("Retry")
	w.status(store.Succeeded)
	w.untilTrue(`document.querySelector(".windowed .is-failed, .windowed [title*=failed]") === null`)
	w.reads("ended, before it went on")
	w.looks("a2-retried")
}

func (w *walk) anUndoneRun(s *service) {
	w.click("Runs")
	w.click("shipment-1")
	w.comes("shipment-1")
	w.reads("Failed at ship", "no ship")
	w.first("Rewind to before reserve…")
	w.looks("a4-first-button")
	s.noShip.Store(false)
	w.click("Rewind to before reserve…")
	w.fill("Reason", "the ship is back")
	w.fill("Type", "shipment-1")
	w.looks("a4-rewind")
	w.click("Rewind")
	w.status(store.Succeeded)
	w.looks("a4-repaired")
}

func (w *walk) aBadDeploy(s *service) {
	w.click("Runs")
	w.click("approval-1")
	w.comes("approval-1")
	w.reads("waits for receive approved", "Callers and operators may send it")
	w.looks("waits-for-a-person")
	s.deploy("2", "reserve stock") // it was called reserve
	w.click("Send…")
	w.fill("Value", `true`)
	w.click("Send")
	w.status(store.Stalled)
	w.reads("Stalled: mismatch", "reserve stock", "Nothing is lost")
	w.first("Resume…")
	w.looks("bad-deploy")
	s.deploy("3", "reserve")
	w.click("Resume…")
	w.fill("Reason", "the name is back")
	w.click("Resume")
	w.status(store.Succeeded)
	w.looks("bad-deploy-fixed")
}

func (w *walk) aSchedule(s *service) {
	w.click("Schedules")
	w.comes("Schedules")
	w.reads("every second", "every 1")
	w.looks("schedules")
	w.click("every second")
	w.comes("every second")
	w.until(`table.month a[href^="#/runs/"]`)
	w.until(`[aria-label="Past decisions"] a[href^="#/runs/"]`)
	if strings.Contains(w.text(), "decided nothing") {
		w.t.Errorf("the schedule has started a run, and its page says\n%s", w.text())
	}
	w.looks("a5-schedule")
	past := must[*stet.ScheduleInfo](w.t)(s.engine.Schedules().Info(w.t.Context(), "every second")).Past
	w.click(past[0].RunID)
	w.comes(past[0].RunID)
	w.status(store.Succeeded)
}

func (w *walk) aQueue(*service) {
	w.click("Runs")
	w.click("card-1")
	w.comes("card-1")
	w.reads("waits for a permit of queue cards for step print")
	w.looks("waits-for-a-permit")
	w.click("Queues")
	w.comes("Queues")
	w.reads("cards", "paused", "the printer has no paper")
	w.looks("queues")
	w.click("cards")
	w.comes("cards")
	w.reads("No permit is given, 1 waits")
	w.looks("queue")
	w.click("Resume…")
	w.fill("Reason", "there is paper")
	w.click("Resume")
	w.closed()
	w.untilTrue(`!document.body.innerText.includes("No permit is given")`)
	w.click("Runs held by a queue")
	w.reads("No run matches")
	w.click("all runs")
	w.click("card-1")
	w.comes("card-1")
	w.status(store.Succeeded)
	w.reads("waiting for a permit")
	w.looks("a2-waited-for-a-permit")
}

func (w *walk) aTask(s *service) {
	ctx := w.t.Context()
	w.click("Runs")
	const offered = "task resize for step resize is offered to workers of queue tasks; no worker has asked for resize"
	w.reads(offered)
	w.click("resize-1")
	w.comes("resize-1")
	w.reads(offered)
	w.looks("a3-no-worker")
	w.click("queue tasks")
	w.comes("tasks")
	w.reads("resize", "offered")
	w.looks("a3-queue-of-tasks")
	got := must[*stet.Leased](w.t)(s.engine.Tasks().Lease(ctx, stet.LeaseRequest{
		Worker: "vm-1", Names: []string{"resize"}, Wait: wait,
	}))
	if len(got.Tasks) != 1 {
		w.t.Fatalf("a worker gets %+v", got)
	}
	w.reads("vm-1", "leased")
	w.click("resize-1")
	w.comes("resize-1")
	w.reads("task resize for step resize is executed by vm-1 since", "lease until")
	w.looks("a3-executed")
	if err := s.engine.Tasks().Complete(ctx, got.Tasks[0].Lease, []byte("1")); err != nil {
		w.t.Fatal(err)
	}
	w.status(store.Succeeded)
}

// service is a program with a server, which is deployed again and again while its address and its store stay.
type service struct {
	t        *testing.T
	url      string
	store    store.Store
	handler  atomic.Pointer[http.Handler]
	engine   *stet.Engine
	stop     func()
	declined atomic.Bool // what the bank says
	noShip   atomic.Bool
}

// newService starts a service whose runs have met what a week has of trouble.
func newService(t *testing.T) *service {
	t.Helper()
	ahead := time.Until(time.Date(2027, 3, 10, 9, 30, 0, 0, time.UTC)) // the calendar has the day before, and the next
	s := &service{t: t, store: memory.New(memory.Clock(func() time.Time { return time.Now().Add(ahead) }))}
	s.declined.Store(true)
	s.noShip.Store(true)
	web := httptest.NewServer(http.StripPrefix("/ops/stet", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(*s.handler.Load()).ServeHTTP(w, r)
	})))
	s.url = web.URL + "/ops/stet/"
	s.deploy("1", "reserve")
	t.Cleanup(func() {
		web.Close()
		s.stop()
		_ = s.store.Close()
	})
	ctx, e := t.Context(), s.engine
	if err := e.Queues().Create(ctx, "cards", stet.QueueSettings{Concurrency: 1}); err != nil {
		t.Fatal(err)
	}
	if err := e.Queues().Pause(ctx, "cards", stet.Act{By: "bob", Why: "the printer has no paper"}); err != nil {
		t.Fatal(err)
	}
	for id, workflow := range map[string]string{
		"order-1": "order", "shipment-1": "shipment", "approval-1": "approval", "card-1": "card", "resize-1": "resize",
	} {
		must[*stet.Run[int]](t)(stet.Ref[int, int](workflow).Start(ctx, e, 1, stet.ID(id)))
	}
	eventually(t, "the schedule has started a run", func() bool {
		info := must[*stet.ScheduleInfo](t)(e.Schedules().Info(ctx, "every second"))
		return len(info.Past) > 0 && info.Past[0].RunID != ""
	})
	if err := e.Schedules().Pause(ctx, "every second", stet.Act{By: "bob", Why: "it is a trial"}); err != nil {
		t.Fatal(err)
	}
	run := &site{s.url, e}
	for id, status := range map[string]store.Status{
		"order-1": store.Failed, "shipment-1": store.Failed, "approval-1": store.Suspended, "card-1": store.Suspended,
		"resize-1": store.Suspended,
	} {
		run.until(t, id, status)
	}
	return s
}

// deploy ends the program and starts it with another name for a step.
func (s *service) deploy(build, reserve string) {
	s.t.Helper()
	if s.stop != nil {
		s.stop()
	}
	ctx, cancel := context.WithCancel(context.Background())
	log := slog.New(slog.DiscardHandler)
	every := stet.Define("report", func(stet.Context, int) (int, error) { return 1, nil })
	e, err := stet.New(ctx, stet.Config{
		Store: s.store, Logger: log, Node: "vm-0", Build: build, Workflows: append(s.workflows(reserve), every),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	h, err := server.New(e, server.Options{Logger: log, Rate: stet.None, Access: []access.Authenticator{
		server.Func(func(*http.Request) (*access.Identity, error) { return admin, nil }),
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	s.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	}
	s.engine = e
	s.handler.Store(&h)
	if build != "1" {
		return
	}
	each := stet.Schedule{Every: time.Second}
	if err := every.Schedule(ctx, e, "every second", 1, each, stet.UntilCarriedOut()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *service) workflows(reserve string) []stet.Definition {
	done := func(context.Context) error { return nil }
	return []stet.Definition{
		stet.Define("order", func(ctx stet.Context, _ int) (int, error) {
			return stet.Step(ctx, "charge", func(context.Context) (int, error) {
				if s.declined.Load() {
					return 0, errDeclined
				}
				return 1, nil
			}, stet.Retry{Attempts: 3, First: 20 * time.Millisecond, Jitter: stet.None})
		}),
		stet.Define("shipment", func(ctx stet.Context, _ int) (int, error) {
			if err := stet.Do(ctx, "reserve", done, stet.UndoDo(done)); err != nil {
				return 0, err
			}
			return 1, stet.Do(ctx, "ship", func(context.Context) error {
				if s.noShip.Load() {
					return stet.Permanent(errors.New("no ship"))
				}
				return nil
			})
		}),
		stet.Define("approval", func(ctx stet.Context, _ int) (int, error) {
			if err := stet.Do(ctx, reserve, done); err != nil {
				return 0, err
			}
			if _, err := stet.Message[bool]("approved").Receive(ctx, stet.Within(72*time.Hour)); err != nil {
				return 0, err
			}
			return 1, stet.Do(ctx, "ship", done)
		}),
		stet.Define("card", func(ctx stet.Context, _ int) (int, error) {
			return 1, stet.Do(ctx, "print", done, stet.OnStepQueue("cards"))
		}),
		stet.Define("resize", func(ctx stet.Context, n int) (int, error) {
			return stet.Task[int, int]("resize").Run(ctx, n)
		}),
	}
}

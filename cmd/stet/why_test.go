package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/client"
	"github.com/stet-run/stet/cmd/stet/internal/toolbox"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
)

// madeElsewhere are codes that this test does not make, with the reason.
var madeElsewhere = map[string]string{
	"claim":             "it lasts for a moment: TestWhyByItsFacts in package stet",
	"executing":         "a body has to execute for 10 s: testdata/script/executing.txtar",
	"lost":              "a process has to die: TestWhyByItsFacts in package stet",
	"lost-wake":         "a row has to be changed by hand: TestWhyByItsFacts in package stet",
	"wait":              "no operation of today: it is for kinds that come",
	"group":             "a store with many shards: TestUnservedRunsSaySo in internal/e2e",
	"build":             "likewise",
	"stalled":           "no stall of today: it is for causes that come",
	"expiring":          "it lasts for a moment, and no list has such a run",
	"stalled-CAUSE":     "the causes that are made have rows of their own below",
	"stalled-damaged":   "a row has to be spoilt: internal/e2e, damage_test.go",
	"stalled-poison":    "processes have to die: internal/e2e, engine_poison_test.go",
	"stalled-mismatch":  "two versions of the code: internal/e2e, version_test.go",
	"stalled-decode":    "likewise",
	"stalled-refused":   "a store with a fault",
	"stalled-invariant": "an engine with a fault",
	"stalled-budget":    "internal/e2e, budget_test.go",
	"stalled-encode":    "internal/e2e, encode_test.go",
}

// spentOn returns for each code of the guide's table on what the time is spent meanwhile.
func spentOn(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/guide/repair.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| code | it means | it ends by itself | spent on |\n|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	on := map[string]string{}
	for _, line := range strings.Split(table, "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) == 4 {
			on[strings.TrimSpace(cells[0])] = strings.TrimSpace(cells[3])
		}
	}
	return on
}

// causes is a workflow whose runs do not go on, each for the cause in its input. Their children neither.
func causes(blocked <-chan struct{}) []stet.Definition {
	ask := stet.Message[string]("ask")
	change := stet.Update[string, string]("change")
	news := stet.Topic[string]{Name: "news"}
	block := func(ctx context.Context) error {
		select {
		case <-blocked:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	waits := stet.Define("waits", func(ctx stet.Context, _ string) (string, error) { return ask.Receive(ctx) })
	strict := stet.Define("strict", func(stet.Context, string) (string, error) {
		return "", errors.New("no stock")
	}, stet.StallOnFailure)
	cause := stet.Define("cause", func(ctx stet.Context, in string) (string, error) {
		switch in {
		case "succeeded", "begin", "queue":
			return "", nil
		case "failed":
			return "", errors.New("card declined")
		case "message":
			return ask.Receive(ctx)
		case "update":
			_, err := change.Receive(ctx)
			return "", err
		case "event":
			return news.Receive(ctx)
		case "promise":
			p, err := stet.NewPromise[string](ctx, "paper")
			if err != nil {
				return "", err
			}
			return p.Await(ctx)
		case "child":
			return waits.Call(ctx, "")
		case "holder":
			return waits.Call(ctx, "", stet.ID("locked"), stet.OnQueue{Name: "one"})
		case "run":
			return stet.Await[string](ctx, "other", "message")
		case "timer", "paused", "cancelled":
			return "", stet.Sleep(ctx, "long", 24*time.Hour)
		case "retry":
			return "", stet.Do(ctx, "call", func(context.Context) error { return errors.New("line busy") },
				stet.Retry{First: time.Hour, Jitter: stet.None})
		case "permit":
			return "", stet.Do(ctx, "call", block, stet.OnStepQueue("none"))
		case "offered", "worker":
			return stet.Task[string, string](in[:1]).Run(ctx, "")
		case "running":
			return "", stet.Do(ctx, "call", block)
		case "undoing":
			if err := stet.Do(ctx, "charge", func(context.Context) error { return nil }, stet.UndoDo(block)); err != nil {
				return "", err
			}
			return "", errors.New("no stock")
		case "stalled-undo":
			if err := stet.Do(ctx, "charge", func(context.Context) error { return nil }, stet.UndoDo(
				func(context.Context) error { return stet.Permanent(errors.New("bank closed")) })); err != nil {
				return "", err
			}
			return "", errors.New("no stock")
		case "cancelling":
			//stetvet:ignore error the run is cancelled here, and cleans up
			_ = stet.Sleep(ctx, "long", 24*time.Hour)
			return "", stet.Do(stet.WithoutCancel(ctx), "clean up", block)
		case "stalled-panic":
			panic("boom")
		case "stalled-code":
			return "", stet.Stall("the table is old")
		case "stalled-misuse":
			//stetvet:ignore context the misuse that stalls the run
			return "", stet.Do(ctx, "a", func(context.Context) error { return stet.Sleep(ctx, "b", time.Hour) })
		case "stalled-deadlock":
			var f *stet.Future[string]
			f = stet.Go(ctx, "f", func(ctx stet.Context) (string, error) { return f.Await(ctx) })
			return f.Await(ctx)
		}
		return "", errors.New("nobody knows " + in)
	}, stet.UndoOnFailure)
	return []stet.Definition{cause, waits, strict}
}

// otherFormat is a codec that the process which executes runs lacks.
type otherFormat struct{}

func (otherFormat) Format() byte                       { return 40 }
func (otherFormat) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (otherFormat) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestEachCauseIsSaidEverywhere makes runs stand still for each cause of the guide's table. The API, ls and show by a
// store and by a server, show --path, explain_run and, of what is an alarm, the log say the same.
func TestEachCauseIsSaidEverywhere(t *testing.T) {
	var log lockedBuffer
	o := &opener{db: filepath.Join(t.TempDir(), "s.db"), log: slog.New(slog.DiscardHandler)}
	s, err := o.open(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	blocked := make(chan struct{})
	e, err := stet.New(t.Context(), stet.Config{Store: s, Workflows: causes(blocked),
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	defer func() {
		close(blocked)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	h, err := server.New(e, server.Options{Access: []access.Authenticator{server.Tokens(e)}, Logger: o.log,
		Rate: stet.None})
	if err != nil {
		t.Fatal(err)
	}
	ada := stet.TokenInfo{Name: "ada", Role: "operator"}
	secret, err := stet.TokensOf(e).Create(t.Context(), ada, stet.Act{By: "test"})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(h)
	defer web.Close()
	c, err := client.New(web.URL, client.Options{Token: secret})
	if err != nil {
		t.Fatal(err)
	}
	box, err := toolbox.New(toolbox.Options{Log: o.log})
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := mcp.NewInMemoryTransports()
	go func() { _ = box.Server(c, "ada").Run(ctx, ours) }()
	tools := agent(t, theirs)
	defer func() { _ = tools.Close() }()

	if err := e.Queues().Create(t.Context(), "none", stet.QueueSettings{Concurrency: 1}); err != nil {
		t.Fatal(err)
	}
	if err := e.Queues().Pause(t.Context(), "none", stet.Act{}); err != nil {
		t.Fatal(err)
	}
	start := stet.Ref[string, string]("cause")
	act := func(do func(context.Context, string, stet.Act) (bool, error), id string) {
		t.Helper()
		if ok, err := do(t.Context(), id, stet.Act{By: "ada", Why: "a test"}); !ok || err != nil {
			t.Fatal(id, ok, err)
		}
	}
	// untilCode waits until the server says a code of a run, and returns that.
	untilCode := func(id, code string) stet.Why {
		t.Helper()
		var run *api.Run
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			var err error
			if run, err = c.Run(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if len(run.Why) > 0 && run.Why[0].Code == code {
				return run.Why[0]
			}
			if err := pause(t.Context(), 10*time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		t.Fatalf("run %s is %s (%s): %+v; want %s", id, run.Status, run.Reason, run.Why, code)
		return stet.Why{}
	}
	made := map[string]bool{}
	on := spentOn(t)
	said := func(code string) {
		t.Helper()
		made[code] = true
		w := untilCode(code, code)
		for code == "offered" && !strings.Contains(w.Text, "no worker has asked") { // the queue has not said so yet
			if err := pause(t.Context(), 10*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			w = untilCode(code, code)
		}
		if w.Text == "" || w.Means() == "" {
			t.Errorf("%s: %+v means %q", code, w, w.Means())
		}
		over := on[code] == "" && !strings.HasPrefix(code, "stalled")
		for _, args := range [][]string{{"--db", o.db}, {"--server", web.URL, "--token", secret}} {
			p := &place{t, args, e}
			for _, command := range [][]string{{"ls", "id=" + code}, {"show", code}} {
				if command[0] == "ls" && code == "succeeded" {
					continue // the status says it
				}
				want := w.Text
				if command[0] == "ls" {
					want = want[:min(len(want), 60)] // it cuts long ones
				}
				if exit, out, complaints := p.stet("", command...); exit != 0 || !strings.Contains(out, want) {
					t.Errorf("%s: %q prints %d, %s%s; want %q in it", code, command, exit, out, complaints, want)
				}
			}
			exit, out, complaints := p.stet("", "show", code, "--path", "-o", "json")
			var path struct {
				Spent []struct {
					On    string
					Grows bool
				}
			}
			if err := json.Unmarshal([]byte(out), &path); exit != 0 || err != nil {
				t.Fatalf("%s: show --path: %d, %v, %s%s", code, exit, err, out, complaints)
			}
			want := on[code]
			if strings.HasPrefix(code, "stalled-") {
				want = "stalled"
			}
			now := ""
			for _, part := range path.Spent {
				if part.Grows {
					now = part.On
				}
			}
			if over && now != "" || !over && !slices.Contains(strings.Split(want, ", "), now) {
				t.Errorf("%s: its time is spent on %q; want %q", code, now, want)
			}
		}
		text, refused := spoken(t, tools, "explain_run", map[string]any{"run": code})
		quoted, err := json.Marshal(w.Text)
		if err != nil {
			t.Fatal(err)
		}
		if refused || !strings.Contains(text, code+": "+w.Means()) || !strings.Contains(text, string(quoted)) {
			t.Errorf("%s: explain_run says %s; want %q and %s", code, text, w.Means(), quoted)
		}
		line := ""
		switch {
		case strings.HasPrefix(code, "stalled"):
			line = `msg="run stalled"`
		case code == "failed":
			line = `msg="run failed"`
		}
		if line != "" && !strings.Contains(log.String(), line+" run_id="+code+" ") {
			t.Errorf("%s: the log has no line %s:\n%s", code, line, log.String())
		}
	}
	for _, code := range []string{
		"succeeded", "failed", "message", "update", "event", "promise", "child", "run", "timer", "retry", "permit",
		"offered", "worker", "running", "undoing", "paused", "cancelled", "cancelling", "begin", "queue", "stalled-undo",
		"stalled-panic", "stalled-code", "stalled-misuse", "stalled-deadlock",
	} {
		var opts []stet.StartOption
		switch code {
		case "begin":
			opts = append(opts, stet.StartAfter(time.Hour))
		case "queue":
			opts = append(opts, stet.OnQueue{Name: "none"})
		}
		if _, err := start.Start(t.Context(), e, code, append(opts, stet.ID(code))...); err != nil {
			t.Fatal(err)
		}
		switch code {
		case "paused":
			untilCode(code, "timer")
			act(e.Runs().Pause, code)
		case "cancelled", "cancelling":
			untilCode(code, "timer")
			act(e.Runs().Cancel, code)
		case "worker":
			leased, err := e.Tasks().Lease(t.Context(), stet.LeaseRequest{Worker: "vm-1", Names: []string{"w"}, Max: 1,
				Wait: time.Minute})
			if err != nil || len(leased.Tasks) != 1 {
				t.Fatal(leased, err)
			}
		}
		said(code)
	}
	if _, err := stet.Ref[string, string]("strict").Start(t.Context(), e, "", stet.ID("stalled-failure")); err != nil {
		t.Fatal(err)
	}
	said("stalled-failure")
	nobodys := stet.Define("nobodys", func(stet.Context, string) (string, error) { return "", nil })
	idle, err := stet.New(t.Context(), stet.Config{Store: s, Workflows: []stet.Definition{nobodys}, Logger: o.log})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nobodys.Start(t.Context(), idle, "", stet.ID("code")); err != nil {
		t.Fatal(err)
	}
	said("code")
	if err := e.Queues().Create(t.Context(), "one", stet.QueueSettings{Concurrency: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := start.Start(t.Context(), e, "holder", stet.ID("holder"), stet.OnQueue{Name: "one"}); err != nil {
		t.Fatal(err)
	}
	for { // the child is started by its parent
		if _, err := c.Run(t.Context(), "locked"); err == nil {
			break
		}
		if err := pause(t.Context(), 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	said("locked")
	for _, args := range [][]string{{"--db", o.db}, {"--server", web.URL, "--token", secret}} {
		p := &place{t, args, e}
		if exit, out, complaints := p.stet("", "ls", "mark=locked"); exit != 0 ||
			!strings.Contains(out, "(held,locked)") || strings.Count(out, "\n") != 2 {
			t.Errorf("ls mark=locked prints %d, %s%s; want the locked run alone", exit, out, complaints)
		}
		want := "the only permit is held by holder, which only waits, for which locked waits"
		if exit, out, complaints := p.stet("", "queue", "show", "one"); exit != 0 || !strings.Contains(out, want) {
			t.Errorf("queue show prints %d, %s%s; want %q in it", exit, out, complaints, want)
		}
		exit, out, complaints := p.stet("", "queue", "show", "one", "-o", "json")
		var queue api.Queue
		if err := json.Unmarshal([]byte(out), &queue); exit != 0 || err != nil || len(queue.Locks) != 1 ||
			queue.Locks[0].Holders[0] != "holder" || queue.Locks[0].Waiting[0] != "locked" {
			t.Errorf("queue show prints %d, %v, %s%s; want its lock", exit, err, out, complaints)
		}
	}
	if q, err := c.Queue(t.Context(), "one"); err != nil || len(q.Locks) != 1 || q.Locks[0].Held != 1 {
		t.Errorf("the API says of the queue %+v, %v; want its lock", q, err)
	}
	if text, refused := spoken(t, tools, "list_queues", map[string]any{}); refused ||
		!strings.Contains(text, `"holders":["holder"]`) || !strings.Contains(text, `"waiting":["locked"]`) {
		t.Errorf("list_queues says %s; want the lock", text)
	}
	other, err := stet.New(t.Context(), stet.Config{Store: s, Logger: o.log, Codecs: []stet.Codec{otherFormat{}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := start.Start(t.Context(), other, "lacks", stet.ID("lacks")); err != nil {
		t.Fatal(err)
	}
	said("lacks")

	offered := untilCode("offered", "offered")
	if !strings.HasSuffix(offered.Text, "; no worker has asked for o") || offered.Since.IsZero() {
		t.Errorf("a task for which nobody has asked: %+v", offered)
	}
	worker := untilCode("worker", "worker")
	if !strings.HasSuffix(worker.Text, "is executed by vm-1") || worker.Since.IsZero() || worker.Until.IsZero() {
		t.Errorf("a task that a worker executes: %+v", worker)
	}
	for _, code := range []string{"paused", "stalled-panic", "timer"} {
		if w := untilCode(code, code); w.Since.IsZero() {
			t.Errorf("%s: nobody says since when: %+v", code, w)
		}
	}
	for code := range on {
		if !made[code] && madeElsewhere[code] == "" {
			t.Errorf("no run is made that says %q", code)
		}
	}
	for code := range madeElsewhere {
		if made[code] {
			t.Errorf("%q is made here", code)
		}
	}
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

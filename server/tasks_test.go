package server_test

import (
	"cmp"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store/memory"
)

// resized is a workflow with a task.
var resized = stet.Define("resized", func(ctx stet.Context, n int) (int, error) {
	return stet.Task[int, int]("resize").Run(ctx, n, stet.Retry{First: stet.None})
})

// TestTasksByHTTP: the answers of each verb, as a worker in another language sees them.
func TestTasksByHTTP(t *testing.T) {
	w := newWorld(t, true)
	run, err := resized.Start(t.Context(), w.engine, 21, stet.ID("r"), stet.Headers{"tenant": "acme"})
	if err != nil {
		t.Fatal(err)
	}
	var got api.TaskLeases
	lease := func() api.LeasedTask {
		t.Helper()
		// A field that the server does not know is ignored.
		w.ask("worker", "POST", "tasks/lease", `{"worker":"w1","names":["resize"],"max":4,"wait_ms":10000,"later":1}`,
			200, &got)
		if len(got.Tasks) != 1 {
			t.Fatalf("leased %+v", got)
		}
		return got.Tasks[0]
	}
	task := lease()
	if task.Name != "resize" || string(task.Input) != "21" || task.Attempt != 1 || task.Run != "r" ||
		task.Headers["tenant"] != "acme" || task.ExpiresMS < 20_000 || len(task.Key) != 32 {
		t.Errorf("leased %+v", task)
	}
	var states api.TaskStates
	w.ask("worker", "POST", "tasks/heartbeat", api.TaskBeats{Leases: []api.TaskBeat{
		{Lease: task.Lease, Detail: json.RawMessage(`7`)}, {Lease: "none"}}, LeaseMS: 60_000}, 200, &states)
	if len(states.Leases) != 2 || states.Leases[0].State != "held" || states.Leases[0].ExpiresMS < 50_000 ||
		states.Leases[1].State != "gone" {
		t.Errorf("heartbeat: %+v", states)
	}
	var list api.TaskList
	w.ask("viewer", "GET", "queues/tasks/tasks", nil, 200, &list)
	if len(list.Tasks) != 1 || list.Tasks[0].State != "leased" || list.Tasks[0].Worker != "w1" {
		t.Errorf("listed %+v", list)
	}
	for range 2 { // the answer is lost, and repeated
		var appended api.AppendedItems
		w.ask("worker", "POST", "tasks/append", `{"lease":"`+task.Lease+`","number":1,"later":1,
			"items":[{"stream":"log","value":"begun"},{"stream":"log","value":{"page":1},"keep":10}]}`, 200, &appended)
		if !appended.Appended {
			t.Errorf("appended: %+v", appended)
		}
	}
	w.refused("worker", "POST", "tasks/append", api.AppendItems{Lease: task.Lease, Number: 2}, "invalid")
	w.refused("viewer", "POST", "tasks/append", api.AppendItems{Lease: task.Lease, Number: 2}, "forbidden")
	w.refused("operator", "POST", "tasks/append", api.AppendItems{Lease: task.Lease, Number: 2}, "forbidden")
	for _, want := range []string{"released", "gone"} { // and repeated
		var released api.TaskStates
		w.ask("worker", "POST", "tasks/release", api.ReleaseTasks{Leases: []string{task.Lease}}, 200, &released)
		if len(released.Leases) != 1 || released.Leases[0] != (api.TaskLease{Lease: task.Lease, State: want}) {
			t.Errorf("release: %+v, want %s", released, want)
		}
	}
	late := api.AppendItems{Lease: task.Lease, Number: 2, Items: []api.TaskItem{{Stream: "log"}}}
	w.refused("worker", "POST", "tasks/append", late, "gone")
	late.Lease = "forged"
	w.refused("worker", "POST", "tasks/append", late, "gone")
	task = lease()
	no := false
	var failed api.FailedTask
	w.ask("worker", "POST", "tasks/fail", api.FailTask{Lease: task.Lease, Error: api.TaskFailure{Message: "busy"}},
		200, &failed)
	if !failed.Failed || !failed.Retry {
		t.Errorf("failed: %+v", failed)
	}
	former := task
	if task = lease(); task.Attempt != 2 || string(task.Detail) != "7" {
		t.Errorf("leased %+v", task)
	}
	for range 2 { // the answer is lost, and repeated
		var completed api.CompletedTask
		w.ask("worker", "POST", "tasks/complete", `{"lease":"`+task.Lease+`","result":42}`, 200, &completed)
		if !completed.Completed {
			t.Errorf("completed: %+v", completed)
		}
	}
	if n, err := run.Wait(t.Context()); n != 42 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	log, err := stet.Stream[json.RawMessage]("log").Items(t.Context(), w.engine, "r", 0, 10)
	if err != nil || len(log) != 2 || string(log[0].Value) != `"begun"` || string(log[1].Value) != `{"page":1}` ||
		log[1].Location != "resize" || log[1].Attempt != 1 {
		t.Errorf("the stream has %+v, %v", log, err)
	}
	w.refused("worker", "POST", "tasks/complete", api.CompleteTask{Lease: former.Lease}, "gone")
	w.refused("worker", "POST", "tasks/complete", api.CompleteTask{Lease: "forged"}, "gone")
	w.refused("worker", "POST", "tasks/fail",
		api.FailTask{Lease: task.Lease, Error: api.TaskFailure{Message: "late", Retryable: &no}}, "gone")

	r, err := resized.Start(t.Context(), w.engine, 1)
	if err != nil {
		t.Fatal(err)
	}
	task = lease()
	if _, err := r.Cancel(t.Context(), stet.Act{}); err != nil {
		t.Fatal(err)
	}
	late.Lease = task.Lease
	w.refused("worker", "POST", "tasks/append", late, "cancelled")
	w.refused("worker", "POST", "tasks/complete", api.CompleteTask{Lease: task.Lease}, "cancelled")
	w.refused("worker", "POST", "tasks/lease", `{"names":[]}`, "invalid")
	w.refused("worker", "POST", "tasks/lease", `{"names":["resize"],"wait_ms":60001}`, "invalid")
	w.refused("worker", "POST", "tasks/lease", `{"names":["resize"],"lease_ms":999}`, "invalid")
}

// TestARunSaysWhoExecutesItsTask: that it is offered, since when, and then which worker has it and for how long.
func TestARunSaysWhoExecutesItsTask(t *testing.T) {
	w := newWorld(t, true)
	if _, err := resized.Start(t.Context(), w.engine, 21, stet.ID("r")); err != nil {
		t.Fatal(err)
	}
	waits := func(what string, is func(*stet.WaitInfo) bool) {
		t.Helper()
		for begun := time.Now(); ; {
			var run api.Run
			var list api.Runs
			w.get("viewer", "runs/r", &run)
			w.get("viewer", "runs", &list)
			if len(run.WaitsFor) == 1 && is(&run.WaitsFor[0]) && is(&list.Runs[0].WaitsFor[0]) {
				return
			}
			if time.Since(begun) > time.Minute {
				t.Fatalf("expected %s, found %+v", what, run.WaitsFor)
			}
		}
	}
	waits("a task that is offered", func(of *stet.WaitInfo) bool {
		return of.Task == "resize" && of.Queue == "tasks" && !of.TaskSince.IsZero() && of.LeaseUntil.IsZero()
	})
	var got api.TaskLeases
	w.ask("worker", "POST", "tasks/lease", `{"worker":"vm-1","names":["resize"],"wait_ms":10000}`, 200, &got)
	waits("a task that is leased", func(of *stet.WaitInfo) bool {
		return of.Task == "resize" && of.Worker == "vm-1" && of.LeaseUntil.After(of.TaskSince)
	})
}

// TestWorkersOfOneNameAreApart: a worker that gives itself the name of another one, and repeats its request, gets
// neither its tasks nor its cancelled leases, which are secrets. No worker gets headers of the engine.
func TestWorkersOfOneNameAreApart(t *testing.T) {
	w := newWorld(t, true)
	leases := func(who, name string) (got api.TaskLeases) {
		t.Helper()
		w.ask(who, "POST", "tasks/lease", api.LeaseTasks{Worker: "w1", Names: []string{name}, Request: "first", Max: 4,
			WaitMS: map[bool]int64{true: 10_000}[who == "worker" && name == "resize"]}, 200, &got)
		return got
	}
	run, err := resized.Start(t.Context(), w.engine, 21, stet.Headers{"tenant": "acme"}, stet.MaxRunTime(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	got := leases("worker", "resize")
	if len(got.Tasks) != 1 || len(got.Tasks[0].Headers) != 1 || got.Tasks[0].Headers["tenant"] != "acme" {
		t.Fatalf("expected a task with the header tenant, found %+v", got)
	}
	lease := got.Tasks[0].Lease
	if again := leases("worker", "resize"); len(again.Tasks) != 1 || again.Tasks[0].Lease != lease {
		t.Errorf("a repeat: expected the same task, found %+v", again)
	}
	for who, name := range map[string]string{"admin": "resize", "media": "media-1", "worker": "media-1"} {
		if got := leases(who, name); len(got.Tasks)+len(got.Cancelled) > 0 {
			t.Errorf("%s with the names %s has got another's task: %+v", who, name, got)
		}
	}
	if _, err := run.Cancel(t.Context(), stet.Act{}); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); ; { // until the queue knows
		var list api.TaskList
		if w.get("viewer", "queues/tasks/tasks", &list); len(list.Tasks) == 0 {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("the queue has %+v", list)
		}
	}
	var cancelled api.TaskLeases
	for _, who := range []string{"admin", "media", "worker"} {
		name := map[string]string{"media": "media-1"}[who]
		w.ask(who, "POST", "tasks/lease", api.LeaseTasks{Worker: "w1", Names: []string{cmp.Or(name, "resize")},
			WaitMS: map[string]int64{"worker": 10_000}[who]}, 200, &cancelled)
		if (len(cancelled.Cancelled) == 1 && cancelled.Cancelled[0] == lease) != (who == "worker") {
			t.Errorf("%s is told of the cancelled leases %q", who, cancelled.Cancelled)
		}
	}
}

// TestWorkersAreBoundToNames: a worker leases the tasks that its identity names, and does
// nothing else.
func TestWorkersAreBoundToNames(t *testing.T) {
	w := newWorld(t, true)
	for _, c := range []struct{ who, name, code string }{
		{"worker", "resize", ""}, {"worker", "media-x", ""}, {"worker", "media", "forbidden"},
		{"worker", "resize2", "forbidden"}, {"admin", "any", ""}, {"operator", "resize", "forbidden"},
		{"limited", "resize", "forbidden"},
	} {
		body := api.LeaseTasks{Names: []string{"media-1", c.name}}
		if c.who != "worker" {
			body.Names = body.Names[1:]
		}
		if c.code != "" {
			w.refused(c.who, "POST", "tasks/lease", body, c.code)
			continue
		}
		var got api.TaskLeases
		begun := time.Now()
		w.ask(c.who, "POST", "tasks/lease", body, 200, &got)
		if len(got.Tasks) > 0 || got.Tasks == nil || got.Cancelled == nil || time.Since(begun) > 5*time.Second {
			t.Errorf("%s has leased %+v", c.who, got)
		}
	}
	w.refused("worker", "GET", "runs", nil, "forbidden")
	tokens := stet.TokensOf(w.engine)
	for _, info := range []stet.TokenInfo{
		{Name: "w", Role: "worker"}, {Name: "w", Role: "worker", Named: []string{"queue:media"}},
		{Name: "w", Role: "worker", Named: []string{"task:a"}, Workflows: []string{"order"}},
	} {
		if _, err := tokens.Create(t.Context(), info, stet.Act{}); err == nil {
			t.Errorf("a token was made of %+v", info)
		}
	}
	if _, err := tokens.Create(t.Context(), stet.TokenInfo{Name: "w", Role: string(access.Worker),
		Named: []string{"task:a"}}, stet.Act{}); err != nil {
		t.Error(err)
	}
}

// T14: with OpenPromises the token of a promise is enough to assign it, and to nothing else.
func TestOpenPromisesNeedTheirTokenAlone(t *testing.T) {
	tokens := make(chan string, 2)
	asks := stet.Define("asks", func(ctx stet.Context, _ int) (int, error) {
		p, err := stet.NewPromise[int](ctx, "answer")
		if err != nil {
			return 0, err
		}
		if err := stet.Do(ctx, "tell", func(context.Context) error { tokens <- p.Token(); return nil }); err != nil {
			return 0, err
		}
		return p.Await(ctx)
	})
	for _, open := range []bool{false, true} {
		s := memory.New()
		e, err := stet.New(t.Context(), stet.Config{Store: s, Workflows: []stet.Definition{asks}, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, engine: e, store: s, stop: running(t, e)}
		if w.handler, err = server.New(e, server.Options{Access: []access.Authenticator{server.Func(byName)},
			Logger: quiet(), Rate: stet.None, OpenPromises: open}); err != nil {
			t.Fatal(err)
		}
		run, err := asks.Start(t.Context(), e, 1)
		if err != nil {
			t.Fatal(err)
		}
		body := api.Resolve{Token: <-tokens, Value: json.RawMessage("7")}
		if !open {
			w.refused("", "POST", "promises/resolve", body, "unauthenticated")
		} else {
			w.refused("", "POST", "promises/resolve", api.Resolve{Token: "p1.eA.MDph.AAAAAAAAAAAAAAAAAAAAAA"}, "not_found")
			w.refused("stranger", "POST", "promises/resolve", body, "unauthenticated")
			w.refused("viewer", "POST", "promises/resolve", body, "forbidden")
			w.refused("", "GET", "runs", nil, "unauthenticated")
			w.refused("", "POST", "runs", "{}", "unauthenticated")
			w.ask("", "POST", "promises/resolve", body, 200, nil)
			if n, err := run.Wait(t.Context()); n != 7 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
			w.refused("", "POST", "promises/reject", api.Reject{Token: body.Token}, "already_resolved")
		}
		w.stop()
	}
}

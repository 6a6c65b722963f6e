package stet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stet-run/stet"
)

type image struct{ URL string }

type thumb struct{ Width int }

// resize is a step whose body workers execute, in whatever language.
var resize = stet.Task[image, thumb]("resize")

// A task is offered on a queue, and a worker leases it. Here the worker is a part of the
// program; mostly it is another one, which does the same by HTTP.
func ExampleTask_Run() {
	publish := stet.Define("publish", func(ctx stet.Context, url string) (int, error) {
		t, err := resize.Run(ctx, image{url}, stet.Permit{Queue: "media"}, stet.Retry{Attempts: 5, Timeout: time.Minute})
		return t.Width, err
	})
	engine, stop := background(publish)
	defer stop()
	ctx := context.Background()
	if err := engine.Queues().Create(ctx, "media", stet.QueueSettings{Concurrency: 4}); err != nil {
		fmt.Println(err)
		return
	}
	run, err := publish.Start(ctx, engine, "https://example.org/a.png")
	if err != nil {
		fmt.Println(err)
		return
	}

	leased, err := engine.Tasks().Lease(ctx, stet.LeaseRequest{
		Worker: "gpu-1", Names: []string{"resize"}, Max: 4, Wait: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, task := range leased.Tasks {
		var in image
		if err := json.Unmarshal(task.Input, &in); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(task.Name, in.URL, "attempt", task.Attempt, "at", task.Location)
		if err := engine.Tasks().Complete(ctx, task.Lease, json.RawMessage(`{"Width": 128}`)); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(run.Wait(ctx))
	// Output:
	// resize https://example.org/a.png attempt 1 at resize
	// 128 <nil>
}

// A worker takes back what a step has done, when the run fails.
func ExampleTask_Undo() {
	refund := stet.Task[string, struct{}]("refund")
	order := stet.Define("order", func(ctx stet.Context, price int) (string, error) {
		charge, err := stet.Step(ctx, "charge", func(context.Context) (string, error) { return "charge-17", nil },
			refund.Undo(stet.Permit{Queue: "bank"}))
		if err != nil {
			return "", err
		}
		return charge, stet.Rollback(errors.New("out of stock"))
	})
	engine, stop := background(order)
	defer stop()
	ctx := context.Background()
	if err := engine.Queues().Create(ctx, "bank", stet.QueueSettings{Rate: 10, Per: time.Second}); err != nil {
		fmt.Println(err)
		return
	}
	run, err := order.Start(ctx, engine, 50)
	if err != nil {
		fmt.Println(err)
		return
	}

	leased, err := engine.Tasks().Lease(ctx, stet.LeaseRequest{
		Worker: "teller-1", Names: []string{"refund"}, Wait: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, task := range leased.Tasks {
		fmt.Printf("%s of %s at %s\n", task.Name, task.Input, task.Location)
		if err := engine.Tasks().Complete(ctx, task.Lease, nil); err != nil {
			fmt.Println(err)
		}
	}
	_, err = run.Wait(ctx)
	fmt.Println(errors.Unwrap(err))
	// Output:
	// refund of "charge-17" at charge/undo
	// out of stock
}

// Where the program has a function for the task, nothing is offered.
func ExampleTask_Func() {
	publish := stet.Define("publish", func(ctx stet.Context, url string) (int, error) {
		t, err := resize.Run(ctx, image{url})
		return t.Width, err
	})
	engine, stop := backgroundWith(stet.Config{
		Workflows: []stet.Definition{publish},
		Tasks:     []stet.TaskFunc{resize.Func(func(context.Context, image) (thumb, error) { return thumb{64}, nil })},
	})
	defer stop()
	fmt.Println(result(engine, publish, "https://example.org/a.png"))
	// Output: 64 <nil>
}

// A worker says that it is alive, gives back what it cannot execute, and says why it has failed.
func ExampleTasks() {
	convert := stet.Task[string, string]("convert")
	job := stet.Define("job", func(ctx stet.Context, in string) (string, error) {
		return convert.Run(ctx, in, stet.Retry{First: stet.None})
	})
	engine, stop := background(job)
	defer stop()
	ctx := context.Background()
	run, err := job.Start(ctx, engine, "a")
	if err != nil {
		fmt.Println(err)
		return
	}
	tasks := engine.Tasks()
	lease := func() stet.LeasedTask {
		leased, err := tasks.Lease(ctx, stet.LeaseRequest{Worker: "w", Names: []string{"convert"}, Wait: time.Minute})
		if err != nil || len(leased.Tasks) == 0 {
			panic(fmt.Sprint("nothing was leased: ", err))
		}
		return leased.Tasks[0]
	}

	task := lease()
	if _, err := tasks.Release(ctx, task.Lease); err != nil { // it is offered again
		fmt.Println(err)
	}
	task = lease()
	held, err := tasks.Heartbeat(ctx, time.Minute, stet.TaskBeat{Lease: task.Lease, Detail: json.RawMessage(`"page 7"`)})
	fmt.Println(held[0].State, err)
	err = tasks.Append(ctx, task.Lease, 1, stet.TaskItem{Stream: "log", Value: json.RawMessage(`"page 7"`)})
	fmt.Println(err)
	all, err := tasks.List(ctx, stet.DefaultTaskQueue, 10)
	fmt.Println(all[0].Name, all[0].State, "by", all[0].Worker, err)
	retry, err := tasks.Fail(ctx, task.Lease, stet.TaskFailure{Message: "no memory", Code: "memory"})
	fmt.Println(retry, err)

	task = lease()
	fmt.Printf("attempt %d, the former one was at %s\n", task.Attempt, task.Detail)
	fmt.Println(tasks.Complete(ctx, task.Lease, json.RawMessage(`"b"`)))
	fmt.Println(run.Wait(ctx))
	log, err := stet.Stream[string]("log").Items(ctx, engine, run.ID(), 0, 0)
	fmt.Println(log[0].Value, "by attempt", log[0].Attempt, "of", log[0].Location, err)
	// Output:
	// held <nil>
	// <nil>
	// convert leased by w <nil>
	// true <nil>
	// attempt 2, the former one was at "page 7"
	// <nil>
	// b <nil>
	// page 7 by attempt 1 of convert <nil>
}

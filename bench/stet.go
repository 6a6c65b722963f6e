package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
	"github.com/stet-run/stet/store/sqlite"
)

// stetSubject is this library.
type stetSubject struct {
	spec   *spec
	work   *work
	job    *stet.Workflow[input, input]
	run    *stet.Workflow[input, input]
	sleep  *stet.Workflow[input, input]
	queued bool // the queues exist

	engine *stet.Engine // the one that serves, or one that only puts in; nil: none is open
	shut   func() error // ends it
}

func openStet(_ context.Context, s *spec, w *work) (subject, error) {
	return &stetSubject{
		spec: s, work: w,
		job: stet.Define(jobName, func(ctx stet.Context, in input) (input, error) {
			return stet.Step(ctx, "work", func(context.Context) (input, error) { w.job(in); return in, nil })
		}),
		run: stet.Define(runName, func(ctx stet.Context, in input) (input, error) {
			for i := range in.Steps {
				_, err := stet.Step(ctx, stepName(i), func(context.Context) (input, error) { return w.step(in, i), nil })
				if err != nil {
					return in, err
				}
			}
			return in, nil
		}),
		sleep: stet.Define(sleepName, func(ctx stet.Context, in input) (input, error) {
			d := time.Duration(in.Size)
			deadline := stet.Now(ctx).Add(d)
			if err := stet.Sleep(ctx, "sleep", d); err != nil {
				return in, err
			}
			//stetvet:ignore clock the time of the process is what is measured
			w.woke(time.Since(deadline))
			return in, nil
		}),
	}, nil
}

func stepName(i int) string { return fmt.Sprintf("step-%d", i) }

func (s *stetSubject) store(ctx context.Context) (store.Store, error) {
	if s.spec.Store == "sqlite" {
		return sqlite.Open(ctx, s.spec.DSN)
	}
	return postgres.Open(ctx, s.spec.DSN, postgres.Conns(s.spec.Conns-2)) // beside the one that listens, and the witness
}

// open opens an engine; one with workflows executes runs, and open returns once it owns the store.
func (s *stetSubject) open(ctx context.Context, workflows ...stet.Definition) error {
	if s.engine != nil {
		if err := s.close(); err != nil {
			return err
		}
	}
	db, err := s.store(ctx)
	if err != nil {
		return err
	}
	owned := make(chan struct{})
	var once sync.Once
	cfg := stet.Config{Store: db, Workflows: workflows, Logger: errorsOnly(),
		OnRecover: func(stet.Recovery) { once.Do(func() { close(owned) }) }}
	if s.spec.Tuned {
		cfg.Node, cfg.Replaces = "bench", true
	}
	if s.engine, err = stet.New(ctx, cfg); err != nil {
		return errors.Join(err, db.Close())
	}
	if len(workflows) == 0 {
		s.shut = db.Close
		return nil
	}
	ended := make(chan error, 1)
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() { ended <- s.engine.Run(serving) }()
	s.shut = func() error {
		stop()
		return errors.Join(<-ended, db.Close())
	}
	select {
	case <-owned:
		return nil
	case err := <-ended:
		ended <- err
		return errors.Join(errors.New("stet: the engine has ended"), s.close())
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), s.close())
	}
}

func (s *stetSubject) serve(ctx context.Context, _ int) (func() error, error) {
	if s.spec.Workload == "queue" {
		if err := s.ready(ctx); err != nil {
			return nil, err
		}
	}
	return s.close, s.open(ctx, s.job, s.run, s.sleep)
}

// queueOf returns the queue whose runs are executed so many at a time.
func queueOf(atATime int) stet.OnQueue {
	return stet.OnQueue{Name: fmt.Sprintf("%s-%d", queueName, atATime)}
}

// ready opens an engine that only puts in, if none is open, and makes the queues.
func (s *stetSubject) ready(ctx context.Context) error {
	if s.engine != nil {
		return nil
	}
	if err := s.open(ctx); err != nil || s.queued {
		return err
	}
	s.queued = true
	for _, n := range []int{fewAtATime, someAtATime, manyAtATime} {
		if err := s.engine.Queues().Create(ctx, queueOf(n).Name, stet.QueueSettings{Concurrency: n}); err != nil {
			return err
		}
	}
	return nil
}

func (s *stetSubject) put(ctx context.Context, jobs []input, atATime int) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	on := []stet.StartOption{queueOf(atATime)}
	_, err := s.job.StartAll(ctx, s.engine, jobs, func(int) []stet.StartOption { return on })
	return err
}

func (s *stetSubject) putOne(ctx context.Context, job input, atATime int) error {
	_, err := s.job.Start(ctx, s.engine, job, queueOf(atATime))
	return err
}

func (s *stetSubject) later(ctx context.Context, number int, d time.Duration) error {
	_, err := s.sleep.Start(ctx, s.engine, input{Number: number, Size: int(d)})
	return err
}

func (s *stetSubject) execute(ctx context.Context, id string, in input) (input, error) {
	var opts []stet.StartOption
	if id != "" {
		opts = append(opts, stet.ID(id))
	}
	run, err := s.run.Start(ctx, s.engine, in, opts...)
	if err != nil {
		return input{}, err
	}
	return run.Wait(ctx)
}

func (s *stetSubject) await(ctx context.Context, id string) (input, error) {
	return s.run.Handle(s.engine, id).Wait(ctx)
}

func (s *stetSubject) done(ctx context.Context) (int, error) {
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	tallies, err := s.engine.Runs().Count(ctx, store.Filter{Statuses: []store.Status{store.Succeeded}})
	n := 0
	for _, t := range tallies {
		n += int(t.Runs)
	}
	return n, err
}

func (s *stetSubject) close() error {
	if s.engine == nil {
		return nil
	}
	s.engine = nil
	return s.shut()
}

// errorsOnly returns the logger of this library.
func errorsOnly() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

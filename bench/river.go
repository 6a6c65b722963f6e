package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverSubject is River, a queue of jobs in Postgres.
type riverSubject struct {
	spec    *spec
	pool    *pgxpool.Pool
	workers *river.Workers
	client  *river.Client[pgx.Tx] // the one that serves, or one that only puts in
}

// riverSleep is a job that is due later.
type riverSleep struct {
	Number int `json:"number"`
}

func (riverSleep) Kind() string { return sleepName }

func openRiver(ctx context.Context, s *spec, w *work) (subject, error) {
	cfg, err := pgxpool.ParseConfig(s.DSN)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = int32(s.Conns)
	r := &riverSubject{spec: s, workers: river.NewWorkers()}
	river.AddWorker(r.workers, river.WorkFunc(func(_ context.Context, job *river.Job[input]) error {
		w.job(job.Args)
		return nil
	}))
	river.AddWorker(r.workers, river.WorkFunc(func(_ context.Context, job *river.Job[riverSleep]) error {
		w.woke(time.Since(job.ScheduledAt))
		return nil
	}))
	if r.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(r.pool), &rivermigrate.Config{Logger: quiet()})
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err == nil {
		err = r.idle()
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// idle makes the client that only puts in.
func (r *riverSubject) idle() error {
	var err error
	r.client, err = river.NewClient(riverpgxv5.New(r.pool), &river.Config{Workers: r.workers, Logger: quiet()})
	return err
}

func (r *riverSubject) serve(ctx context.Context, atATime int) (func() error, error) {
	cfg := &river.Config{Workers: r.workers, Logger: quiet(),
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: atATime}}}
	if r.spec.Tuned {
		cfg.FetchCooldown, cfg.FetchPollInterval = 2*time.Millisecond, 20*time.Millisecond
	}
	var err error
	if r.client, err = river.NewClient(riverpgxv5.New(r.pool), cfg); err != nil {
		return nil, err
	}
	if err := r.client.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	return func() error {
		return errors.Join(r.client.Stop(context.WithoutCancel(ctx)), r.idle())
	}, nil
}

func (r *riverSubject) put(ctx context.Context, jobs []input, _ int) error {
	params := make([]river.InsertManyParams, len(jobs))
	for i := range jobs {
		params[i].Args = jobs[i]
	}
	var err error
	if r.spec.Tuned {
		_, err = r.client.InsertManyFast(ctx, params)
	} else {
		_, err = r.client.InsertMany(ctx, params)
	}
	return err
}

func (r *riverSubject) putOne(ctx context.Context, job input, _ int) error {
	_, err := r.client.Insert(ctx, job, nil)
	return err
}

func (r *riverSubject) later(ctx context.Context, number int, d time.Duration) error {
	_, err := r.client.Insert(ctx, riverSleep{number}, &river.InsertOpts{ScheduledAt: time.Now().Add(d)})
	return err
}

func (r *riverSubject) done(ctx context.Context) (n int, err error) {
	err = r.pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE state = 'completed'`).Scan(&n)
	return n, err
}

func (r *riverSubject) close() error {
	r.pool.Close()
	return nil
}

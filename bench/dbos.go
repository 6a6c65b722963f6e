package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite" // its SQLite
	"github.com/jackc/pgx/v5/pgxpool"
)

// dbosSubject is DBOS, a library of durable workflows in Postgres or SQLite.
type dbosSubject struct {
	spec *spec
	work *work

	pool   *pgxpool.Pool // nil: the store is SQLite
	lite   *sql.DB
	server dbos.Context // nil: none serves
	client dbos.Client  // the server, or one that only puts in; nil: none is open
}

// dbosStop is how long a stop may take.
const dbosStop = time.Minute

func openDBOS(_ context.Context, s *spec, w *work) (subject, error) {
	return &dbosSubject{spec: s, work: w}, nil
}

// connect opens the store. DBOS closes it when it is shut down, although it was given.
func (d *dbosSubject) connect(ctx context.Context) error {
	if d.spec.Store == "sqlite" {
		// As DBOS opens it, but for synchronous, which is NORMAL then.
		var err error
		d.lite, err = sql.Open("sqlite", "file:"+d.spec.DSN+"?_txlock=immediate&_pragma=busy_timeout(5000)"+
			"&_pragma=foreign_keys(ON)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
		if err == nil {
			d.lite.SetMaxOpenConns(8)
			d.lite.SetMaxIdleConns(4)
		}
		return err
	}
	cfg, err := pgxpool.ParseConfig(d.spec.DSN)
	if err != nil {
		return err
	}
	cfg.MaxConns = int32(d.spec.Conns)
	d.pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), cfg)
	return err
}

func (d *dbosSubject) serve(ctx context.Context, atATime int) (func() error, error) {
	if err := d.close(); err != nil {
		return nil, err
	}
	if err := d.connect(ctx); err != nil {
		return nil, err
	}
	cfg := dbos.Config{AppName: "bench", SystemDBPool: d.pool, SQLiteSystemDB: d.lite, Logger: quiet()}
	if d.spec.Tuned {
		cfg.ApplicationVersion = "1"
	}
	c, err := dbos.NewContext(context.WithoutCancel(ctx), cfg)
	if err != nil {
		return nil, err
	}
	d.server, d.client = c, c
	dbos.RegisterWorkflow(c, d.job, dbos.WithWorkflowName(jobName))
	dbos.RegisterWorkflow(c, d.run, dbos.WithWorkflowName(runName))
	dbos.RegisterWorkflow(c, d.sleep, dbos.WithWorkflowName(sleepName))
	if d.spec.Workload == "queue" {
		opts := []dbos.QueueOption{dbos.WithWorkerConcurrency(atATime),
			dbos.WithQueueOnConflict(dbos.QueueConflictAlwaysUpdate)}
		if d.spec.Tuned {
			opts = append(opts, dbos.WithQueueBasePollingInterval(10*time.Millisecond))
		}
		if _, err = dbos.RegisterQueue(c, queueName, opts...); err != nil {
			return nil, err
		}
	}
	return d.close, dbos.Launch(c)
}

// ready opens a client that only puts in, if nothing is open.
func (d *dbosSubject) ready(ctx context.Context) error {
	if d.client != nil {
		return nil
	}
	err := d.connect(ctx)
	if err == nil {
		d.client, err = dbos.NewClient(context.WithoutCancel(ctx), dbos.ClientConfig{AppName: "bench", SystemDBPool: d.pool,
			SQLiteSystemDB: d.lite, Logger: quiet()})
	}
	return err
}

func (d *dbosSubject) job(ctx dbos.Context, in input) (input, error) {
	return dbos.RunAsStep(ctx, func(context.Context) (input, error) { d.work.job(in); return in, nil },
		dbos.WithStepName("work"))
}

func (d *dbosSubject) run(ctx dbos.Context, in input) (input, error) {
	for i := range in.Steps {
		_, err := dbos.RunAsStep(ctx, func(context.Context) (input, error) { return d.work.step(in, i), nil },
			dbos.WithStepName(stepName(i)))
		if err != nil {
			return in, err
		}
	}
	return in, nil
}

func (d *dbosSubject) sleep(ctx dbos.Context, in input) (input, error) {
	deadline := time.Now().Add(time.Duration(in.Size))
	if _, err := dbos.Sleep(ctx, time.Duration(in.Size)); err != nil {
		return in, err
	}
	d.work.woke(time.Since(deadline))
	return in, nil
}

// put enqueues jobs one by one, in one transaction: DBOS has no call for several.
func (d *dbosSubject) put(ctx context.Context, jobs []input, _ int) error {
	if err := d.ready(ctx); err != nil {
		return err
	}
	var tx any
	var commit, rollback func() error
	if d.lite != nil {
		t, err := d.lite.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		tx, commit, rollback = t, t.Commit, t.Rollback
	} else {
		t, err := d.pool.Begin(ctx)
		if err != nil {
			return err
		}
		tx = t
		commit = func() error { return t.Commit(ctx) }
		rollback = func() error { return t.Rollback(ctx) }
	}
	for _, job := range jobs {
		_, err := dbos.Enqueue[input](d.client, queueName, jobName, job, dbos.WithEnqueueTransaction(tx))
		if err != nil {
			return errors.Join(err, rollback())
		}
	}
	return commit()
}

func (d *dbosSubject) putOne(_ context.Context, job input, _ int) error {
	_, err := dbos.Enqueue[input](d.client, queueName, jobName, job)
	return err
}

func (d *dbosSubject) later(_ context.Context, number int, wait time.Duration) error {
	_, err := dbos.RunWorkflow(d.server, d.sleep, input{Number: number, Size: int(wait)})
	return err
}

func (d *dbosSubject) execute(_ context.Context, id string, in input) (input, error) {
	var opts []dbos.WorkflowOption
	if id != "" {
		opts = append(opts, dbos.WithWorkflowID(id))
	}
	h, err := dbos.RunWorkflow(d.server, d.run, in, opts...)
	if err != nil {
		return input{}, err
	}
	return h.GetResult()
}

func (d *dbosSubject) await(_ context.Context, id string) (input, error) {
	h, err := dbos.RetrieveWorkflow[input](d.client, id)
	if err != nil {
		return input{}, err
	}
	return h.GetResult(dbos.WithHandlePollingInterval(5 * time.Millisecond)) // otherwise 1 s
}

func (d *dbosSubject) done(ctx context.Context) (int, error) {
	if err := d.ready(ctx); err != nil {
		return 0, err
	}
	rows, err := dbos.GetWorkflowAggregates(d.client, dbos.GetWorkflowAggregatesInput{
		GroupByStatus: true, SelectCount: true, Status: []dbos.WorkflowStatusType{dbos.WorkflowStatusSuccess}})
	n := 0
	for _, row := range rows {
		n += int(*row.Count)
	}
	return n, err
}

// close ends what serves or puts in, and with it the store.
func (d *dbosSubject) close() error {
	c := d.client
	d.client, d.server = nil, nil
	if c == nil {
		return nil
	}
	if err := dbos.Shutdown(c, dbosStop); err != nil {
		return fmt.Errorf("DBOS: shut down: %w", err)
	}
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/internal/testing/servers"
)

// stores gives each measurement an empty store.
type stores interface {
	// next returns the address of an empty store, and how to delete it.
	next(ctx context.Context) (dsn string, drop func() error, err error)
	// settings are lines about the server.
	settings() []string
	close() error
}

// files are SQLite files in a temporary folder.
type files struct {
	dir string
	n   int
}

func openFiles() (stores, error) {
	dir, err := os.MkdirTemp("", "stet-bench")
	return &files{dir: dir}, err
}

func (f *files) next(context.Context) (string, func() error, error) {
	f.n++
	name := filepath.Join(f.dir, fmt.Sprintf("bench-%d.db", f.n))
	return name, func() error {
		var errs []error
		for _, end := range []string{"", "-wal", "-shm", "-owner"} {
			if err := os.Remove(name + end); !errors.Is(err, os.ErrNotExist) {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	}, nil
}

func (f *files) settings() []string {
	return []string{"SQLite files in WAL mode with synchronous=FULL", "file system: " + fileSystem(f.dir)}
}

func (f *files) close() error { return os.RemoveAll(f.dir) }

// databases are those of a Postgres server.
type databases struct {
	dsn    string
	n      int
	server *servers.Postgres // nil: it is not ours
	admin  *pgx.Conn
	about  []string
}

// durable are the settings by which an acknowledged commit survives a power cut, and their values.
var durable = [][2]string{{"fsync", "on"}, {"synchronous_commit", "on"}, {"full_page_writes", "on"}}

// openDatabases opens the server at an address; "": it starts one from installed binaries.
func openDatabases(ctx context.Context, dsn string) (_ stores, err error) {
	d := &databases{dsn: dsn}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if dsn == "" {
		if d.server, err = servers.StartPostgres(); err != nil {
			return nil, fmt.Errorf("start Postgres, or name a server by --dsn: %w", err)
		}
		d.dsn = d.server.DSN()
	}
	if d.admin, err = pgx.Connect(ctx, d.dsn); err != nil {
		return nil, err
	}
	return d, d.describe(ctx)
}

// describe reads the settings, and refuses a server that would lose commits.
func (d *databases) describe(ctx context.Context) error {
	var version string
	if err := d.admin.QueryRow(ctx, "SHOW server_version").Scan(&version); err != nil {
		return err
	}
	d.about = []string{"Postgres " + version}
	for _, s := range durable {
		value, err := d.show(ctx, s[0])
		if err == nil && value != s[1] {
			err = fmt.Errorf("expected a server with %s=%s, found %s: its figures would compare nothing", s[0], s[1], value)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers",
		"max_wal_size", "max_connections"} {
		value, err := d.show(ctx, name)
		if err != nil {
			return err
		}
		d.about = append(d.about, name+"="+value)
	}
	if d.server == nil {
		d.about = append(d.about, "a server that was there")
	} else {
		d.about = append(d.about, "a server of its own, by a Unix socket", "file system: "+fileSystem(os.TempDir()))
	}
	return nil
}

func (d *databases) show(ctx context.Context, name string) (value string, err error) {
	err = d.admin.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value)
	return value, err
}

func (d *databases) next(ctx context.Context) (string, func() error, error) {
	d.n++
	name := fmt.Sprintf("stet_bench_%d_%d", os.Getpid(), d.n)
	dsn, err := withDatabase(d.dsn, name)
	if err != nil {
		return "", nil, err
	}
	if _, err := d.admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return "", nil, err
	}
	drop := func() error {
		// What was killed may still have a session.
		_, err := d.admin.Exec(context.WithoutCancel(ctx), "DROP DATABASE "+name+" WITH (FORCE)")
		return err
	}
	// What former measurements have left to be written is written before this one.
	if _, err := d.admin.Exec(ctx, "CHECKPOINT"); err != nil {
		return "", nil, errors.Join(err, drop())
	}
	return dsn, drop, nil
}

func (d *databases) settings() []string { return d.about }

func (d *databases) close() error {
	var err error
	if d.admin != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = d.admin.Close(ctx)
	}
	if d.server != nil {
		err = errors.Join(err, d.server.Close())
	}
	return err
}

// withDatabase returns the address of another database of a server.
func withDatabase(dsn, name string) (string, error) {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return dsn + " dbname=" + name, nil // the last one counts
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), nil
}

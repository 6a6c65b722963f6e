package io

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"os"
	"runtime"

	"github.com/stet-run/stet"
)

func bad(ctx stet.Context, db *sql.DB) error {
	_ = os.Getenv("HOME")         // want `io: os.Getenv`
	_, err := db.Exec("DELETE 1") // want `io: sql.DB.Exec`
	if err != nil {
		return err
	}
	_, err = http.Get("http://localhost") // want `io: http.Get`
	if err != nil {
		return err
	}
	runtime.LockOSThread() // want `io: runtime.LockOSThread`
	return load("file")    // want `io: load → os.ReadFile`
}

func load(name string) error {
	_, err := os.ReadFile(name)
	return err
}

func good(ctx stet.Context) error {
	home, err := stet.Step(ctx, "home", func(context.Context) (string, error) {
		return os.Getenv("HOME"), load("file")
	})
	if errors.Is(err, os.ErrNotExist) || os.IsExist(err) { // want `sentinel: .* os.ErrNotExist`
		return nil
	}
	_ = home
	return stet.Do(ctx, "load", loadIt)
}

func loadIt(context.Context) error { return load("file") }

// What undoes a step, and what opens and closes a resource, are no workflow code, also where the
// functions stand in it.
func goodUndo(ctx stet.Context) error {
	_, err := stet.Step(ctx, "write", func(context.Context) (string, error) { return "file", os.WriteFile("file", nil, 0o600) },
		stet.Undo(func(_ context.Context, name string) error { return os.Remove(name) }))
	if err != nil {
		return err
	}
	return stet.Do(ctx, "load", loadIt, stet.UndoDo(func(context.Context) error { return load("file") }))
}

func badUndo(ctx stet.Context, name string) error {
	undo := stet.UndoDo(func(context.Context) error { return os.Remove(name) })
	if os.Getenv("KEEP") != "" { // want `io: os.Getenv`
		return nil
	}
	return stet.Do(ctx, "load", loadIt, undo)
}

func goodLocal(ctx stet.Context) error {
	file := stet.NewLocal(ctx, func(context.Context) (*os.File, error) { return os.Open("file") },
		func(f *os.File) error { return errors.Join(f.Close(), os.Remove(f.Name())) })
	return stet.Do(ctx, "size", func(ctx context.Context) error {
		f, err := file.Get(ctx)
		if err != nil {
			return err
		}
		_, err = f.Stat()
		return err
	})
}

package io

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"os"

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
	return load("file") // want `io: load → os.ReadFile`
}

func load(name string) error {
	_, err := os.ReadFile(name)
	return err
}

func good(ctx stet.Context) error {
	home, err := stet.Step(ctx, "home", func(context.Context) (string, error) {
		return os.Getenv("HOME"), load("file")
	})
	if errors.Is(err, os.ErrNotExist) || os.IsExist(err) {
		return nil
	}
	_ = home
	return stet.Do(ctx, "load", loadIt)
}

func loadIt(context.Context) error { return load("file") }

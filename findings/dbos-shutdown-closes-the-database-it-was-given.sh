#!/bin/sh
# github.com/dbos-inc/dbos-transact-golang v1.8.0: Shutdown closes a database that the program has opened itself.
#
# Behaviour. Config.SQLiteSystemDB and Config.SystemDBPool take a handle that the program has opened, such as the one
# that its own tables are read by. Shutdown closes that handle: each later use of it is an error. So is that of a second
# context on the same handle, and of a client: a program that shuts a dbos.Client down loses the pool that its
# dbos.Context works with. The documentation of both fields does not say so, and the comment at the opening of SQLite
# says the contrary: "it is used as-is (the caller owns its lifecycle and PRAGMA configuration)".
#
# Source: dbos/internal/sysdb/system_database.go, SysDB.Shutdown, which calls Close of the pool, whoever has made it;
# sqlite_pool.go, newSqliteSystemDatabase.
#
# Output seen:
#
#   before: <nil>
#   after Shutdown of a client: sql: database is closed
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'MOD'
module closed

go 1.26.0

require github.com/dbos-inc/dbos-transact-golang v1.8.0
MOD
cat >main.go <<'GO'
package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite"
)

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
}

func main() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:app.db?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)")
	check(err)
	quiet := slog.New(slog.DiscardHandler)
	app, err := dbos.NewContext(ctx, dbos.Config{AppName: "app", SQLiteSystemDB: db, Logger: quiet})
	check(err)
	check(dbos.Launch(app))
	client, err := dbos.NewClient(ctx, dbos.ClientConfig{AppName: "app", SQLiteSystemDB: db, Logger: quiet})
	check(err)
	fmt.Println("before:", db.Ping())
	check(dbos.Shutdown(client, 10*time.Second))
	after := db.Ping()
	fmt.Println("after Shutdown of a client:", after)
	if after == nil {
		fmt.Println("the behaviour has changed")
		os.Exit(1)
	}
}
GO
GOWORK=off GOFLAGS=-mod=mod go run .

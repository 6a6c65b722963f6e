#!/bin/sh
# github.com/jackc/pgx/v5 v5.10.0: a COMMIT whose answer is lost is reported as safe to try again.
#
# Behaviour. A client sends COMMIT as a text without parameters and waits for the answer. The connection ends in
# between: the server may have committed or not. For a query with parameters pgconn returns the error of the read,
# "unexpected EOF", and SafeToRetry(err) is false. For a text without parameters, whose results are read with
# NextResult as Conn.Exec and Tx.Commit of pgx do, it returns "conn closed", and SafeToRetry(err) is true.
# MultiResultReader.NextResult peeks at the next message first and drops the error of that read, which has closed the
# connection. Its second read then finds a closed connection.
#
# So a program that repeats a transaction whenever SafeToRetry says so repeats transactions that were committed.
# Source: pgconn/pgconn.go, MultiResultReader.NextResult; pgconn/errors.go, SafeToRetry.
#
# The script answers both forms from a server of its own on the loopback address, which reads the request whole and then
# closes the connection. Output seen:
#
#   with parameters: "unexpected EOF", safe to retry: false
#   COMMIT as text:  "conn closed", safe to retry: true
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'MOD'
module lostcommit

go 1.25.0

require github.com/jackc/pgx/v5 v5.10.0
MOD
cat >main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// serve answers the start of one session, reads one request, and closes the connection without an answer.
func serve(l net.Listener) {
	conn, err := l.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	b := pgproto3.NewBackend(conn, conn)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if b.Flush() != nil {
		return
	}
	for {
		switch m, err := b.Receive(); m.(type) {
		case *pgproto3.Query, *pgproto3.Sync: // the request is complete
			return
		default:
			if err != nil {
				return
			}
		}
	}
}

// lose sends a request whose answer never comes, and returns the client's error.
func lose(request func(context.Context, *pgconn.PgConn) error) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	defer l.Close()
	go serve(l)
	ctx := context.Background()
	c, err := pgconn.Connect(ctx, "postgres://user@"+l.Addr().String()+"/db?sslmode=disable")
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	return request(ctx, c)
}

func main() {
	parameters := lose(func(ctx context.Context, c *pgconn.PgConn) error {
		return c.ExecParams(ctx, "select $1::int", [][]byte{[]byte("1")}, nil, nil, nil).Read().Err
	})
	text := lose(func(ctx context.Context, c *pgconn.PgConn) error { // as pgx.Conn.Exec and Tx.Commit do
		results := c.Exec(ctx, "commit")
		for results.NextResult() {
			results.ResultReader().Close()
		}
		return results.Close()
	})
	fmt.Printf("with parameters: %q, safe to retry: %t\n", parameters, pgconn.SafeToRetry(parameters))
	fmt.Printf("COMMIT as text:  %q, safe to retry: %t\n", text, pgconn.SafeToRetry(text))
	if pgconn.SafeToRetry(parameters) || !pgconn.SafeToRetry(text) {
		fmt.Println("the behaviour has changed")
		os.Exit(1)
	}
}
GO
GOWORK=off GOFLAGS=-mod=mod go run .

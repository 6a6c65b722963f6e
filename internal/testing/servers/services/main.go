// Command services starts a Postgres and a Redis server for local work, prints their addresses, and ends them, with
// their data, at the first interrupt.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/stet-run/stet/internal/testing/servers"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "services:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt, syscall.SIGTERM)
	started := 0
	postgres, err := servers.StartPostgres()
	switch {
	case err == nil:
		defer func() { err = errors.Join(err, postgres.Close()) }()
		fmt.Printf("postgres  postgres://stet@%s/postgres\n", postgres.Addr())
		started++
	case errors.Is(err, servers.ErrMissing):
		fmt.Fprintln(os.Stderr, "postgres:", err)
	default:
		return err
	}
	redis, err := servers.StartRedis("redis-server", servers.Durable...)
	switch {
	case err == nil:
		defer func() { err = errors.Join(err, redis.Close()) }()
		fmt.Printf("redis     %s\n", redis.URL())
		started++
	case errors.Is(err, servers.ErrMissing):
		fmt.Fprintln(os.Stderr, "redis:", err)
	default:
		return err
	}
	if started == 0 {
		return errors.New("no server is installed: try make servers")
	}
	fmt.Println("give an address to stet as --db; an interrupt ends the servers")
	<-end
	return nil
}

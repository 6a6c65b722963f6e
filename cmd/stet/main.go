// Command stet inspects and controls the workflows in a store: it starts runs, sends
// to them, lists, shows, cancels and resumes them, whether or not an application works
// on the same store. Run `stet help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/stet-run/stet/script"
)

func main() {
	script.Child()
	os.Exit(command())
}

// command is main without the exit.
func command() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

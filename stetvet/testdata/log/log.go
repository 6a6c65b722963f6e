package log

import (
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/stet-run/stet"
)

func bad(ctx stet.Context, x int) {
	fmt.Println(x)             // want `log: fmt.Println`
	log.Print(x)               // want `log: log.Print`
	slog.Info("x", "x", x)     // want `log: slog.Info`
	fmt.Fprintln(os.Stderr, x) // want `log: os.Stderr`
	println(x)                 // want `log: println`
	logger.Info("x")           // want `log: slog.Logger.Info`
}

var logger = slog.New(slog.DiscardHandler)

func good(ctx stet.Context, x int) string {
	l := stet.Log(ctx).With("x", x)
	l.Info("x")
	stet.Log(ctx).Warn("x")
	return fmt.Sprintln(x)
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/sim/link"
	"github.com/stet-run/stet/internal/sim/plan"
	"github.com/stet-run/stet/internal/sim/wire"
)

// theStore is the number of the machine that keeps the store.
const theStore = 0

// remote returns the store of the world. Other messages go to others.
func remote(others func(kind byte, body []byte)) *wire.Remote {
	r := wire.NewRemote(func(kind byte, call uint32, body []byte) { link.Send(theStore, kind, call, body) })
	go func() {
		for {
			_, kind, call, body, err := link.Receive()
			switch {
			case err != nil:
				fmt.Println("receive:", err)
				os.Exit(1)
			case kind == wire.Plan:
				others(kind, body)
			default:
				r.Received(kind, call, body)
			}
		}
	}()
	return r
}

func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "node" {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// payloads returns what is done to values.
func payloads(sealed bool) (p stet.Payloads) {
	if sealed {
		p.Keys = []stet.PayloadKey{{ID: "key", Secret: []byte(strings.Repeat("secret: ", 4))}}
		p.Require = stet.RequireBound
	}
	return p
}

func retention(sweep time.Duration) (r stet.Retention) {
	if sweep > 0 {
		r = stet.KeepFor(stet.AtOnce)
	}
	return r
}

// work is a process that executes runs, until the world asks it to stop.
func work() error {
	var n struct {
		plan.Node
		Sealed bool
		Apart  bool
		Sweep  time.Duration
		Works  time.Duration
	}
	if err := json.Unmarshal([]byte(os.Args[2]), &n); err != nil {
		return err
	}
	begun := time.Now()
	ctx, stop := context.WithCancel(context.Background())
	in := newInterpreter(n.Build)
	s := remote(func(byte, []byte) { stop() })
	s.Apart = n.Apart
	for {
		opening, cancel := context.WithTimeout(ctx, 5*time.Second)
		e, err := stet.New(opening, stet.Config{
			Store: s, Workflows: []stet.Definition{in.program, in.undoing}, Node: n.Name,
			Build: fmt.Sprintf("%03d", n.Build), Groups: n.Groups, LeaseTTL: n.LeaseTTL, Poll: n.Poll, Logger: logger(),
			Payloads: payloads(n.Sealed), Sweep: n.Sweep, Retention: retention(n.Sweep),
			MaxSteps: n.MaxSteps, MaxRuns: n.MaxRuns, MaxParkedBytes: n.MaxParkedBytes, ParkFor: n.ParkFor,
			Replaces: n.Replaces,
		})
		cancel()
		if err == nil {
			if n.Works >= 0 {
				go (&worker{tasks: e.Tasks(), badUntil: begun.Add(n.Works)}).run(ctx)
			}
			err = e.Run(ctx)
		}
		switch {
		case ctx.Err() != nil || errors.Is(err, stet.ErrReplaced):
			return nil
		case !away(err):
			return err
		}
		// As what watches over a process would do, without its patience.
		fmt.Println("begins again:", err)
		rest(ctx)
	}
}

// Command file is the machine that keeps a store in a file, as guest's role "store" keeps one in
// memory: SQLite, on a disk of the world.
package main

import (
	"context"
	"fmt"

	"github.com/stet-run/stet/internal/sim/guest/life"
	"github.com/stet-run/stet/internal/sim/link"
	"github.com/stet-run/stet/internal/sim/wire"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/sqlite"
)

func main() {} // it is not executed

func init() { life.Is(func() error { return serve(context.Background()) }) }

// serve answers requests, one after the other. What one machine changes it reports to the others:
// to SQLite all requests come from one process.
func serve(ctx context.Context) error {
	s, err := sqlite.Open(ctx, "/store.db")
	if err != nil {
		fmt.Println(err) // the disk may be full: the world begins another machine
		return nil
	}
	known := []int{}
	for {
		from, kind, call, body, err := link.Receive()
		if err != nil {
			return err
		}
		if kind != wire.Request {
			continue
		}
		answer := wire.Answer(ctx, s, body)
		link.Send(from, wire.Response, call, answer)
		fresh := true
		for _, other := range known {
			fresh = fresh && other != from
			if _, writes := wire.Method(body); writes && other != from {
				link.Send(other, wire.Hint, 0, wire.Encode(store.Anything()))
			}
		}
		if fresh {
			known = append(known, from)
		}
	}
}

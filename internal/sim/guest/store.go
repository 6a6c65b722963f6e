package main

import (
	"context"
	"os"
	"strconv"

	"github.com/stet-run/stet/internal/sim/link"
	"github.com/stet-run/stet/internal/sim/wire"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// serve is a machine that keeps the store, as a server of a database does.
func serve() error {
	ctx := context.Background()
	slots, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	first := memory.New(memory.Slots(slots))
	handles := map[int]*memory.Store{}
	for {
		from, kind, call, body, err := link.Receive()
		if err != nil {
			return err
		}
		switch kind {
		case wire.Gone:
			if h := handles[from]; h != nil {
				_ = h.Close() // a handle in memory closes
				delete(handles, from)
			}
		case wire.Request:
			h := handles[from]
			if h == nil {
				h = first.Join()
				handles[from] = h
				go hint(ctx, h, from)
			}
			link.Send(from, wire.Response, call, wire.Answer(ctx, h, body))
		}
	}
}

// hint reports to a machine what others change.
func hint(ctx context.Context, s store.Store, to int) {
	for {
		c, err := s.Changed(ctx)
		if err != nil {
			return
		}
		link.Send(to, wire.Hint, 0, wire.Encode(c))
	}
}

package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// client starts, sends, resolves and cancels through an engine, and logs the acknowledgements. It is used by many
// goroutines.
type client struct {
	name   string
	seed   uint64
	plants plants
	engine *stet.Engine
	acks   *journal
}

func (c *client) acknowledge(l line) error {
	l.Process = c.name
	return c.acks.append(l)
}

// indefinite reports whether a call's error leaves its effect open, or the store could not be reached: then nothing was
// acknowledged.
func indefinite(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) || errors.Is(err, stet.ErrPending) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// start starts the run of an ID. It returns no program if it is unknown whether
// the run was started.
func (c *client) start(ctx context.Context, id string) (*program, error) {
	_, err := treeRef.Start(ctx, c.engine, input{Seed: c.seed}, stet.ID(id))
	switch {
	case err == nil:
	case indefinite(err):
		return nil, nil
	default:
		return nil, fmt.Errorf("start %s: %w", id, err)
	}
	if c.plants.has(plantAck) {
		if err := c.acknowledge(line{Kind: ackStart, Run: id + "-never"}); err != nil {
			return nil, err
		}
	}
	return newProgram(c.seed, id), c.acknowledge(line{Kind: ackStart, Run: id})
}

// sendAll sends the run all the messages that it waits for, in order, with pauses of up to slow in between. It ends
// early when the run has ended.
func (c *client) sendAll(ctx context.Context, p *program, slow time.Duration) error {
	for _, n := range p.nodes {
		messages := 0
		switch n.kind {
		case kindReceive:
			messages = n.count
		case kindSelect:
			messages = 1
		}
		if c.plants.has(plantStuck) && messages > 0 {
			return nil
		}
		for i := range messages {
			if slow > 0 {
				if err := pause(ctx, rand.N(slow)); err != nil {
					return err
				}
			}
			ended, err := c.send(ctx, p, n, i)
			if err != nil || ended {
				return err
			}
		}
	}
	return nil
}

// send sends one message, until it is known to be there or the run has ended.
func (c *client) send(ctx context.Context, p *program, n *node, i int) (ended bool, err error) {
	key := fmt.Sprintf("%s/%d", n.message(), i)
	for {
		err := stet.Message[uint64](n.message()).Send(ctx, c.engine, p.runID, p.seedOf(n, i), stet.SendKey(key))
		switch {
		case err == nil && c.plants.has(plantSend):
			err = stet.Message[uint64](n.message()).Send(ctx, c.engine, p.runID, p.seedOf(n, i))
			return false, errors.Join(err, c.acknowledge(line{Kind: ackSend, Run: p.runID, Key: key}))
		case err == nil:
			return false, c.acknowledge(line{Kind: ackSend, Run: p.runID, Key: key})
		case errors.Is(err, stet.ErrTerminal):
			return true, nil
		case ctx.Err() != nil:
			return false, ctx.Err()
		case !indefinite(err):
			return false, fmt.Errorf("send %s to %s: %w", key, p.runID, err)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return false, err
		}
	}
}

// resolve resolves a promise with one of its two offers.
func (c *client) resolve(ctx context.Context, p *program, n *node, token string, which int) error {
	value := p.offer(n, which)
	for {
		err := c.engine.Resolve(ctx, token, value)
		switch {
		case err == nil:
			return c.acknowledge(line{Kind: ackResolve, Run: p.runID, Node: n.id, Value: value})
		case errors.Is(err, stet.ErrAlreadyResolved), errors.Is(err, stet.ErrTerminal), errors.Is(err, stet.ErrNotFound):
			return nil // the promise may have been taken back; a run that waits for one is found stuck
		case ctx.Err() != nil:
			return ctx.Err()
		case !indefinite(err):
			return fmt.Errorf("resolve %s of %s: %w", n.name(), p.runID, err)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// cancel requests the cancel, or the termination, of a run, and waits a while for the answer.
func (c *client) cancel(ctx context.Context, runID string, terminate bool) error {
	ctx, done := context.WithTimeout(ctx, 20*time.Second)
	defer done()
	verb := c.engine.Runs().Cancel
	if terminate {
		verb = c.engine.Runs().Terminate
	}
	granted, err := verb(ctx, runID, stet.Act{Why: "torture"})
	switch {
	case granted:
		return c.acknowledge(line{Kind: ackCancel, Run: runID})
	case errors.Is(err, stet.ErrNotFound):
		return fmt.Errorf("cancel %s: %w", runID, err)
	}
	return nil // not granted, or unknown: nothing was promised
}

// await waits for the end of a run and logs it.
func (c *client) await(ctx context.Context, runID string) error {
	for {
		info, err := c.engine.Runs().Wait(ctx, runID)
		switch {
		case err == nil:
			return c.acknowledgeEnd(info.ID, info.Status, info.Output.Bytes())
		case ctx.Err() != nil:
			return ctx.Err()
		case !indefinite(err):
			return fmt.Errorf("wait for %s: %w", runID, err)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// acknowledgeEnd logs that a run was seen to have ended.
func (c *client) acknowledgeEnd(id string, status store.Status, output []byte) error {
	if status == store.Stalled {
		return nil // that is no end, and is found in the end
	}
	return c.acknowledge(line{Kind: ackEnd, Run: id, Status: status.String(), Value: textHash(string(output))})
}

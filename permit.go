package stet

import (
	"context"
	"fmt"

	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/steps"
)

// Permit has each attempt of a step wait for a permit of a queue (see
// QueueSettings), so that a limit holds for the steps that use it, whichever runs
// they are of and whichever nodes execute those: at most so many calls of a service
// at a time, in all and for each key, and so many a minute. It is an option of Step,
// Do and TxStep.
//
// An attempt has its permit from before its body begins until its end is recorded; a
// retry waits for another one. While it waits the run may be suspended, and costs
// nothing. A cancel ends the waiting, except of a step whose end must be known: one
// with an Undo, or a TxStep. Retry.Overall counts the waiting, Retry.Timeout does
// not. An attempt that was lost with its process is executed again with the permit
// that it had. A run that is paused or stalled keeps the permits that it has or gets
// meanwhile; one that is cancelled, terminated or rewound gives them back.
//
// A body that goes on after its attempt has timed out or was cancelled has no permit
// any more: let it heed its context.
//
// A step that uses a queue which does not exist waits until Queues.Create has made it; the
// log says so once a minute. Runs may be started on the same queue; a permit is a permit.
type Permit struct {
	// Queue is its name, 1 to 64 bytes.
	Queue string
	// Key and Priority are those of OnQueue.
	Key      string
	Priority int
	// Cost is how many units of the queue's Rate and RatePerKey an attempt takes, as the
	// tokens of a request; it is 1 for the Concurrency. What costs more than a rate allows
	// waits until nothing counts any more. Default 1, at most 1,000,000,000. Spent corrects
	// it.
	Cost int
}

// PerNode has a node execute at most Limit attempts of the name at a time: as many as its
// graphics card, its memory or its disk can bear. The name is shared by all steps that give
// it, of whichever runs. It is an option of Step, Do and TxStep.
//
// It is no queue: nothing is created or stored, each process counts for itself, and those that
// wait begin in the order in which they came, whatever their priority. An attempt that waits
// has no place of Config.MaxSteps, and its Retry.Timeout has not begun; a Permit that the step
// has as well it holds while it waits. The name is 1 to 64 bytes, the limit at least 1.
type PerNode struct {
	Name  string
	Limit int
}

func (p PerNode) applyStep(o *stepOptions) { o.local = &p }

func (p *PerNode) check() error {
	if p == nil {
		return nil
	}
	if p.Limit < 1 {
		return fmt.Errorf("PerNode: expected a limit of at least 1, found %d: %w", p.Limit, ErrInvalid)
	}
	return checkName("PerNode", p.Name)
}

// OnStepQueue is a Permit of a queue without a key, of priority 0.
func OnStepQueue(queue string) Permit { return Permit{Queue: queue} }

func (p Permit) applyStep(o *stepOptions) { o.permit = &p }

// place checks the permit; nil is none.
func (p *Permit) place() (*permit.Place, error) {
	if p == nil {
		return nil, nil
	}
	if err := checkPlace("Permit", p.Queue, p.Key, p.Priority); err != nil {
		return nil, err
	}
	if p.Cost < 0 || p.Cost > maxRate {
		return nil, fmt.Errorf("Permit: expected a cost of 1 to %d, found %d: %w", maxRate, p.Cost, ErrInvalid)
	}
	return &permit.Place{Queue: p.Queue, Key: p.Key, Priority: p.Priority, Cost: p.Cost}, nil
}

// Spent says how many units of its queue's rates the attempt has taken that ctx belongs to,
// where its Permit could only guess the Cost: the tokens that a model has really read. From 0
// to 1,000,000,000; of several calls the last one counts. It counts in place of the cost when
// the end of the attempt is recorded, as if it had been known when the permit was granted. An
// attempt that is lost with its process counts as its cost, and is executed again with the
// same permit.
// Outside a step, and in one without a Permit, it does nothing. The error is ErrInvalid.
func Spent(ctx context.Context, units int) error {
	if units < 0 || units > maxRate {
		return fmt.Errorf("spent: expected 0 to %d, found %d: %w", maxRate, units, ErrInvalid)
	}
	if a := steps.AttemptOf(ctx); a != nil {
		a.Spend(units)
	}
	return nil
}

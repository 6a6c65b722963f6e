package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// account is the input of a run that takes payments by updates, in ways that follow from the seed.
type account struct {
	Seed   uint64 `json:"seed"`
	Rounds int    `json:"rounds"` // that are behind it
	Total  int64  `json:"total"`
}

var accountRef = stet.Ref[account, int64](prefix + "account")

// payment asks an account to add an amount.
type payment struct {
	Key    string `json:"key"`
	Amount int64  `json:"amount"`
}

// booked is an item of the stream of an account: a payment that was added, and the new total.
type booked struct {
	Key   string `json:"key"`
	Total int64  `json:"total"`
}

var (
	payments = stet.Update[payment, int64](prefix + "payment")
	bookings = stet.Stream[booked](prefix + "bookings")

	errRefusedPayment = errors.New("payments are above zero")
)

// The kinds of answers, as in the acknowledgements.
const (
	answerBooked   = "booked"
	answerRefused  = "refused"
	answerFailed   = "failed"
	answerNone     = "unanswered"
	answerTooLate  = "too late" // the run had ended; nothing is kept of the request
	answerNotKnown = ""         // the asker was stopped before it knew
)

// paymentOf returns the n-th payment to an account. Of four one is refused, and of
// five one fails.
func paymentOf(runID string, n int) payment {
	p := payment{Key: fmt.Sprintf("payment-%d", n), Amount: 1 + int64(mix(textHash(runID), uint64(n))%1000)}
	switch {
	case n%4 == 3:
		p.Amount = -p.Amount
	case n%5 == 4:
		p.Amount *= 1000
	}
	return p
}

// accepts is what an account refuses payments by.
func accepts(_ stet.Context, p payment) error {
	if p.Amount <= 0 {
		return errRefusedPayment
	}
	return nil
}

// book is an account at work.
type book struct {
	*execution
	account
	applied int // payments so far
}

// account is the workflow of the accounts.
func (w *worker) account() *stet.Workflow[account, int64] {
	return stet.Define(accountRef.Name(), func(ctx stet.Context, in account) (int64, error) {
		b := &book{execution: &execution{worker: w, program: &program{runID: stet.RunID(ctx)}}, account: in}
		for last := 3 + int(in.Seed%3); b.Rounds < last; {
			way := mix(in.Seed, uint64(b.Rounds)) >> 16 % 5
			b.Rounds++
			if way == 4 && b.Rounds > 1 && b.Rounds < last { // unanswered requests stay so
				return 0, stet.ContinueAsNew(b.account)
			}
			if err := b.round(ctx, way); err != nil {
				return 0, err
			}
		}
		return b.Total, nil
	})
}

// round takes a payment, or several, in one of the ways in which updates are taken.
func (b *book) round(ctx stet.Context, way uint64) error {
	no := fmt.Sprint(b.Rounds)
	within := time.Duration(50+mix(b.Seed, uint64(b.Rounds))%400) * time.Millisecond
	switch way {
	case 0: // a desk that is closed after a while
		round := stet.Go(ctx, "round-"+no, func(ctx stet.Context) (any, error) {
			stet.Go(ctx, "desk", func(ctx stet.Context) (any, error) { return nil, payments.Serve(ctx, b.accepts(), b.add) })
			return nil, stet.Sleep(ctx, "open", within)
		})
		return stet.Join(ctx, round)
	case 1:
		var r *stet.Request[payment, int64]
		won, err := stet.Select(ctx, payments.Case(&r, stet.Key(no)), stet.AfterDelay("enough-"+no, within))
		if err != nil || won != 0 {
			return err
		}
		return b.take(ctx, r)
	}
	r, err := payments.Receive(ctx, stet.Key(no))
	if err != nil {
		return err
	}
	return b.take(ctx, r)
}

// take answers a request.
func (b *book) take(ctx stet.Context, r *stet.Request[payment, int64]) error {
	if err := b.accepts()(ctx, r.Value); err != nil {
		return r.Reject(ctx, err)
	}
	total, err := b.add(ctx, r.Value)
	switch {
	case errors.Is(err, stet.ErrCancelled):
		return err
	case err != nil:
		return r.Fail(ctx, err)
	}
	return r.Answer(ctx, total)
}

// accepts is the validator, perhaps with a defect.
func (b *book) accepts() func(stet.Context, payment) error {
	if !b.plants.has(plantAccept) {
		return accepts
	}
	return func(ctx stet.Context, p payment) error {
		err := accepts(ctx, p)
		if err != nil {
			_, addErr := b.add(ctx, p)
			err = errors.Join(err, addErr)
		}
		return err
	}
}

// add adds a payment, and says so in the stream: in the commit that holds the answer.
func (b *book) add(ctx stet.Context, p payment) (int64, error) {
	b.applied++
	if p.Amount > 1000 {
		return 0, stet.Do(ctx, "fail", func(context.Context) error { return stet.Permanent(errPlanned) },
			stet.Key(fmt.Sprint(b.Rounds, "-", b.applied)))
	}
	if _, err := b.step(ctx, "add", 0, 3*uint64(b.applied)+1, nil,
		stet.Key(fmt.Sprint(b.Rounds, "-", b.applied))); err != nil {
		return 0, err
	}
	b.Total += p.Amount
	times := 1
	switch {
	case b.plants.has(plantTwoFold):
		times = 2
	case b.plants.has(plantDeaf):
		times = 0
	}
	for range times {
		if err := bookings.Append(ctx, booked{p.Key, b.Total}); err != nil {
			return 0, err
		}
	}
	return b.Total, nil
}

// accountID is the ID of the n-th account that a process opens.
func accountID(seed uint64, process string, n int) string {
	return fmt.Sprintf("%saccount-%016x-%s-%d", prefix, seed, process, n)
}

// open opens an account. It reports whether it is known to be there.
func (c *client) open(ctx context.Context, id string) (bool, error) {
	_, err := accountRef.Start(ctx, c.engine, account{Seed: mix(c.seed, textHash(id))}, stet.ID(id))
	switch {
	case err == nil:
		return true, c.acknowledge(line{Kind: ackAccount, Run: id})
	case indefinite(err):
		return false, nil
	}
	return false, fmt.Errorf("start %s: %w", id, err)
}

// pay asks an account to add a payment until the answer is known, and logs it. Now and
// then it asks for a second time, with the same key.
func (c *client) pay(ctx context.Context, runID string, p payment) (answer string, err error) {
	for asked, unheard, most := 0, 0, 1+rand.IntN(3)/2; asked < most; {
		answer, total, err := c.ask(ctx, runID, p, p.Key, unheard)
		switch {
		case err != nil:
			return answer, err
		case answer == answerTooLate && asked == 0:
			return answer, nil // it has never got there
		case answer == answerNotKnown:
			unheard++
			if err := pause(ctx, 20*time.Millisecond); err != nil {
				return answer, nil
			}
			continue
		}
		if err := c.acknowledge(line{Kind: ackUpdate, Run: runID, Key: p.Key, Status: answer,
			Value: uint64(total)}); err != nil {
			return answer, err
		}
		if asked++; asked == most {
			return answer, nil
		}
		if c.plants.has(plantAnswer) {
			if _, total, err = c.ask(ctx, runID, p, p.Key+"-again", unheard); err != nil {
				return answer, err
			}
			err := c.acknowledge(line{Kind: ackUpdate, Run: runID, Key: p.Key, Status: answer, Value: uint64(total)})
			return answer, err
		}
	}
	return answer, nil
}

// ask asks once, and waits for the answer as long as its patience lasts: the longer the more often there was none. A
// store that is slow would otherwise never answer in time.
func (c *client) ask(
	ctx context.Context, runID string, p payment, key string, unheard int,
) (answer string, total int64, err error) {
	ctx, done := context.WithTimeout(ctx, 20*time.Millisecond+rand.N(2*time.Second<<min(unheard/2, 5)))
	defer done()
	total, err = payments.Call(ctx, c.engine, runID, p, stet.SendKey(key))
	var failed *stet.Failure
	switch {
	case err == nil:
		return answerBooked, total, nil
	case errors.Is(err, stet.ErrRefused):
		return answerRefused, 0, nil
	case errors.Is(err, stet.ErrUnanswered):
		return answerNone, 0, nil
	case errors.Is(err, stet.ErrTerminal):
		return answerTooLate, 0, nil
	case indefinite(err):
		return answerNotKnown, 0, nil
	case errors.As(err, &failed):
		return answerFailed, 0, nil
	}
	return "", 0, fmt.Errorf("update %s of %s: %w", key, runID, err)
}

// pendingPayments is how many payments to an account wait for their answers at most: more than its desks may have taken
// along, and so few that those of all accounts do not keep the store from answering any.
const pendingPayments = 16

// payAll pays one payment after the other until the account is closed. A payment that is
// not answered soon is left to itself: a desk that was closed may have taken it along.
func (c *client) payAll(ctx context.Context, runID string) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var paying sync.WaitGroup
	defer paying.Wait()
	closed := errors.New("the account is closed")
	pending := make(chan struct{}, pendingPayments)
	for n := 0; ctx.Err() == nil; n++ {
		select {
		case pending <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		answered := make(chan struct{})
		paying.Go(func() {
			defer close(answered)
			defer func() { <-pending }()
			answer, err := c.pay(ctx, runID, paymentOf(runID, n))
			switch {
			case err != nil && ctx.Err() == nil:
				stop(err)
			case answer == answerTooLate:
				stop(closed)
			}
		})
		select {
		case <-answered:
		case <-time.After(200*time.Millisecond + rand.N(200*time.Millisecond)):
		}
	}
	if err := context.Cause(ctx); err != closed && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// keepPaying opens accounts and pays to them until ctx ends; payments that are due then are paid nevertheless.
func (h *harness) keepPaying(ctx context.Context) error {
	for n := 0; pause(ctx, rand.N(400*time.Millisecond)) == nil; n++ {
		id := accountID(h.cfg.Seed, h.client.name, n)
		there, err := h.client.open(ctx, id)
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		h.attend(func(ctx context.Context) error { return h.client.payAll(ctx, id) })
		if textHash(id)%8 == 0 {
			h.attend(func(ctx context.Context) error { return h.endListener(ctx, id) })
		}
	}
	return nil
}

// payAccounts pays to all accounts that are open, until ctx ends: those of killed processes have no other payer.
func (h *harness) payAccounts(ctx context.Context) error {
	known := map[string]bool{}
	for {
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
		page, err := h.db.List(ctx, store.Filter{
			Workflows: []string{accountRef.Name()}, Statuses: []store.Status{store.Queued, store.Running, store.Suspended},
			Limit: store.MaxPage,
		})
		if err != nil && !indefinite(err) {
			return err
		}
		for i := range page.Runs {
			id := page.Runs[i].ID
			if known[id] {
				continue
			}
			known[id] = true
			h.attend(func(ctx context.Context) error { return h.client.payAll(ctx, id) })
		}
	}
}

// keepPaying opens an account now and then and pays a little to it, as a process does
// that may be killed between a request and its answer.
func (w *worker) keepPaying(ctx context.Context, c *client) error {
	for n := 0; pause(ctx, 100*time.Millisecond+rand.N(time.Second)) == nil; n++ {
		id := accountID(w.seed, w.name, n)
		there, err := c.open(ctx, id)
		if err == nil && there {
			soon, done := context.WithTimeout(ctx, rand.N(2*time.Second))
			err = c.payAll(soon, id)
			done()
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// answers are the answers that askers have got to one payment, in the order of the log.
type answers map[string][]line // by key

// checkUpdates checks that every answered payment is booked once with the answer, that no other one is, and that a
// repeated request gets the same answer.
func (a *audit) checkUpdates(ctx context.Context, acks []placed) error {
	got := map[string]answers{} // by run
	opened := map[string]bool{}
	for _, ack := range acks {
		switch ack.Kind {
		case ackAccount:
			opened[ack.Run] = true
		case ackUpdate:
			if got[ack.Run] == nil {
				got[ack.Run] = answers{}
			}
			got[ack.Run][ack.Key] = append(got[ack.Run][ack.Key], ack.line)
		}
	}
	f := store.Filter{IDPrefix: fmt.Sprintf("%saccount-%016x-", prefix, a.cfg.Seed), Limit: store.MaxPage, Values: true}
	for {
		page, err := a.db.List(ctx, f)
		if err != nil {
			return err
		}
		for i := range page.Runs {
			r := &page.Runs[i]
			delete(opened, r.ID)
			if err := a.checkAccount(ctx, r, got[r.ID]); err != nil {
				return err
			}
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			break
		}
	}
	for id := range opened {
		a.report.violated(acknowledgedLost, "account %s was opened, and is not there", id)
	}
	return nil
}

// checkAccount checks one account.
func (a *audit) checkAccount(ctx context.Context, r *store.Run, got answers) error {
	a.report.count("accounts: "+r.Status.String(), 1)
	switch {
	case r.Status == store.Stalled:
		a.stalled(r, "account %s", r.ID)
	case !r.Status.Terminal():
		a.report.violated(stuck, "account %s is %s and waits for %s", r.ID, r.Status, r.Waits)
	case r.Status == store.Failed:
		a.report.violated(wrongResults, "account %s has failed: %s", r.ID, r.Output)
	}
	items, err := bookings.Items(ctx, a.client.engine, r.ID, 0, store.MaxPage)
	if err != nil {
		return err
	}
	total, totals := int64(0), map[string]int64{}
	for _, it := range items {
		b := it.Value
		if _, twice := totals[b.Key]; twice {
			a.report.violated(duplicated, "account %s has booked %s twice", r.ID, b.Key)
			continue
		}
		var n int
		if _, err := fmt.Sscanf(b.Key, "payment-%d", &n); err != nil {
			return fmt.Errorf("a booking of account %s: %w", r.ID, err)
		}
		if total += paymentOf(r.ID, n).Amount; b.Total != total {
			a.report.violated(wrongResults, "account %s came to %d by %s, expected %d", r.ID, b.Total, b.Key, total)
			total = b.Total
		}
		totals[b.Key] = b.Total
	}
	a.report.count("payments booked", len(items))
	for key, lines := range got {
		if err := a.checkAnswers(ctx, r, key, lines, totals); err != nil {
			return err
		}
	}
	return a.checkSteps(ctx, r)
}

// checkAnswers checks the answers to the requests for one payment.
func (a *audit) checkAnswers(ctx context.Context, r *store.Run, key string, lines []line,
	totals map[string]int64) error {
	first := lines[0]
	for _, again := range lines[1:] {
		if again.Status != first.Status || again.Value != first.Value {
			a.report.violated(otherAnswers, "account %s: %s was %s with %d to %s, and %s with %d to %s", r.ID, key,
				first.Status, int64(first.Value), first.Process, again.Status, int64(again.Value), again.Process)
		}
	}
	total, is := totals[key]
	switch {
	case first.Status == answerBooked && !is:
		a.report.violated(acknowledgedLost, "account %s: %s was acknowledged to %s, and is not booked",
			r.ID, key, first.Process)
	case first.Status == answerBooked && total != int64(first.Value):
		a.report.violated(otherAnswers, "account %s: %s came to %d, and %s got %d",
			r.ID, key, total, first.Process, int64(first.Value))
	case first.Status != answerBooked && is:
		a.report.violated(refusedApplied, "account %s: %s is booked, and %s got the answer that it is %s",
			r.ID, key, first.Process, first.Status)
	}
	a.report.count("payments "+first.Status, 1)
	if !r.Status.Terminal() {
		return nil // it is stuck, and may answer nothing
	}
	var n int
	if _, err := fmt.Sscanf(key, "payment-%d", &n); err != nil {
		return err
	}
	status, now := answerNotKnown, int64(0)
	for unheard := 0; status == answerNotKnown && ctx.Err() == nil; unheard++ {
		var err error
		if status, now, err = a.client.ask(ctx, r.ID, paymentOf(r.ID, n), key, unheard); err != nil {
			return err
		}
	}
	a.report.count("payments asked for again", 1)
	if status != first.Status || now != int64(first.Value) {
		a.report.violated(otherAnswers, "account %s: %s was %s with %d to %s, and in the end is %s with %d", r.ID, key,
			first.Status, int64(first.Value), first.Process, status, now)
	}
	return ctx.Err()
}

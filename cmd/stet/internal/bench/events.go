package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/client"
)

// tells shows each number that it is sent.
var tells = stet.Define(prefix+"tells", func(ctx stet.Context, _ int) (int, error) {
	for {
		n, err := stet.Message[int]("n").Receive(ctx)
		if err != nil || n < 0 {
			return n, err
		}
		if err := stet.Value[int]("n").Set(ctx, n); err != nil {
			return n, err
		}
	}
})

const (
	toldRuns   = 100 // whose events are timed, a connection for each twenty of them
	toldRounds = 5   // numbers that each is sent
	toldWindow = 20  // numbers that the run with many followers is sent, a second apart
)

// commits knows when the last turn of each run was committed.
type commits struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (c *commits) turn(run stet.RunEvent, _ stet.TurnInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at[run.ID] = time.Now()
}

// since returns the time since the run's last turn; 0 if that was before the given time: its
// commit is not reported yet.
func (c *commits) since(run string, sent time.Time) time.Duration {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at[run].Before(sent) {
		return 0
	}
	return now.Sub(c.at[run])
}

// measureEvents measures how long after a commit a follower is told of it, with a server in the
// process that executes and in another one, and what an event costs.
func measureEvents(ctx context.Context, cfg *Config, followers int, out section) error {
	known := &commits{at: map[string]time.Time{}}
	s, err := cfg.serve(ctx, func(c *stet.Config) { c.Observer = &stet.Observer{Turn: known.turn} }, tells)
	if err != nil {
		return err
	}
	return s.closing(ctx, func(ctx context.Context) error {
		runs := make([]string, min(toldRuns, cfg.Runs))
		for i := range runs {
			runs[i] = fmt.Sprint(prefix, "told-", i)
			if _, err := tells.Start(ctx, s.Engine, 0, stet.ID(runs[i])); err != nil {
				return err
			}
		}
		places := []struct {
			name string
			gate float64
			at   *stet.Engine
		}{{"the same process", 50, s.Engine}}
		d, err := s.Engine.Describe(ctx)
		if err != nil {
			return err
		}
		if d.Kind != "memory" {
			apart, err := cfg.Open(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = apart.Close() }()
			e, err := stet.New(ctx, stet.Config{Store: apart})
			if err != nil {
				return err
			}
			places = append(places, places[0])
			places[1].name, places[1].gate, places[1].at = "another process", 1500, e
		}
		for turn, p := range places {
			lags, err := tellAll(ctx, s.Engine, p.at, runs, turn*(toldRounds+1), known)
			if err != nil {
				return fmt.Errorf("events by %s: %w", p.name, err)
			}
			p50, p99 := percentile(lags, 50), percentile(lags, 99)
			out.figure("commit to event p50, "+p.name, milliseconds(p50), "ms")
			out.figure("commit to event p99, "+p.name, milliseconds(p99), "ms")
			out.atMost("commit to event p99, "+p.name, milliseconds(p99), p.gate, "ms")
		}
		each, err := tellMany(ctx, s.Engine, runs[0], followers, min(toldWindow, cfg.Runs))
		if err != nil || each == 0 {
			return err
		}
		out.figure("processor for an event", float64(each.Nanoseconds())/1000, "us")
		out.atMost("processor for an event", float64(each.Nanoseconds())/1000, 40, "us")
		return nil
	})
}

// tellAll sends numbers to all runs, at random moments of a second, and returns the times between
// their commits and the events, of all but the first number.
func tellAll(ctx context.Context, e, at *stet.Engine, runs []string, base int, known *commits) (
	lags []time.Duration, err error,
) {
	address, stop, err := mount(at)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	c, err := client.New("http://"+address, client.Options{})
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex // guards lags and sent
	sent := map[string]time.Time{}
	arrived := make(chan struct{}, len(runs)) // a token for each event of a round
	var number atomic.Int64
	for from := 0; from < len(runs); from += 20 {
		subjects := client.Subjects{Runs: runs[from:min(from+20, len(runs))]}
		go func() { // it ends with ctx
			_ = c.Follow(ctx, subjects, func(event client.Event) error {
				var v api.RunValue
				if event.Name != "value" || json.Unmarshal(event.Data, &v) != nil ||
					string(v.Value) != fmt.Sprint(number.Load()) {
					return nil
				}
				mu.Lock()
				lags = append(lags, known.since(v.RunID, sent[v.RunID]))
				mu.Unlock()
				arrived <- struct{}{}
				return nil
			})
		}()
	}
	for round := range toldRounds + 1 {
		number.Store(int64(base + round + 1))
		if round == 1 {
			mu.Lock()
			lags = lags[:0] // the first number shows that all follow
			mu.Unlock()
		}
		for i, pause := range rand.Perm(len(runs)) {
			go func() { // it ends before its event comes
				time.Sleep(time.Duration(pause) * time.Second / time.Duration(len(runs)))
				mu.Lock()
				sent[runs[i]] = time.Now()
				mu.Unlock()
				_ = stet.Message[int]("n").Send(ctx, e, runs[i], int(number.Load()))
			}()
		}
		for range runs {
			select {
			case <-arrived:
			case <-ctx.Done():
				return nil, fmt.Errorf("round %d: not all events came: %w", round, ctx.Err())
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	return lags, nil
}

// tellMany sends numbers to a run with many followers, and returns what the process has used for
// each event that one of them was told, with the client's end; 0 if that cannot be known here.
func tellMany(ctx context.Context, e *stet.Engine, run string, followers, numbers int) (each time.Duration, err error) {
	address, stop, err := mount(e)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var told atomic.Int64
	for range followers {
		c, err := follow(ctx, address, "run="+url.QueryEscape(run))
		if err != nil {
			return 0, err
		}
		defer func() { _ = c.Close() }()
		go countEvents(c, &told) // it ends with the connection
	}
	if err := pause(ctx, 3*time.Second); err != nil { // each has its first round
		return 0, err
	}
	before, known := used()
	told.Store(0)
	for i := range numbers {
		if err := stet.Message[int]("n").Send(ctx, e, run, 1000+i); err != nil {
			return 0, err
		}
		if err := pause(ctx, time.Second); err != nil {
			return 0, err
		}
	}
	after, _ := used()
	events := told.Load()
	switch {
	case events == 0:
		return 0, errors.New("followers: no event was told")
	case !known:
		return 0, nil
	}
	return (after.processor - before.processor) / time.Duration(events), nil
}

func countEvents(c net.Conn, told *atomic.Int64) {
	lines := bufio.NewReaderSize(c, 4<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			continue // the data of an event, which nobody wants
		}
		if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
			return
		}
		if strings.HasPrefix(string(line), "event: ") {
			told.Add(1)
		}
	}
}

package bench

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/stet-run/stet"
)

// troubles counts what an engine should have none of.
type troubles struct {
	errors atomic.Int64 // that it has logged
	lost   atomic.Int64 // leases of shards
}

// count makes an engine with the settings be counted. It is not alone: it goes on after it has lost leases.
func (t *troubles) count(settings *stet.Config) {
	settings.Exclusive = false
	settings.Logger = slog.New(errorCounter{settings.Logger.Handler(), &t.errors})
	settings.Observer = &stet.Observer{Lease: func(l stet.LeaseInfo) {
		if l.Event == stet.LeaseLost {
			t.lost.Add(int64(len(l.Shards)))
		}
	}}
}

// errorCounter counts what an engine logs as an error, and passes on what the logger wants.
type errorCounter struct {
	slog.Handler
	errors *atomic.Int64
}

func (h errorCounter) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelError || h.Handler.Enabled(ctx, level)
}

func (h errorCounter) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError {
		h.errors.Add(1)
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h errorCounter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return errorCounter{h.Handler.WithAttrs(attrs), h.errors}
}

func (h errorCounter) WithGroup(name string) slog.Handler {
	return errorCounter{h.Handler.WithGroup(name), h.errors}
}

// slowlogLook is the time between two looks at a slow log. It keeps 128 entries by default, and a server
// executes ten in that time of those that it logs by default, which take 10 ms and more.
const slowlogLook = 100 * time.Millisecond

// slowScripts watches the slow logs of Redis servers, whose settings it leaves alone.
type slowScripts struct {
	client    rueidis.Client
	threshold time.Duration    // what is faster is in no log
	last      map[string]int64 // the last entry that was seen, by the server's address
	slowest   time.Duration    // of the scripts that were seen
}

// watchScripts watches the scripts of the server until the returned function is called. That returns a time that no
// script has exceeded: of the slowest, or from which on the server logs. It is 0 for a store that is not on Redis, and
// where the log cannot be read.
func (cfg *Config) watchScripts(ctx context.Context) (stop func() time.Duration) {
	if cfg.Redis == "" {
		return func() time.Duration { return 0 }
	}
	w := &slowScripts{last: map[string]int64{}}
	ctx, end := context.WithCancel(ctx)
	begun, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- w.watch(ctx, cfg.Redis, begun) }()
	<-begun
	return func() time.Duration {
		end()
		if err := <-ended; err != nil {
			cfg.Log.Warn("the slow log of the server cannot be read", "error", err)
			return 0
		}
		return max(w.slowest, w.threshold)
	}
}

// watch looks at the logs until ctx ends. It closes begun when it knows what was logged before, or fails.
func (w *slowScripts) watch(ctx context.Context, url string, begun chan<- struct{}) error {
	once := sync.OnceFunc(func() { close(begun) })
	defer once()
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return err
	}
	option.DisableCache = true
	if w.client, err = rueidis.NewClient(option); err != nil {
		return err
	}
	defer w.client.Close()
	looking := context.WithoutCancel(ctx) // the last look is after its end
	if err := w.begin(looking); err != nil {
		return err
	}
	once()
	for pause(ctx, slowlogLook) == nil {
		if err := w.look(looking); err != nil {
			return err
		}
	}
	return w.look(looking)
}

// begin reads from which time on the servers log, and what was logged before.
func (w *slowScripts) begin(ctx context.Context) error {
	const name = "slowlog-log-slower-than"
	for addr, node := range w.client.Nodes() {
		settings, err := node.Do(ctx, node.B().ConfigGet().Parameter(name).Build()).AsStrMap()
		if err != nil {
			return err
		}
		us, err := strconv.Atoi(settings[name])
		if err != nil || us < 0 {
			return fmt.Errorf("%s of %s: expected a number of microseconds, found %q: its slow log is off", name, addr,
				settings[name])
		}
		w.threshold = max(w.threshold, time.Duration(us)*time.Microsecond)
		w.last[addr] = -1
	}
	if err := w.look(ctx); err != nil {
		return err
	}
	w.slowest = 0
	return nil
}

// look reads what the servers have logged since the last look.
func (w *slowScripts) look(ctx context.Context) error {
	for addr, node := range w.client.Nodes() {
		entries, err := node.Do(ctx, node.B().SlowlogGet().Count(1000).Build()).ToArray()
		if err != nil {
			return err
		}
		last, oldest := w.last[addr], int64(0)
		for i := range entries { // the newest first
			fields, err := entries[i].ToArray()
			if err != nil || len(fields) < 4 {
				return fmt.Errorf("an entry of %d fields: %w", len(fields), err)
			}
			no, err := fields[0].AsInt64()
			if err != nil {
				return err
			}
			if i == 0 {
				w.last[addr] = max(last, no)
			}
			if oldest = no; no <= last {
				break
			}
			us, err := fields[2].AsInt64()
			if err != nil {
				return err
			}
			words, err := fields[3].AsStrSlice()
			if err != nil {
				return err
			}
			if len(words) > 0 && strings.HasPrefix(strings.ToUpper(words[0]), "EVAL") {
				w.slowest = max(w.slowest, time.Duration(us)*time.Microsecond)
			}
		}
		if last >= 0 && oldest > last+1 {
			return fmt.Errorf("%s logs more in %s than it keeps: raise slowlog-log-slower-than or slowlog-max-len", addr,
				slowlogLook)
		}
	}
	return nil
}

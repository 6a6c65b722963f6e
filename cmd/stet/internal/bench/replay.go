package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// The roles of the processes of workload replay, for Config.Child.
const (
	roleBuild  = "build"
	roleReplay = "replay"
)

// replayed is a line that a child of workload replay prints.
type replayed struct {
	RunID string        `json:"run_id"` // built and waiting, or ended
	Took  time.Duration `json:"took_ns"`
}

// history is a workflow of so many steps and then a wait.
func history(steps int) *stet.Workflow[payload, payload] {
	names := make([]string, steps)
	for i := range names {
		names[i] = fmt.Sprintf("step-%d", i)
	}
	return stet.Define(prefix+"replay", func(ctx stet.Context, p payload) (payload, error) {
		if _, err := takeSteps(ctx, names, p); err != nil {
			return p, err
		}
		return goOn.Receive(ctx)
	})
}

func measureReplay(ctx context.Context, cfg *Config, r *Report) error {
	if !cfg.shared() {
		return nil // of "all" on a store that has no next process
	}
	var whole, open []time.Duration
	for range cfg.Runs {
		if _, _, err := runChild(ctx, cfg, roleBuild); err != nil {
			return err
		}
		line, took, err := runChild(ctx, cfg, roleReplay)
		if err != nil {
			return err
		}
		whole, open = append(whole, took), append(open, line.Took)
	}
	out := r.section("replay", "%d steps, %d times", cfg.Steps, cfg.Runs)
	out.durations("process start to end of run", whole, 50, 100)
	out.durations("opening the store to end of run", open, 50, 100)
	took := milliseconds(percentile(open, 50))
	switch {
	case cfg.File == "": // how fast a server knows that a process is dead is in it
		out.atMost("opening the store to end of run p50", took, 100, "ms")
	case cfg.Steps <= 1000:
		out.atMost("opening the store to end of run p50", took, 20, "ms")
	case cfg.Steps <= 100_000:
		out.atMost("opening the store to end of run p50", took, 1500, "ms")
	}
	return nil
}

// runChild starts a child, waits for its line, and kills it. It returns the line
// and the time from the start until the line was there.
func runChild(ctx context.Context, cfg *Config, role string) (line replayed, took time.Duration, err error) {
	cmd := cfg.Child(ctx, role)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return line, 0, err
	}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return line, 0, err
	}
	text, readErr := bufio.NewReader(stdout).ReadBytes('\n')
	took = time.Since(begun)
	killErr := cmd.Process.Kill() // SIGKILL
	waitErr := cmd.Wait()
	if readErr != nil {
		return line, took, fmt.Errorf("child %s: %w: %s", role, errors.Join(readErr, waitErr, killErr), complaint.String())
	}
	return line, took, json.Unmarshal(text, &line)
}

// Child is the work of a process made by Config.Child: it prints a line to out when its part is done, and then waits to
// be killed, or for the end of In. It needs Open, DB, In and Steps of the config.
func Child(ctx context.Context, cfg Config, role string, out io.Writer) error {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if strings.HasPrefix(role, roleNode) {
		return playNode(ctx, &cfg, role, out)
	}
	orDefault(&cfg.Steps, replaySteps)
	w := history(cfg.Steps)
	begun := time.Now()
	s, err := cfg.serve(ctx, func(c *stet.Config) {
		c.MaxEntries, c.MaxBytes = cfg.Steps+100, 1<<30
		c.Exclusive = cfg.File != "" // a server is yet to learn that the former process is dead
	}, w)
	if err != nil {
		return err
	}
	return s.closing(ctx, func(ctx context.Context) error {
		id, err := s.playPart(ctx, w, role)
		if err != nil {
			return err
		}
		line, err := json.Marshal(replayed{id, time.Since(begun)})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s\n", line); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
}

func (s *session) playPart(ctx context.Context, w *stet.Workflow[payload, payload], role string) (string, error) {
	switch role {
	case roleBuild:
		run, err := w.Start(ctx, s.Engine, newPayload(0))
		if err != nil {
			return "", err
		}
		return run.ID(), s.reached(ctx, w.Name(), store.Suspended, 1)
	case roleReplay:
		page, err := s.Store().List(ctx, store.Filter{Workflows: []string{w.Name()},
			Statuses: []store.Status{store.Suspended}})
		if err != nil {
			return "", err
		}
		if len(page.Runs) != 1 {
			return "", fmt.Errorf("expected one run that waits, found %d", len(page.Runs))
		}
		id := page.Runs[0].ID
		if err := goOn.Send(ctx, s.Engine, id, newPayload(1)); err != nil {
			return id, err
		}
		_, err = w.Handle(s.Engine, id).Wait(ctx)
		return id, err
	}
	return "", fmt.Errorf("%w: unknown part %q", ErrConfig, role)
}

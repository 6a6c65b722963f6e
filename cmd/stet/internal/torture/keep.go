package torture

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/files"
)

// payloads says how values are stored: compressed, encrypted by one of two keys, which all processes have, and in a
// folder if they are large.
func payloads(dir string, seed uint64, process string) (stet.Payloads, error) {
	objects, err := files.Open(filepath.Join(dir, "objects"))
	if err != nil {
		return stet.Payloads{}, err
	}
	p := stet.Payloads{Compress: 200, Objects: objects, Offload: store.LargeValue}
	for _, id := range []string{"one", "two"} {
		secret := sha256.Sum256(fmt.Appendf(nil, "%s of %d", id, seed))
		p.Keys = append(p.Keys, stet.PayloadKey{ID: id, Secret: secret[:]})
	}
	if textHash(process)%2 == 0 {
		p.Keys[0], p.Keys[1] = p.Keys[1], p.Keys[0]
	}
	return p, nil
}

// padOf is a part of some steps' results that is too large for the store.
func padOf(value uint64) string {
	if value%16 != 1 {
		return ""
	}
	random := rand.NewChaCha8(sha256.Sum256(fmt.Append(nil, value)))
	data := make([]byte, 6000)
	_, _ = random.Read(data) // never fails
	return hex.EncodeToString(data)
}

// briefRef is a workflow whose runs are deleted at once when they have ended.
var briefRef = stet.Ref[int, int](prefix + "brief")

func (w *worker) brief() *stet.Workflow[int, int] {
	return stet.Define(briefRef.Name(), func(ctx stet.Context, n int) (int, error) {
		return stet.Step(ctx, "add", func(context.Context) (int, error) { return n + 1, nil })
	}, stet.KeepFor(stet.AtOnce))
}

// least is how long a run is kept at least.
const least = time.Minute

// keepBrief starts runs that are not kept, until ctx ends.
func (h *harness) keepBrief(ctx context.Context) error {
	for i := 0; ; i++ {
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return nil
		}
		id := fmt.Sprintf("%sbrief-%016x-%d", prefix, h.cfg.Seed, i)
		if _, err := briefRef.Start(ctx, h.client.engine, i, stet.ID(id)); err == nil {
			h.mu.Lock()
			h.briefs = append(h.briefs, time.Now())
			h.mu.Unlock()
		} else if !indefinite(err) {
			return fmt.Errorf("start %s: %w", id, err)
		} else {
			h.mu.Lock()
			h.briefs = append(h.briefs, time.Time{})
			h.mu.Unlock()
		}
	}
}

// checkBrief checks that those runs have ended, and were not deleted too early.
func (a *audit) checkBrief(ctx context.Context) error {
	for i, begun := range a.briefs {
		if begun.IsZero() {
			continue // it is unknown whether it was started
		}
		id := fmt.Sprintf("%sbrief-%016x-%d", prefix, a.cfg.Seed, i)
		info, err := a.client.engine.Runs().Info(ctx, id)
		switch {
		case errors.Is(err, stet.ErrNotFound):
			a.report.count("runs deleted", 1)
			if age := time.Since(begun); age < least {
				a.report.violated(acknowledgedLost, "run %s was deleted %v after its start", id, age)
			}
			continue
		case err != nil:
			return err
		}
		a.report.count("runs that are kept a minute", 1)
		if info.Status != store.Succeeded {
			a.report.violated(stuck, "run %s is %s", id, info.Status)
			continue
		}
		got, err := briefRef.Handle(a.client.engine, id).Wait(ctx)
		switch {
		case errors.Is(err, stet.ErrNotFound) || info.Marks&store.Expiring != 0: // it is being deleted
		case err != nil:
			return err
		case got != i+1:
			a.report.violated(wrongResults, "run %s: expected %d, found %d", id, i+1, got)
		}
	}
	return nil
}

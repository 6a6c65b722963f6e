package stet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet/internal/entity/acts"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/store"
)

// Audit is the store's own: what operators did to queues, schedules, topics, dead letters,
// nodes, scripts and tokens. What they did to a run is in Runs.Audit, and who has deleted one
// in Runs.Deletions. Safe for concurrent use.
type Audit struct{ engine *Engine }

// AuditOf returns the own audit of the engine's store.
func AuditOf(e *Engine) Audit { return Audit{e} }

// AuditEntry is an act in the store's own audit.
type AuditEntry struct {
	Number store.ItemNo // grows with time
	At     time.Time
	By     string
	Verb   string
	About  string // as "queue mail"
	Why    string
}

// AuditFilter selects acts. The zero AuditFilter selects all.
type AuditFilter struct {
	By, Verb string       // exactly; "": anybody's, any
	About    string       // what About begins with, as "queue " or "queue mail"; "": all
	Before   store.ItemNo // only smaller numbers: the last one of the page before; 0: the newest
	Limit    int          // 0: store.DefaultPage
}

// List returns acts, newest first: of the last 90 days, and at most the last 10,000. An act is
// there as soon as the call that made it has returned; one whose process died right after it
// was carried out may be missing. ErrInvalid: a bad limit.
func (a Audit) List(ctx context.Context, f AuditFilter) ([]AuditEntry, error) {
	if f.Limit == 0 {
		f.Limit = store.DefaultPage
	}
	if f.Limit < 0 || f.Limit > store.MaxPage {
		return nil, fmt.Errorf("audit: limit: expected 1 to %d, found %d: %w", store.MaxPage, f.Limit, ErrInvalid)
	}
	run, ok, err := a.engine.inner.Get(ctx, acts.ID)
	if err != nil || !ok {
		return nil, err
	}
	// The inbox first: what is entered meanwhile is then read twice, and not missed.
	inbox, err := a.engine.store.Inbox(ctx, run.No)
	if err == nil {
		_, err = store.FillItems(ctx, a.engine.store, run.No, inbox)
	}
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	entries, err := a.engine.store.History(ctx, store.HistoryQuery{Run: run.No, Values: true})
	if err == nil {
		err = payload.ReadableEntries(entries)
	}
	var records []acts.Record
	if err == nil {
		records, err = acts.Read(entries, inbox)
	}
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	var list []AuditEntry
	for _, r := range slices.Backward(records) {
		switch {
		case f.By != "" && r.By != f.By, f.Verb != "" && r.Verb != f.Verb, !strings.HasPrefix(r.About, f.About),
			f.Before != 0 && r.No >= f.Before:
			continue
		case len(list) == f.Limit:
			return list, nil
		}
		list = append(list, AuditEntry{r.No, r.At.Time(), r.By, r.Verb, r.About, r.Why})
	}
	return list, nil
}

// maxAbout bounds what an act is about, in bytes.
const maxAbout = 300

// Note puts an act that an application has carried out into the audit, as package server does
// with logins. Errors: ErrInvalid for a bad act, a verb or an object of more than 300 bytes,
// and those of the store.
func (a Audit) Note(ctx context.Context, verb, about string, act Act) error {
	if err := act.check(); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if verb == "" || len(verb) > maxAbout || len(about) > maxAbout {
		return fmt.Errorf("audit: expected a verb and an object of at most %d bytes, found %.50q and %d bytes: %w", maxAbout,
			verb, len(about), ErrInvalid)
	}
	err := acts.Note(ctx, a.engine.inner, &acts.Record{
		By: cmp.Or(act.By, a.engine.node), Verb: verb, About: about, Why: act.Why,
	})
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

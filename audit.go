package stet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet/internal/entity/acts"
	"github.com/stet-run/stet/internal/entity/hooks"
	"github.com/stet-run/stet/internal/entity/tokens"
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
	At     time.Time    `json:",omitzero"`
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

// List returns acts, newest first: of the last 90 days, and at most the last 10,000. An act
// is there with its effect: one commit has both. On a store that is on several servers it may
// come a moment later. What the store does without a commit is there before: the removal of dead
// letters, and drain; if the process dies right then it may not have been done. ErrInvalid: a
// bad limit.
func (a Audit) List(ctx context.Context, f AuditFilter) ([]AuditEntry, error) {
	if f.Limit == 0 {
		f.Limit = store.DefaultPage
	}
	if f.Limit < 0 || f.Limit > store.MaxPage {
		return nil, fmt.Errorf("audit: limit: expected 1 to %d, found %d: %w", store.MaxPage, f.Limit, ErrInvalid)
	}
	// Acts on tokens and hooks count before their entity has entered them. They are read first:
	// what is entered meanwhile is then read twice, and not missed.
	attached, err := a.attached(ctx, tokens.ID, hooks.ID)
	var entered []acts.Record
	if err == nil {
		entered, err = a.entered(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	attached = slices.DeleteFunc(attached, func(r acts.Record) bool {
		return slices.ContainsFunc(entered, func(e acts.Record) bool { return e.ID == r.ID })
	})
	// A record gets a new number when it is entered. So a record that is not entered yet is the later one, whatever its
	// number.
	byNumber := func(a, b acts.Record) int { return cmp.Compare(a.No, b.No) }
	slices.SortFunc(attached, byNumber)
	slices.SortFunc(entered, byNumber)
	// The page before may have ended amid those.
	amid := slices.ContainsFunc(attached, func(r acts.Record) bool { return r.No == f.Before })
	var list []AuditEntry
	for i, r := range slices.Backward(append(slices.Clone(entered), attached...)) {
		switch {
		case f.By != "" && r.By != f.By, f.Verb != "" && r.Verb != f.Verb, !strings.HasPrefix(r.About, f.About),
			// On a later page all that was not entered is left out, or the rest of it comes before all that was.
			f.Before != 0 && i >= len(entered) && (!amid || r.No >= f.Before),
			f.Before != 0 && i < len(entered) && !amid && r.No >= f.Before:
			continue
		case len(list) == f.Limit:
			return list, nil
		}
		list = append(list, AuditEntry{r.No, r.At.Time(), r.By, r.Verb, r.About, r.Why})
	}
	return list, nil
}

// entered returns what the audit's own entity has, oldest first.
func (a Audit) entered(ctx context.Context) ([]acts.Record, error) {
	run, ok, err := a.engine.inner.Get(ctx, acts.ID)
	if err != nil || !ok {
		return nil, err
	}
	// The inbox first: what is entered meanwhile is then read twice, and not missed.
	inbox, err := a.inbox(ctx, run.No)
	if err != nil {
		return nil, err
	}
	entries, err := a.engine.store.History(ctx, store.HistoryQuery{Run: run.No, Values: true})
	if err == nil {
		err = payload.ReadableEntries(entries)
	}
	if err != nil {
		return nil, err
	}
	return acts.Read(entries, inbox)
}

// attached returns the records that came to entities and that these have not entered.
func (a Audit) attached(ctx context.Context, entities ...string) (records []acts.Record, err error) {
	for _, id := range entities {
		run, ok, err := a.engine.inner.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		inbox, err := a.inbox(ctx, run.No)
		if err != nil {
			return nil, err
		}
		more, err := acts.Attached(inbox)
		if err != nil {
			return nil, err
		}
		records = append(records, more...)
	}
	return records, nil
}

// inbox returns the inbox of an entity, with all values.
func (a Audit) inbox(ctx context.Context, no store.RunNo) ([]store.Item, error) {
	inbox, err := a.engine.store.Inbox(ctx, no)
	if err == nil {
		_, err = store.FillItems(ctx, a.engine.store, no, inbox)
	}
	for i := range inbox {
		if err == nil {
			err = payload.Readable(inbox[i].Value)
		}
	}
	return inbox, err
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

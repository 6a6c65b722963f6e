package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet/store"
)

// promises are whether the settings of the servers are such that an acknowledgement holds. Servers restart with
// others, and another server may take the place of one. So they are read again after each new connection, before the
// next acknowledgement, and once a minute.
type promises struct {
	from    atomic.Bool              // Open has returned
	vouched atomic.Int64             // connections on which servers had spoken when the settings were found good
	broken  atomic.Pointer[error]    // why nothing is acknowledged; nil: nothing is wrong
	now     atomic.Pointer[settings] // as they were found last

	mu   sync.Mutex // held while they are read
	last time.Time  // when they were read
}

// promiseEvery is how often the settings are read again, and promiseRetry how often once they are wrong.
const promiseEvery, promiseRetry = time.Minute, time.Second

// promised refuses an act while the settings are wrong. what names it.
func (s *Store) promised(ctx context.Context, what string) error {
	p := &s.promises
	if p.broken.Load() == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.last) >= promiseRetry {
		_ = s.reread(ctx, nil)
	}
	if broken := p.broken.Load(); broken != nil {
		return fmt.Errorf("%s: %w: %s", what, store.ErrUnavailable, (*broken).Error())
	}
	return nil
}

// kept is called before an act is acknowledged. If there are new connections it reads the settings. An error says
// that the act is not acknowledged, though it may stand.
func (s *Store) kept(ctx context.Context, what string) error {
	p := &s.promises
	if !p.from.Load() || p.vouched.Load() == s.cfg.conns.heard.Load() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.vouched.Load() == s.cfg.conns.heard.Load() {
		return nil
	}
	if err := s.reread(ctx, p.now.Load()); err != nil {
		return fmt.Errorf("%s: %w: %w: the settings of the server were not confirmed: %s",
			what, store.ErrUnavailable, store.ErrUnknown, err.Error())
	}
	return nil
}

// reread reads the settings; last is as ask has it. p.mu is held.
func (s *Store) reread(ctx context.Context, last *settings) error {
	p := &s.promises
	p.last = time.Now()
	heard := s.cfg.conns.heard.Load()
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	limited := ctx
	if s.known.cluster { // a silent server stops its own runs alone
		limited, cancel = context.WithTimeout(ctx, leastSilence)
		defer cancel()
	}
	found, _, err := s.ask(ctx, limited, last)
	switch wrong := errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrSchema); {
	case wrong:
		if p.broken.Swap(&err) == nil {
			s.cfg.log.Error("the settings of the Redis server break promises: nothing is acknowledged until they are right",
				"error", err)
		}
		return err
	case err != nil:
		return err
	}
	p.vouched.Store(heard)
	if p.broken.Swap(nil) != nil {
		s.cfg.log.Info("the settings of the Redis server are right again")
	}
	if former := p.now.Swap(&found); former != nil && former.durable() != found.durable() {
		s.cfg.log.Warn("the settings of the Redis server have changed",
			"durable", found.durable(), "before", former.durable())
	}
	return nil
}

// durable describes in one line which acts survive, by what was found last.
func (s *Store) durable() string {
	if now := s.promises.now.Load(); now != nil {
		return now.durable()
	}
	return s.known.durable()
}

// watchPromises reads the settings from time to time, until life ends.
func (s *Store) watchPromises(life context.Context) {
	for pause(life, promiseEvery); life.Err() == nil; pause(life, promiseEvery) {
		s.promises.mu.Lock()
		if err := s.reread(life, nil); err != nil && life.Err() == nil && s.promises.broken.Load() == nil {
			s.cfg.log.Debug("reading the settings of the Redis server", "error", err)
		}
		s.promises.mu.Unlock()
	}
}

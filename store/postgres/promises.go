package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store"
)

// promises are whether the settings of the server are such that an acknowledgement holds. A server restarts with
// others, another one takes its place, and some change while it runs. So they are read with each connection that is
// made, and by a heartbeat once a minute. While they are wrong, nothing is changed and nothing acknowledged.
type promises struct {
	read  atomic.Int64          // when they were read last, as a time since begun
	wrong atomic.Pointer[error] // why Open would refuse the server; nil: it would not
}

// promiseEvery is how often the settings are read while they are right.
const promiseEvery = time.Minute

// due reports whether a heartbeat is to read them.
func (p *promises) due() bool {
	return p.wrong.Load() != nil || time.Since(begun)-time.Duration(p.read.Load()) >= promiseEvery
}

// refuse returns an error while they are wrong.
func (p *promises) refuse() error {
	if wrong := p.wrong.Load(); wrong != nil {
		return fmt.Errorf("%w: the settings of the server break promises: %s", store.ErrUnavailable, (*wrong).Error())
	}
	return nil
}

// confirm reads the settings.
func (s *Store) confirm(ctx context.Context, c *pgx.Conn) error {
	about, err := readServer(ctx, c)
	if err != nil {
		return err
	}
	p := &s.promises
	p.read.Store(int64(time.Since(begun)))
	if _, err = about.durable(s.cfg.lossy); errors.Is(err, store.ErrInvalid) {
		if p.wrong.Swap(&err) == nil {
			s.log.Error("the settings of the Postgres server break promises: nothing is acknowledged until they are right",
				"error", err)
		}
		return p.refuse()
	}
	if p.wrong.Swap(nil) != nil {
		s.log.Info("the settings of the Postgres server are right again")
	}
	return nil
}

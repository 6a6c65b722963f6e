package sqlite

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
)

// lapsing is a context whose time is over when it is asked for the nth time.
type lapsing struct {
	context.Context
	left atomic.Int64
	end  context.CancelFunc
}

func newLapsing(t *testing.T, n int64) *lapsing {
	ctx, end := context.WithCancel(t.Context())
	l := &lapsing{Context: ctx, end: end}
	l.left.Store(n)
	return l
}

func (l *lapsing) Err() error {
	if l.left.Add(-1) < 0 {
		l.end()
	}
	return l.Context.Err()
}

// TestContextThatEndsInTheMiddle of opening a connection, or of what is done with it: the
// error says so, and is not one of the driver's, wherever it ends.
func TestContextThatEndsInTheMiddle(t *testing.T) {
	s := open(t, testPath(t))
	for name, act := range map[string]func(ctx context.Context) error{
		"Describe": func(ctx context.Context) error { _, err := s.Describe(ctx); return err },
		"List":     func(ctx context.Context) error { _, err := s.List(ctx, store.Filter{}); return err },
		"Apply":    func(ctx context.Context) error { _, _, err := s.Apply(ctx, []store.Command{start("a")}); return err },
		"Schema":   func(ctx context.Context) error { _, err := ReadSchema(ctx, s.Path()); return err },
		"Open": func(ctx context.Context) error {
			other, err := Open(ctx, s.Path())
			if err == nil {
				err = other.Close()
			}
			return err
		},
	} {
		ended := 0
		for n := int64(0); ; n++ {
			if n == 1000 {
				t.Fatalf("%s does not come to its end", name)
			}
			if err := s.read.close(); err != nil { // so that a connection is opened
				t.Fatal(err)
			}
			ctx := newLapsing(t, n)
			err := act(ctx)
			ctx.end()
			if err == nil {
				break
			}
			if ended++; !errors.Is(err, context.Canceled) || errors.Is(err, sqlite3.INTERRUPT) {
				t.Errorf("%s, whose context ends when it is asked for the %dth time: %v", name, n, err)
			}
		}
		if ended == 0 {
			t.Errorf("%s never looks at its context", name)
		}
	}
}

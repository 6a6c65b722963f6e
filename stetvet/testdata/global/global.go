package global

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/stet-run/stet"
)

var (
	count   int
	cache   = map[string]int{}
	total   atomic.Int64
	plain   int64
	limit   = 3
	mode    string
	swapped = 1 // which only a test assigns
	errLost = errors.New("lost")
)

func init() { mode = "a" }

func bad(ctx stet.Context, k string) int {
	count++                    // want `global: a write of count`
	cache[k] = 1               // want `global: a write of cache`
	delete(cache, k)           // want `global: a write of cache`
	total.Add(1)               // want `global: atomic.Int64.Add`
	atomic.AddInt64(&plain, 1) // want `global: atomic.AddInt64`
	use()                      // want `global: use → a write of count`
	return cache[k]            // want `global: a read of cache, which changes`
}

func use() { count = 2 }

func good(ctx stet.Context, k string) (int, error) {
	err := stet.Do(ctx, "use", func(context.Context) error { use(); total.Add(1); return errLost })
	if mode == "a" {
		return limit, err
	}
	return 0, errLost
}

type counter struct{ n int64 }

func (c *counter) next() int64 { return atomic.AddInt64(&c.n, 1) }

// goodCounter is of the run.
func goodCounter(ctx stet.Context) int64 { return new(counter).next() }

func goodSwapped(ctx stet.Context) int { return swapped }

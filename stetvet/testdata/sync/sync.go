package sync

import (
	"context"
	"sync"

	"github.com/stet-run/stet"
)

var mu sync.Mutex

func bad(ctx stet.Context, wg *sync.WaitGroup, once *sync.Once) {
	mu.Lock()          // want `sync: sync.Mutex.Lock`
	once.Do(func() {}) // want `sync: sync.Once.Do`
	wg.Wait()          // want `sync: sync.WaitGroup.Wait`
}

// A library may lock what it shares.
func cached() int {
	mu.Lock()
	defer mu.Unlock()
	return 1
}

func good(ctx stet.Context) error {
	_ = cached()
	return stet.Do(ctx, "locked", func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		return nil
	})
}

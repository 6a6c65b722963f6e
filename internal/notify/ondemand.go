package notify

import (
	"context"
	"sync"
)

// onDemand runs a goroutine while it has users.
type onDemand struct {
	work func(context.Context) // returns soon after the context has ended

	mu    sync.Mutex
	users int
	stop  context.CancelFunc
	done  chan struct{} // closed when the latest goroutine has ended
}

// use keeps the goroutine running until the returned function is called. If that was the
// last use it also waits for the end of the goroutine.
func (d *onDemand) use() (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users++; d.users == 1 {
		former, done := d.done, make(chan struct{})
		ctx, cancel := context.WithCancel(context.Background())
		d.stop, d.done = cancel, done
		go func() {
			defer close(done)
			if former != nil {
				<-former
			}
			d.work(ctx)
		}()
	}
	return sync.OnceFunc(func() {
		d.mu.Lock()
		d.users--
		last, done := d.users == 0, d.done
		if last {
			d.stop()
		}
		d.mu.Unlock()
		if last {
			<-done
		}
	})
}

package resources

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestAnswersAreShared for a second, by all who ask the same; an error is nobody else's.
func TestAnswersAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shared[int]
		var reads atomic.Int64
		read := func() (int, error) {
			n := int(reads.Add(1))
			time.Sleep(time.Second / 10)
			return n, nil
		}
		for range 50 {
			go func() {
				if n, err := s.read(t.Context(), "a", read); n != 1 || err != nil {
					t.Errorf("one of many: %d, %v", n, err)
				}
			}()
		}
		time.Sleep(time.Second / 2)
		if n, err := s.read(t.Context(), "b", read); n != 2 || err != nil {
			t.Errorf("another question: %d, %v", n, err)
		}
		time.Sleep(time.Second)
		if n, err := s.read(t.Context(), "a", read); n != 3 || err != nil || len(s.answers) != 1 {
			t.Errorf("a second later: %d, %v, %d kept", n, err, len(s.answers))
		}
		gone, cancel := context.WithCancel(t.Context())
		failing := func() (int, error) {
			<-gone.Done()
			return 0, gone.Err()
		}
		go func() {
			if _, err := s.read(gone, "c", failing); !errors.Is(err, context.Canceled) {
				t.Errorf("one that leaves: %v", err)
			}
		}()
		synctest.Wait()
		go func() {
			time.Sleep(time.Second / 10)
			cancel()
		}()
		if n, err := s.read(t.Context(), "c", read); n != 4 || err != nil {
			t.Errorf("one that has waited for one that left: %d, %v", n, err)
		}
	})
}

package resources

import (
	"context"
	"errors"
	"sync"
	"time"
)

// sharedFor is how old an answer may be that several get.
const sharedFor = time.Second

var errNoAnswer = errors.New("no answer")

// shared has answers that all who ask the same within a second get.
type shared[T any] struct {
	mu      sync.Mutex
	answers map[string]*answer[T]
}

type answer[T any] struct {
	at    time.Time
	ready chan struct{} // is closed when it is there
	value T
	err   error
}

// read returns the answer to a question, which read gives if nobody has asked within a second.
// An error is of the one that has met it; others ask themselves.
func (s *shared[T]) read(ctx context.Context, question string, read func() (T, error)) (T, error) {
	s.mu.Lock()
	for key, a := range s.answers {
		if time.Since(a.at) >= sharedFor {
			delete(s.answers, key)
		}
	}
	a := s.answers[question]
	if a == nil {
		a = &answer[T]{at: time.Now(), ready: make(chan struct{})}
		if s.answers == nil {
			s.answers = map[string]*answer[T]{}
		}
		s.answers[question] = a
		s.mu.Unlock()
		a.err = errNoAnswer // if read panics
		defer close(a.ready)
		if a.value, a.err = read(); a.err != nil {
			s.mu.Lock()
			if s.answers[question] == a {
				delete(s.answers, question)
			}
			s.mu.Unlock()
		}
		return a.value, a.err
	}
	s.mu.Unlock()
	select {
	case <-a.ready:
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
	if a.err != nil {
		return read()
	}
	return a.value, nil
}

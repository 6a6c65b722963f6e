package topic

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/store"
)

// shelf is a store with one topic, and counts what is asked of it.
type shelf struct {
	known   bool
	stats   Stats
	reads   int
	refused []int64 // of which the topic was notified
	readers []store.Entry
	runs    []store.Run
	ended   []store.RunNo // of which the topic was notified
	err     error
}

func (s *shelf) Get(context.Context, string) (store.Run, bool, error) {
	if !s.known {
		return store.Run{}, false, s.err
	}
	return store.Run{No: 7}, true, s.err
}

func (s *shelf) Feeds(_ context.Context, q store.FeedQuery) ([]store.Feed, error) {
	s.reads++
	return []store.Feed{{Run: q.Runs[0], Name: q.Name, Value: event.Encode(&s.stats)}}, s.err
}

func (s *shelf) History(_ context.Context, q store.HistoryQuery) ([]store.Entry, error) {
	if q.After != "r" || !q.Values {
		return nil, errors.New("it reads more than readers")
	}
	return s.readers, s.err
}

func (s *shelf) List(_ context.Context, f store.Filter) (store.Page, error) {
	var page store.Page
	for i := range s.runs {
		if slices.Contains(f.Nos, s.runs[i].No) {
			page.Runs = append(page.Runs, s.runs[i])
		}
	}
	return page, s.err
}

func (s *shelf) Tell(_ context.Context, id string, it store.Item) (store.Answer, error) {
	if s.err != nil {
		return store.Answer{}, s.err
	}
	if it.Kind == store.ItemWithdraw {
		var e event.Ended
		err := event.Decode(it.Value, &e)
		s.ended = append(s.ended, e.Runs...)
		return store.Answer{}, err
	}
	var p event.Publication
	if err := event.Decode(it.Value, &p); err != nil || !p.Only || id != event.EntityID("orders") {
		return store.Answer{}, errors.New("it is told something else")
	}
	s.refused = append(s.refused, p.Refused)
	return store.Answer{}, nil
}

func (*shelf) Verdict(context.Context, store.RunNo, store.ItemNo, string) ([]byte, error) {
	return nil, errors.New("nothing was asked")
}

// TestRoomIsReadSeldom: a topic with much room is read once a second, one with little
// each time.
func TestRoomIsReadSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{known: true}
		rooms := NewRooms(s, s)
		settings := event.Settings{Cap: 1000}
		admit := func(n, reads int) {
			t.Helper()
			before := s.reads
			for range n {
				if err := rooms.Admit(t.Context(), "orders", settings, 1); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.reads - before; got != reads {
				t.Errorf("%d publications read the topic %d times, not %d", n, got, reads)
			}
		}
		admit(800, 1)
		time.Sleep(roomFor + 1)
		admit(1, 1)
		s.stats.Pending = 900 // by others
		time.Sleep(roomFor + 1)
		admit(5, 5)
		settings.Cap = -1
		admit(5, 0)
	})
}

// TestFullTopic: is refused, and the topic is notified of it; what it could not be
// notified of it is with the next refusal.
func TestFullTopic(t *testing.T) {
	s := &shelf{known: true}
	rooms := NewRooms(s, s)
	s.stats.Pending = 10
	settings := event.Settings{Cap: 10}
	if err := rooms.Admit(t.Context(), "orders", settings, 1); !errors.Is(err, ErrFull) || len(s.refused) != 1 {
		t.Fatalf("got %v, notified of %v", err, s.refused)
	}
	c := rooms.of("orders")
	s.err = errors.New("away")
	c.update(7, 0, 0, 1)
	if err := rooms.notifyRefused(t.Context(), c, "orders", settings); !errors.Is(err, s.err) {
		t.Errorf("a store that is away: %v", err)
	}
	s.err = nil
	if err := rooms.Admit(t.Context(), "orders", settings, 1); !errors.Is(err, ErrFull) || s.refused[1] != 2 {
		t.Errorf("got %v, notified of %v", err, s.refused)
	}
	s.stats.Pending = 9
	if err := rooms.Admit(t.Context(), "orders", settings, 1); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// TestTopicIsFullOfBytes: it is refused while as many bytes may still be wanted as its
// CapBytes says, and read again while there is little room.
func TestTopicIsFullOfBytes(t *testing.T) {
	s := &shelf{known: true}
	rooms := NewRooms(s, s)
	settings := event.Settings{Cap: -1, CapBytes: 800}
	admit := func(size int64, reads int) {
		t.Helper()
		before := s.reads
		if err := rooms.Admit(t.Context(), "orders", settings, size); err != nil || s.reads-before != reads {
			t.Fatalf("got %v after %d reads; want %d", err, s.reads-before, reads)
		}
	}
	s.stats.Bytes, s.stats.HadBytes = 500, 400
	admit(100, 1) // 100 of 800 were wanted
	admit(400, 0) // leaves 200
	admit(150, 1) // would leave less than an eighth
	s.stats.Bytes = 1199
	admit(5000, 1) // there is room for a byte: one event may exceed it
	s.stats.Bytes = 1200
	err := rooms.Admit(t.Context(), "orders", settings, 1)
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "events of 800 bytes are pending, of 800 at most") ||
		len(s.refused) != 1 {
		t.Fatalf("got %v, notified of %v", err, s.refused)
	}
}

// TestFullTopicForgetsRunsThatHaveEnded: they, and those that are gone, are looked for once
// a second, and one that goes on is named.
func TestFullTopicForgetsRunsThatHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stands := func(run store.RunNo, r *reader) store.Entry {
			return store.Entry{Loc: at(runLoc, run), Value: event.Encode(r)}
		}
		s := &shelf{known: true, readers: []store.Entry{
			stands(11, &reader{Last: 1}), stands(12, &reader{Last: 1}), stands(13, &reader{Last: 1}),
			stands(14, &reader{Last: 1, Ended: true}), stands(15, &reader{Waits: []*wait{{Key: "k", No: 1}}}),
		}, runs: []store.Run{
			{No: 11, ID: "ended", Status: store.Failed}, {No: 12, ID: "slow", Status: store.Suspended},
			{No: 14, Status: store.Succeeded}, {No: 15, Status: store.Suspended},
		}}
		rooms := NewRooms(s, s)
		settings := event.Settings{Cap: 10, Mode: event.Broadcast}
		s.stats = Stats{Settings: settings, Pending: 12, Had: 2, Slow: 12}
		err := rooms.Admit(t.Context(), "orders", settings, 1)
		if err != nil || !slices.Equal(s.ended, []store.RunNo{11, 13}) {
			t.Fatalf("got %v; the topic is notified of %v", err, s.ended)
		}
		err = rooms.Admit(t.Context(), "orders", settings, 1)
		if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), `10 events are pending, of 10 at most; run "slow"`) {
			t.Fatalf("got %v", err)
		}
		time.Sleep(roomFor + 1)
		s.readers, s.ended = s.readers[1:2], nil
		if err := rooms.Admit(t.Context(), "orders", settings, 1); !errors.Is(err, ErrFull) || s.ended != nil {
			t.Fatalf("got %v; the topic is notified of %v", err, s.ended)
		}
		s.stats.Had = 3
		if err := rooms.Admit(t.Context(), "orders", settings, 1); err != nil {
			t.Fatal(err)
		}
	})
}

// TestUnknownTopicHasRoom: its first event makes it.
func TestUnknownTopicHasRoom(t *testing.T) {
	s := &shelf{}
	if err := NewRooms(s, s).Admit(t.Context(), "orders", event.Settings{Cap: 1}, 1); err != nil || s.reads != 0 {
		t.Errorf("got %v after %d reads", err, s.reads)
	}
	s.err = errors.New("away")
	if err := NewRooms(s, s).Admit(t.Context(), "orders", event.Settings{Cap: 1}, 1); !errors.Is(err, s.err) {
		t.Errorf("got %v", err)
	}
}

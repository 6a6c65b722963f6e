package runner

import (
	"context"
	"errors"
	"testing"

	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

func mailOf(name, value string) store.Item {
	return store.Item{Kind: store.ItemMessage, Name: name, Value: []byte(value)}
}

// looks is a Look that succeeds.
func looks(look func(context.Context) error) error { return look(context.Background()) }

// roomIs returns a Find that finds no room, unless full is nil then.
func roomIs(full *error) func(context.Context, *store.Item) (*stored.Failure, error) {
	return func(context.Context, *store.Item) (*stored.Failure, error) {
		if *full == nil {
			return nil, nil
		}
		return &stored.Failure{Code: stored.CodeInboxFull, Message: (*full).Error()}, nil
	}
}

// A message to a run whose inbox is full is a completion that failed: what the code does
// because of it comes again in a replay, though there is room now. Nothing is sent.
func TestRefusedMessageIsACompletion(t *testing.T) {
	room := errors.New("no room")
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		_, err := b.Send(Send{Call: at("m"), To: "another", Item: mailOf("n", "v"), Find: roomIs(&room)})
		var f *stored.Failure
		if !errors.As(err, &f) || f.Code != stored.CodeInboxFull {
			return text("%v", err)
		}
		if _, err := step(b, "s"); err != nil {
			return result("", err)
		}
		_, err = b.Send(Send{Call: at("again"), To: "another", Item: mailOf("n", "v"), Find: roomIs(&room)})
		return result("sent then", err)
	})
	h.cfg.Look = looks
	h.play()
	h.wantOrder("m")
	room = nil
	h.crash()
	h.play()
	if len(h.j.out.messages) != 0 {
		t.Error("the refused message was sent")
	}
	h.end("s", "")
	h.want(store.Succeeded, "sent then")
	if len(h.j.out.messages) != 1 {
		t.Error("the other one was not")
	}
	h.replays()
}

// What cannot be found out is no answer.
func TestRoomThatCannotBeSeenBreaksTheActivation(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		_, err := b.Send(Send{Call: at("m"), To: "another", Item: mailOf("n", ""), Find: roomIs(new(error))})
		return result("", err)
	})
	h.cfg.Look = func(func(context.Context) error) error { return store.ErrUnavailable }
	h.play()
	if !errors.Is(h.r.Broken(), store.ErrUnavailable) || h.r.Over() != nil {
		t.Errorf("broken: %v, over: %+v", h.r.Broken(), h.r.Over())
	}
}

// A message whose refusal is reverted is sent after all where there is room now, and that is
// a completion again, at its place in the order. What was sent is not sent twice.
func TestARevertedRefusalIsTriedAgain(t *testing.T) {
	room := errors.New("no room")
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		said := "nothing"
		sending := b.Go(at("sending"), func(b *Branch) (any, error) {
			_, err := b.Send(Send{Call: at("m"), To: "another", Item: mailOf("n", "v"), Find: roomIs(&room)})
			said = "sent"
			if err != nil {
				said = "refused"
			}
			return nil, nil
		})
		first := said
		if _, err := step(b, "s"); err != nil {
			return result("", err)
		}
		_, err := b.Await(at("end"), sending)
		return result(first+", "+said, err)
	})
	h.cfg.Look = looks
	h.play()
	h.end("s", "")
	h.want(store.Succeeded, "nothing, refused")
	h.replays()

	m := location.Loc("").Name("sending", 1).Name("m", 1)
	for i, next := range []struct {
		room error
		says string
		sent int
	}{{room, "nothing, refused", 0}, {nil, "nothing, sent", 1}, {room, "nothing, sent", 1}} {
		h.leave()
		back, err := history.Rewind(h.j.whole(), m, h.clock)
		if err != nil {
			t.Fatal(err)
		}
		h.j.revert(back, true)
		room = next.room
		h.play()
		h.end("s", "")
		h.want(store.Succeeded, next.says)
		h.wantOrder("sending/m", "s")
		if sent := len(h.j.out.messages); sent != next.sent {
			t.Errorf("round %d: %d messages are sent, want %d", i, sent, next.sent)
		}
		h.replays()
	}
}

// An update is known by the key that the code gets, which is the same in each replay, also if its
// refusal was reverted and it is sent then.
func TestKeyOfAnUpdate(t *testing.T) {
	room := errors.New("no room")
	var keys []string
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		for _, name := range []string{"a", "b"} {
			key, err := b.Send(Send{Call: at(name), To: "another", Item: store.Item{
				Kind: store.ItemUpdate, ID: "u:", Origin: "request", Name: "n", Value: []byte("v"),
			}, Find: roomIs(&room)})
			if err != nil {
				return text("%v", err)
			}
			keys = append(keys, key)
		}
		if _, err := step(b, "s"); err != nil {
			return result("", err)
		}
		return result("sent", nil)
	})
	h.cfg.Look = looks
	h.play()
	if h.r.Over() == nil || len(keys) != 0 {
		t.Fatalf("a refused update gives the keys %q", keys)
	}
	h.leave()
	back, err := history.Rewind(h.j.whole(), location.Loc("").Name("a", 1), h.clock)
	if err != nil {
		t.Fatal(err)
	}
	h.j.revert(back, true)
	room = nil
	h.play()
	h.crash()
	h.play()
	h.end("s", "")
	h.want(store.Succeeded, "sent")
	h.replays()
	sent := h.j.out.messages
	if len(sent) != 2 || len(keys) < 6 || keys[0] == keys[1] {
		t.Fatalf("%d updates are sent, and the keys were %q", len(sent), keys)
	}
	for i, key := range keys {
		if key != keys[i%2] || !sent["u:"+key] {
			t.Errorf("the keys were %q, and sent was %v", keys, sent)
		}
	}
}

// A resolution is completed by what the store says of its promise. That there is none is a
// completion, like a full inbox, and what cannot be found out is no answer.
func TestResolutionIsCompletedOnce(t *testing.T) {
	looked := 0
	var refused *stored.Failure
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		_, err := b.Send(Send{Call: at("r"), To: "another",
			Item: store.Item{Kind: store.ItemResolution, Loc: string(location.Loc("").Name("p", 1)), Value: []byte("v")},
			Find: func(_ context.Context, it *store.Item) (*stored.Failure, error) {
				it.ID, it.Generation = "found", 3
				return refused, nil
			}})
		var f *stored.Failure
		if errors.As(err, &f) {
			_, err = step(b, f.Code)
		}
		if err != nil {
			return result("", err)
		}
		return result("over", nil)
	})
	h.cfg.Look = func(look func(context.Context) error) error {
		looked++
		return look(t.Context())
	}
	h.play()
	h.want(store.Succeeded, "over")
	h.replays()
	if looked != 1 {
		t.Errorf("the promise was looked for %d times", looked)
	}

	refused = &stored.Failure{Code: stored.CodeNotFound, Message: "none"}
	h = newHarness(t, h.code)
	h.cfg.Look = looks
	h.play()
	h.wantOrder("r")
	refused = nil // it is there now
	h.crash()
	h.play()
	h.end(stored.CodeNotFound, "")
	h.want(store.Succeeded, "over")
	h.replays()

	h = newHarness(t, h.code)
	h.cfg.Look = func(func(context.Context) error) error { return store.ErrUnavailable }
	h.play()
	if !errors.Is(h.r.Broken(), store.ErrUnavailable) || h.r.Over() != nil {
		t.Errorf("broken: %v, over: %+v", h.r.Broken(), h.r.Over())
	}
}

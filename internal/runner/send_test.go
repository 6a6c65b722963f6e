package runner

import (
	"errors"
	"testing"

	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// A message to a run whose inbox is full is a completion that failed: what the code does
// because of it comes again in a replay, though there is room now. Nothing is sent.
func TestRefusedMessageIsACompletion(t *testing.T) {
	room := errors.New("no room")
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		err := b.Send(Send{Call: at("m"), To: "another", Name: "n", Value: []byte("v")})
		var f *stored.Failure
		if !errors.As(err, &f) || f.Code != stored.CodeInboxFull {
			return text("%v", err)
		}
		if _, err := step(b, "s"); err != nil {
			return result("", err)
		}
		return result("sent then", b.Send(Send{Call: at("again"), To: "another", Name: "n", Value: []byte("v")}))
	})
	h.cfg.Admit = func(to string, it *store.Item) (full, err error) {
		if to != "another" || it.Kind != store.ItemMessage || len(it.Value) != 1 {
			t.Errorf("asked for room for %+v in %s", it, to)
		}
		return room, nil
	}
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
		return result("", b.Send(Send{Call: at("m"), To: "another", Name: "n"}))
	})
	h.cfg.Admit = func(string, *store.Item) (full, err error) { return nil, store.ErrUnavailable }
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
			err := b.Send(Send{Call: at("m"), To: "another", Name: "n", Value: []byte("v")})
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
	h.cfg.Admit = func(string, *store.Item) (full, err error) { return room, nil }
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

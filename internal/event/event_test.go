package event_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/store"
)

// The stored form does not change: what a release has written, each later one reads.
func TestStoredForm(t *testing.T) {
	e := event.Event{
		Number: 1, ID: "i", Mode: event.Consumed, Sent: 2, Expires: 3, Value: []byte("v"), Headers: []byte("h"),
	}
	settings := event.Settings{Mode: event.Broadcast, Expiry: event.Never, Retention: 5, Cap: -1}
	const stored = "\xa7\x01\x01\x02ai\x03\x02\x04\x02\x05\x03\x06Av\aAh"
	for name, c := range map[string]struct {
		value any
		want  string
	}{
		"publication": {event.Publication{Settings: settings, Refused: 2, Only: true, Value: []byte("v")},
			"\xa4\x01\xa4\x01\x01\x02 \x03\x05\x04 \x02\x02\x03\xf5\x04Av"},
		"registration": {event.Registration{Run: 1, Since: 2, After: 3, Open: []string{"k"}},
			"\xa4\x01\x01\x02\x02\x03\x03\x04\x81ak"},
		"event": {e, stored},
		"delivery": {event.Delivery{Topic: "t", Key: "k", Event: e},
			"\xa3\x01at\x02ak\x03\xa7\x01\x01\x02ai\x03\x02\x04\x02\x05\x03\x06Av\aAh"},
		"return": {event.Return{Run: 1, Event: e, Inherited: true},
			"\xa3\x01\x01\x02\xa7\x01\x01\x02ai\x03\x02\x04\x02\x05\x03\x06Av\aAh\x03\xf5"},
		"wait": {event.Wait{Topic: "t", Key: "k"}, "\xa2\x01at\x02ak"},
	} {
		data := event.Encode(c.value)
		if string(data) != c.want {
			t.Errorf("a %s is stored as %q, want %q", name, data, c.want)
		}
		back := reflect.New(reflect.TypeOf(c.value))
		if err := event.Decode(data, back.Interface()); err != nil || !reflect.DeepEqual(back.Elem().Interface(), c.value) {
			t.Errorf("the %s comes back as %+v, %v", name, back.Elem(), err)
		}
	}
	if err := event.Decode([]byte("x"), new(event.Event)); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("a damaged event gives %v", err)
	}
	if err := event.Decode([]byte("\xa2\x02ai\x18\x63av"), &e); err != nil || e.ID != "i" {
		t.Errorf("an event with a field of a later release is %+v, %v", e, err)
	}
}

// What a run sends to a topic stands in the topic's inbox under an ID that follows from
// the wait's key: a repeat of it is the same item.
func TestItemsOfAWait(t *testing.T) {
	key := "k1"
	ids := map[string]bool{}
	for _, c := range []struct {
		kind    store.ItemKind
		command func() store.Command
	}{
		{store.ItemWait, func() store.Command { return event.Register("news", key, &event.Registration{Run: 7}) }},
		{store.ItemWithdraw, func() store.Command { return event.Withdraw("news", key) }},
		{store.ItemAck, func() store.Command { return event.Ack("news", key) }},
	} {
		first, again := c.command(), c.command()
		if topic, ok := event.Topic(first.RunID); !ok || topic != "news" {
			t.Errorf("%s: sent to %q", c.kind, first.RunID)
		}
		if it := first.Item; it.Kind != c.kind || it.Name != key || it.Origin != it.ID || it.ID != again.Item.ID ||
			ids[it.ID] {
			t.Errorf("%s: the item is %+v", c.kind, it)
		}
		ids[first.Item.ID] = true
	}
	d := event.Delivery{Topic: "news", Key: key}
	if c := event.Deliver(9, &d); c.RunNo != 9 || c.Item.Kind != store.ItemDelivery || c.Item.Name != key ||
		ids[c.Item.ID] {
		t.Errorf("the delivery is %+v", c.Item)
	}
	if _, ok := event.Topic("order-42"); ok {
		t.Error("any run is a topic")
	}
}

// Whoever notifies a topic of runs that have ended names no wait.
func TestLeave(t *testing.T) {
	c := event.Leave("news", "1", []store.RunNo{7, 9})
	var ended event.Ended
	if err := event.Decode(c.Item.Value, &ended); err != nil || !slices.Equal(ended.Runs, []store.RunNo{7, 9}) {
		t.Errorf("got %+v, %v", ended, err)
	}
	if c.Item.Kind != store.ItemWithdraw || c.Item.Name != "" || c.Item.ID == event.Leave("news", "2", nil).Item.ID {
		t.Errorf("the item is %+v", c.Item)
	}
}

// A publication is known by its key, and the act that publishes by its origin.
func TestPublish(t *testing.T) {
	c := event.Publish("news", event.KeyKind+":order-42", "act", &event.Publication{Value: []byte("v")}, []byte("h"))
	if c.Item.Kind != store.ItemEvent || c.Item.Origin != "act" || string(c.Item.Headers) != "h" {
		t.Errorf("the item is %+v", c.Item)
	}
	if got := event.PublicID(c.Item.ID); got != "order-42" {
		t.Errorf("users see the ID %q", got)
	}
	if got := event.PublicID("0123abcd"); got != "0123abcd" {
		t.Errorf("users see the ID %q of an event without a key", got)
	}
}

// A run returns what it has taken itself once, and what it has inherited once per
// generation. A broadcast event goes back without its value, which the topic has.
func TestGiveBack(t *testing.T) {
	run := store.Run{No: 7}
	own := event.Delivery{Topic: "news", Key: "k", Event: event.Event{Number: 3, Mode: event.Consumed, Value: []byte("v")}}
	inherited := event.Delivery{Topic: "news", Event: event.Event{
		Number: 3, Mode: event.Broadcast, Value: []byte("v"), Headers: []byte("h"),
	}}
	for _, c := range []struct {
		delivery  event.Delivery
		value     string
		inherited bool
	}{{own, "v", false}, {inherited, "", true}} {
		before := event.GiveBack(&run, &c.delivery)
		var r event.Return
		if err := event.Decode(before.Item.Value, &r); err != nil {
			t.Fatal(err)
		}
		if r.Run != 7 || r.Inherited != c.inherited || string(r.Event.Value) != c.value || r.Event.Headers != nil {
			t.Errorf("returned is %+v", r)
		}
		run.Generation++
		after := event.GiveBack(&run, &c.delivery)
		if (before.Item.ID == after.Item.ID) == c.inherited {
			t.Errorf("in the next generation the item is %q, after %q", after.Item.ID, before.Item.ID)
		}
	}
	if string(inherited.Event.Value) != "v" {
		t.Error("the delivery has lost its value")
	}
}

func TestModeNames(t *testing.T) {
	for m, want := range map[event.Mode]string{
		event.Broadcast: "broadcast", event.Consumed: "consumed", 9: "mode(9)",
	} {
		if got := m.String(); got != want {
			t.Errorf("mode %d is %q, want %q", uint8(m), got, want)
		}
	}
}

func FuzzDecodeDelivery(f *testing.F) {
	f.Add(event.Encode(event.Delivery{Topic: "t", Key: "k", Event: event.Event{ID: "i", Value: []byte("v")}}))
	f.Add([]byte("\xa1\x03\xa0"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var d, again event.Delivery
		if err := event.Decode(data, &d); err != nil {
			if !errors.Is(err, store.ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		once := event.Encode(d)
		if err := event.Decode(once, &again); err != nil || string(event.Encode(again)) != string(once) {
			t.Fatalf("%+v comes back as %+v, %v", d, again, err)
		}
	})
}

package entity_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/store"
)

// mailbox is a client of one entity, which answers with what it was asked.
type mailbox struct {
	id    string
	items []store.Item
	err   error
}

func (*mailbox) Get(context.Context, string) (store.Run, bool, error) { return store.Run{}, false, nil }

func (m *mailbox) Tell(_ context.Context, id string, it store.Item) (store.Answer, error) {
	m.id, m.items = id, append(m.items, it)
	return store.Answer{Run: store.Run{No: 7}, Item: store.ItemNo(len(m.items))}, m.err
}

func (m *mailbox) Verdict(_ context.Context, run store.RunNo, no store.ItemNo, id string) ([]byte, error) {
	if it := m.items[no-1]; run != 7 || it.ID != id || it.Kind != store.ItemUpdate {
		return nil, errors.New("it asks for another verdict")
	}
	return m.items[no-1].Value, nil
}

func TestSendAndAsk(t *testing.T) {
	m := &mailbox{}
	id := entity.ID("stet.toy", "a")
	if err := entity.Send(t.Context(), m, id, "set", []byte("1")); err != nil {
		t.Fatal(err)
	}
	answer, err := entity.Ask(t.Context(), m, id, "get", []byte("2"))
	if err != nil || string(answer) != "2" || m.id != "stet.toy/a" {
		t.Errorf("got %q, %v from %s", answer, err, m.id)
	}
	sent, asked := m.items[0], m.items[1]
	if sent.Kind != store.ItemMessage || sent.Name != "set" || asked.Name != "get" || sent.ID == asked.ID ||
		sent.Origin != sent.ID {
		t.Errorf("got %+v and %+v", sent, asked)
	}
	m.err = errors.New("away")
	if _, err := entity.Ask(t.Context(), m, id, "get", nil); !errors.Is(err, m.err) {
		t.Errorf("a store that is away: %v", err)
	}
}

package stet_test

import (
	"errors"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/memory"
)

// TestASendKeyIsForOneValue: the key of a message belongs to its name, that of an event to its topic. A repeat is the
// first one; another value is refused.
func TestASendKeyIsForOneValue(t *testing.T) {
	s := memory.New()
	defer func() { _ = s.Close() }()
	waits := stet.Define("waits", func(ctx stet.Context, _ int) (string, error) {
		return stet.Message[string]("end").Receive(ctx)
	})
	e, err := stet.New(t.Context(), stet.Config{Store: s, Workflows: []stet.Definition{waits}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := waits.Start(t.Context(), e, 1, stet.ID("w")); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, value string
		used        bool
	}{{"a", "x", false}, {"a", "x", false}, {"a", "y", true}, {"b", "y", false}, {"b", "x", true}} {
		err := stet.Message[string](row.name).Send(t.Context(), e, "w", row.value, stet.SendKey("1"))
		if errors.Is(err, stet.ErrKeyUsed) != row.used || err != nil && !row.used {
			t.Errorf("message %s with %s: expected that the key is used: %t; found %v", row.name, row.value, row.used, err)
		}
		topic := stet.Topic[string]{Name: "topic-" + row.name}
		id, err := topic.Publish(t.Context(), e, row.value, stet.SendKey("1"))
		if errors.Is(err, stet.ErrKeyUsed) != row.used || err != nil && !row.used || (id == "1") == row.used {
			t.Errorf("event of %s with %s: expected that the key is used: %t; found %q, %v", row.name, row.value, row.used,
				id, err)
		}
	}
}

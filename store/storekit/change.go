package storekit

import (
	"encoding/hex"
	"strings"
	"sync"

	"github.com/stet-run/stet/store"
)

// EncodeChange returns the change as a short text of ASCII letters, for hints that are
// sent as text.
func EncodeChange(c store.Change) string {
	var b strings.Builder
	if c.Answered {
		b.WriteByte('t')
	}
	if c.Nodes {
		b.WriteByte('n')
	}
	switch c.Ready {
	case store.ShardSet{}:
	case store.AllShards():
		b.WriteByte('a')
	default:
		b.WriteByte('s')
		b.WriteString(hex.EncodeToString(c.Ready[:]))
	}
	return b.String()
}

// DecodeChange is the inverse of EncodeChange. A text that it does not know, or an empty
// one, is of another version and means [store.Anything].
func DecodeChange(text string) store.Change {
	var c store.Change
	if text == "" {
		return store.Anything()
	}
	for i, letter := range text {
		switch letter {
		case 't':
			c.Answered = true
		case 'n':
			c.Nodes = true
		case 'a':
			c.Ready = store.AllShards()
		case 's':
			if n, err := hex.Decode(c.Ready[:], []byte(text[i+1:])); err == nil && n == len(c.Ready) {
				return c
			}
			return store.Anything()
		default:
			return store.Anything()
		}
	}
	return c
}

// ChangeOf returns what a batch that was carried out, in turns or as commands of its own,
// may mean to other processes. It is nothing if runs only completed operations and go on
// where they are, or were claimed.
func ChangeOf(b *store.Batch, result *store.BatchResult) store.Change {
	var c store.Change
	for i, t := range b.Turns {
		var answers []store.Answer
		verdict := store.Committed
		if i < len(result.Turns) {
			answers, verdict = result.Turns[i].Sends, result.Turns[i].Verdict
		}
		if verdict != store.Committed && verdict != store.StillReady {
			continue
		}
		for _, sends := range t.Sent(verdict) {
			n := min(len(sends), len(answers))
			addSent(&c, sends, answers[:n])
			answers = answers[n:]
		}
		if answersOthers(t) {
			c.Answered = true
		}
		if t.Update != nil && t.Update.Unclaim {
			c.Ready.Add(t.Shard)
		}
		for _, shard := range t.Hints {
			c.Ready.Add(shard)
		}
	}
	addSent(&c, b.Commands, result.Commands)
	return c
}

// answersOthers reports whether somebody outside of the run may wait for what the turn
// says: an answer, an end, a feed.
func answersOthers(t *store.Turn) bool {
	if u := t.Update; u != nil && (u.Status != store.Running || u.Marks != 0 || u.Unclaim || u.Continue != nil ||
		len(u.Consumed) > 0) {
		return true
	}
	inbox := len(t.Seen) + len(t.Consumed) + len(t.Answers) + len(t.Returned) + len(t.Dead) + len(t.Refused)
	feeds := len(t.Values) + len(t.Appends) + len(t.Tags)
	return t.Rewound || inbox+feeds > 0
}

// addSent adds what commands have done. A command without an answer may have done anything.
func addSent(c *store.Change, commands []store.Command, answers []store.Answer) {
	for i := range commands {
		switch st := commands[i].Start; {
		case i >= len(answers):
			c.Add(store.Anything())
		case st != nil && st.Queue != nil:
			c.Ready = store.AllShards() // its queue is notified too
		case answers[i].Claimed:
		case answers[i].Run.No != 0:
			c.Ready.Add(answers[i].Run.Shard)
		}
	}
}

// Changes collects changes until they are taken. The zero Changes is not ready for use:
// see [NewChanges]. It is safe for concurrent use.
type Changes struct {
	some chan struct{} // capacity 1
	mu   sync.Mutex
	sum  store.Change
}

// NewChanges returns an empty collection.
func NewChanges() *Changes { return &Changes{some: make(chan struct{}, 1)} }

// Add adds a change and wakes one waiter, unless the change is nothing.
func (c *Changes) Add(change store.Change) {
	if change == (store.Change{}) {
		return
	}
	c.mu.Lock()
	c.sum.Add(change)
	c.mu.Unlock()
	select {
	case c.some <- struct{}{}:
	default: // a waiter is being woken
	}
}

// Some returns the channel that gives a token when there are changes to be taken. Its
// receiver calls Take.
func (c *Changes) Some() <-chan struct{} { return c.some }

// Take returns all changes since its last call, as one. It may be nothing.
func (c *Changes) Take() store.Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := c.sum
	c.sum = store.Change{}
	return sum
}

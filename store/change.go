package store

import (
	"encoding/hex"
	"strings"
	"sync"
)

// Change is what another process may have done. The zero Change is nothing.
type Change struct {
	Ready ShardSet // in which a run may have been made ready, or been sent something
	Told  bool     // an item may have been answered, a run have ended or a feed have changed
	Nodes bool     // a node or a lease may have changed
}

// Anything is the change of which no more is known.
func Anything() Change { return Change{Ready: AllShards(), Told: true, Nodes: true} }

// Add adds another change.
func (c *Change) Add(other Change) {
	for i := range c.Ready {
		c.Ready[i] |= other.Ready[i]
	}
	c.Told, c.Nodes = c.Told || other.Told, c.Nodes || other.Nodes
}

// Text returns the change as a short text of ASCII letters, for hints that are sent as
// one.
func (c Change) Text() string {
	var b strings.Builder
	if c.Told {
		b.WriteByte('t')
	}
	if c.Nodes {
		b.WriteByte('n')
	}
	switch c.Ready {
	case ShardSet{}:
	case AllShards():
		b.WriteByte('a')
	default:
		b.WriteByte('s')
		b.WriteString(hex.EncodeToString(c.Ready[:]))
	}
	return b.String()
}

// ParseChange reads a text of [Change.Text]. The empty text and one that it does not
// know, both of other versions, are anything.
func ParseChange(text string) Change {
	var c Change
	if text == "" {
		return Anything()
	}
	for i, letter := range text {
		switch letter {
		case 't':
			c.Told = true
		case 'n':
			c.Nodes = true
		case 'a':
			c.Ready = AllShards()
		case 's':
			if n, err := hex.Decode(c.Ready[:], []byte(text[i+1:])); err == nil && n == len(c.Ready) {
				return c
			}
			return Anything()
		default:
			return Anything()
		}
	}
	return c
}

// ShardSet is a set of shards. It has those that were added to it, and perhaps more: it
// does not tell slots apart that are equal modulo 256, nor groups, but for [SystemGroup].
type ShardSet [64]byte

// AllShards is the set of all.
func AllShards() (s ShardSet) {
	for i := range s {
		s[i] = 0xff
	}
	return s
}

// Add adds a shard.
func (s *ShardSet) Add(of Shard) {
	at, bit := place(of)
	s[at] |= bit
}

// Has reports whether a shard may be in the set.
func (s *ShardSet) Has(of Shard) bool {
	at, bit := place(of)
	return s[at]&bit != 0
}

func place(of Shard) (at int, bit byte) {
	const half = len(ShardSet{}) / 2
	if at = of.Slot / 8 % half; of.Group == SystemGroup {
		at += half
	}
	return at, 1 << (of.Slot % 8)
}

// ChangeOf returns what a batch that was carried out, in turns or as commands of their
// own, may mean to other processes. It is nothing if operations of runs were completed
// that go on where they are, or runs taken in hand.
func ChangeOf(b *Batch, result *BatchResult) Change {
	var c Change
	for i, t := range b.Turns {
		var answers []Answer
		verdict := Committed
		if i < len(result.Turns) {
			answers, verdict = result.Turns[i].Sends, result.Turns[i].Verdict
		}
		if verdict != Committed && verdict != StillReady {
			continue
		}
		for _, sends := range t.Sent(verdict) {
			n := min(len(sends), len(answers))
			c.sent(sends, answers[:n])
			answers = answers[n:]
		}
		u := t.Update
		if u != nil && (u.Status != Running || u.Marks != 0 || u.Back || u.Continue != nil) ||
			t.Rewound || len(t.Seen)+len(t.Consumed)+len(t.Answers)+len(t.Returned)+len(t.Dead)+len(t.Values)+len(t.Appends)+len(t.Tags) > 0 {
			c.Told = true
		}
		if u != nil && u.Back {
			c.Ready.Add(t.Shard)
		}
	}
	c.sent(b.Commands, result.Commands)
	return c
}

// sent adds what commands have done. One that has no answer yet may have done anything.
func (c *Change) sent(commands []Command, answers []Answer) {
	for i := range commands {
		switch st := commands[i].Start; {
		case i >= len(answers):
			c.Add(Anything())
		case st != nil && st.Queue != nil:
			c.Ready = AllShards() // its queue hears of it too
		case answers[i].Claimed:
		case answers[i].Run.No != 0:
			c.Ready.Add(answers[i].Run.Shard)
		}
	}
}

// Changes collects changes until somebody takes them. The zero Changes is not ready: see
// [NewChanges]. It is safe for concurrent use.
type Changes struct {
	some chan struct{} // capacity 1
	mu   sync.Mutex
	sum  Change
}

// NewChanges returns one without changes.
func NewChanges() *Changes { return &Changes{some: make(chan struct{}, 1)} }

// Add adds a change and wakes one who waits, unless it is nothing.
func (c *Changes) Add(change Change) {
	if change == (Change{}) {
		return
	}
	c.mu.Lock()
	c.sum.Add(change)
	c.mu.Unlock()
	select {
	case c.some <- struct{}{}:
	default: // somebody is being woken
	}
}

// Some returns the channel that gives a token when there are changes to be taken. Who
// has received it calls Take.
func (c *Changes) Some() <-chan struct{} { return c.some }

// Take returns the changes since it was called before, as one. It may be nothing.
func (c *Changes) Take() Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := c.sum
	c.sum = Change{}
	return sum
}

package store

// Change says what another process may have changed. The zero Change is nothing.
type Change struct {
	Ready    ShardSet // shards in which a run may have become ready or received an item
	Answered bool     // an item may have been answered, a run may have ended, a feed may have changed
	Nodes    bool     // a node or a lease may have changed
}

// Anything returns the change that may be any.
func Anything() Change { return Change{Ready: AllShards(), Answered: true, Nodes: true} }

// Add adds another change.
func (c *Change) Add(other Change) {
	for i := range c.Ready {
		c.Ready[i] |= other.Ready[i]
	}
	c.Answered, c.Nodes = c.Answered || other.Answered, c.Nodes || other.Nodes
}

// ShardSet is a set of shards that may report more than was added: it does not
// distinguish slots that are equal modulo 256, nor groups other than [SystemGroup].
type ShardSet [64]byte

// AllShards returns the set of all shards.
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

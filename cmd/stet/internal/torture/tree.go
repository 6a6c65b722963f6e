package torture

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"
)

// kind is the command of a node of a tree.
type kind uint8

const (
	kindStep    kind = iota // count steps of one name; the first attempts of each fail
	kindFail                // a step that fails for good
	kindFlaky               // a step that fails at random, so that its run is tried again
	kindSleep               // a sleep, and a step that logs when it was over
	kindReceive             // count messages of one name, in order
	kindSelect              // a message or a timer; if the timer wins, the message then
	kindPromise             // a promise whose token is handed out by a step
	kindOrder               // a step that records in which order all nodes have ended so far
	kindFamily              // count children, and their results
	kindLoop                // a loop of count times three steps, with what it has done as its state
	kindInTurn              // the children one after the other
	kindAll                 // the children in parallel, each with a branch
	kindJoin                // the same, waiting for all
	kindMap                 // the same, at most two at a time
	kindAny                 // the first child that succeeds
	kindRace                // the first child that settles
)

var kindNames = [...]string{"step", "fail", "flaky", "sleep", "receive", "select", "promise", "order", "family", "loop",
	"in-turn", "all", "join", "map", "any", "race"}

// node is one command of a tree. Its value, and so that of the tree, follows from the run's seed, the choices of its
// races and the values of its promises.
type node struct {
	id       int // in pre-order, from 0
	kind     kind
	count    int
	failures int // attempts of a step that fail
	wait     time.Duration
	children []*node
}

// name is the node's name in locations.
func (n *node) name() string { return fmt.Sprintf("%s-%d", kindNames[n.kind], n.id) }

// iterations is how many iterations a loop has.
func (n *node) iterations() int { return 3 * n.count }

// message is the name of the messages that the node receives.
func (n *node) message() string { return fmt.Sprintf("message-%d", n.id) }

// program is the tree of a run.
type program struct {
	runID string
	seed  uint64
	root  *node
	nodes []*node // by id
	// half is how many children of the root are carried out before the run
	// continues as new; 0: it does not.
	half int
}

// newProgram makes the tree that a run of the ID has under the harness's seed. A fork
// has that of its origin.
func newProgram(seed uint64, runID string) *program {
	p := &program{runID: runID, seed: mix(seed, textHash(strings.TrimSuffix(runID, forkSuffix)))}
	random := rand.New(rand.NewPCG(p.seed, seed))
	p.root = p.add(kindInTurn)
	for range 2 + random.IntN(4) {
		p.root.children = append(p.root.children, p.grow(random, 2))
	}
	if random.IntN(4) == 0 {
		p.root.children = append(p.root.children, p.add(kindFlaky))
	}
	if random.IntN(3) == 0 {
		p.half = 1 + random.IntN(len(p.root.children)-1)
	}
	return p
}

func (p *program) add(k kind) *node {
	n := &node{id: len(p.nodes), kind: k}
	p.nodes = append(p.nodes, n)
	return n
}

// leaves are the kinds without children, each as often as it is to be likely.
var leaves = []kind{kindStep, kindStep, kindStep, kindStep, kindSleep, kindSleep, kindReceive, kindReceive, kindSelect,
	kindPromise, kindOrder, kindOrder, kindFamily, kindFamily, kindLoop, kindLoop}

// grow makes a random node; depth bounds its branching.
func (p *program) grow(random *rand.Rand, depth int) *node {
	if depth > 0 && random.IntN(3) == 0 {
		n := p.add(kindAll + kind(random.IntN(int(kindRace-kindAll)+1)))
		if n.kind == kindAny {
			n.children = append(n.children, p.add(kindFail))
		}
		for range 2 + random.IntN(2) {
			n.children = append(n.children, p.grow(random, depth-1))
		}
		return n
	}
	n := p.add(leaves[random.IntN(len(leaves))])
	n.count = 1 + random.IntN(3)
	if random.IntN(4) == 0 {
		n.failures = 1 + random.IntN(2)
	}
	n.wait = time.Duration(1+random.IntN(300)) * time.Millisecond
	if random.IntN(5) == 0 { // a sleep of more than a second suspends the run
		n.wait += 1100 * time.Millisecond
	}
	return n
}

// seedOf is a number that is particular to a node and an index below it.
func (p *program) seedOf(n *node, index int) uint64 {
	return mix(p.seed, uint64(n.id)<<16+uint64(index))
}

// choices are the outcomes in a run that do not follow from its seed.
type choices struct {
	Won      map[int]int    `json:"won,omitempty"`      // winner of an Any or Race, by node
	Promised map[int]uint64 `json:"promised,omitempty"` // value of a promise, by node
}

// expected returns the value of the tree after the choices.
func (p *program) expected(c *choices) (uint64, error) { return p.expectedOf(p.root, c) }

func (p *program) expectedOf(n *node, c *choices) (uint64, error) {
	value := p.seedOf(n, 0)
	switch n.kind {
	case kindStep, kindReceive:
		for i := range n.count {
			value = mix(value, p.seedOf(n, i))
		}
	case kindFamily:
		for i := range n.count {
			value = mix(value, childValue(p.seedOf(n, i)))
		}
	case kindLoop:
		for i := range n.iterations() {
			value = mix(value, p.seedOf(n, i))
		}
	case kindSelect, kindFlaky:
		value = mix(value, p.seedOf(n, 0))
	case kindPromise:
		got := c.Promised[n.id]
		if got != p.offer(n, 0) && got != p.offer(n, 1) {
			return 0, fmt.Errorf("promise %s has a value that no caller has given: %d", n.name(), got)
		}
		value = mix(value, got)
	case kindInTurn, kindAll, kindJoin, kindMap:
		for _, child := range n.children {
			v, err := p.expectedOf(child, c)
			if err != nil {
				return 0, err
			}
			value = mix(value, v)
		}
	case kindAny, kindRace:
		won, ok := c.Won[n.id]
		if !ok || won < 0 || won >= len(n.children) || n.children[won].kind == kindFail {
			return 0, fmt.Errorf("%s has no winner that can be: %d", n.name(), won)
		}
		v, err := p.expectedOf(n.children[won], c)
		return mix(value, v), err
	}
	return value, nil
}

// offer is one of the two values that are offered for a promise.
func (p *program) offer(n *node, which int) uint64 { return p.seedOf(n, 100+which) }

// mix combines numbers so that order matters.
func mix(a, b uint64) uint64 {
	h := fnv.New64a()
	var data [16]byte
	binary.BigEndian.PutUint64(data[:8], a)
	binary.BigEndian.PutUint64(data[8:], b)
	h.Write(data[:])
	return h.Sum64()
}

func textHash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

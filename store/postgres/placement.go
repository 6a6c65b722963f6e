package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/stet-run/stet/store"
)

// placement says which databases a store has, and which slots are in each. It is kept in the
// meta of each of them.
type placement struct {
	Store string // the store's ID, the same in all of them
	Index int    // of this database
	Count int    // of databases
	Slots []int  // by slot: the index of its database
}

// stageBits are the bits of a batch's number that count its stages, in a store over several
// databases: see stages.
const stageBits = 10

// seat is the place of a database in a store over several ones. Of a store in one database it
// is nil.
type seat struct {
	*placement
	// parents returns which of the runs have a live parent in another database that needs them.
	parents func(ctx context.Context, of []child) (kept []int64, err error)
}

// elsewhere reports whether the run of a command is in another database.
func (s *seat) elsewhere(c *store.Command) bool { return s != nil && s.of(c) != s.Index }

// first returns the number of the first stage of the batch that a number is of.
func (s *seat) first(no int64) int64 {
	if s == nil {
		return no
	}
	return no >> stageBits << stageBits
}

// stride is by what the counts of runs and items are multiplied to be their numbers.
func (s *seat) stride() int {
	if s == nil {
		return 1
	}
	return len(s.Slots)
}

// newPlacement spreads slots over databases.
func newPlacement(id string, count, slots int) *placement {
	p := &placement{Store: id, Count: count, Slots: make([]int, slots)}
	for slot := range p.Slots {
		p.Slots[slot] = slot % count
	}
	return p
}

// in returns the placement as the database with an index keeps it.
func (p placement) in(index int) *placement {
	p.Index = index
	return &p
}

func (p *placement) encode() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // it has texts and numbers alone
	}
	return string(text)
}

func decodePlacement(text string, slots int) (*placement, error) {
	var p placement
	err := json.Unmarshal([]byte(text), &p)
	if err == nil && (p.Store == "" || p.Count < 2 || p.Index < 0 || p.Index >= p.Count || len(p.Slots) != slots) {
		err = fmt.Errorf("expected %d slots in two databases or more, found %s", slots, text)
	}
	for _, index := range p.Slots {
		if err == nil && (index < 0 || index >= p.Count) {
			err = fmt.Errorf("expected databases up to %d, found %d", p.Count-1, index)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: which databases the store has cannot be read: %w", store.ErrDamaged, err)
	}
	return &p, nil
}

// equal reports whether two databases are of one store and agree about it.
func (p *placement) equal(other *placement) bool {
	return p.in(0).encode() == other.in(0).encode()
}

// slotOf returns the slot of a run's ID, as an engine computes it.
func (p *placement) slotOf(id string) int { return int(xxhash.Sum64String(id) % uint64(len(p.Slots))) }

// slot returns the slot of a run, or of an item's run.
func slot[N ~int64](p *placement, no N) int {
	return int(max(int64(no), 0) % int64(len(p.Slots)))
}

// ofNo returns the database of a run's or an item's number.
func ofNo[N ~int64](p *placement, no N) int { return p.Slots[slot(p, no)] }

// of returns the database of a command's run.
func (p *placement) of(c *store.Command) int {
	switch {
	case c.Start != nil:
		if c.Start.Shard.Slot < 0 || c.Start.Shard.Slot >= len(p.Slots) {
			return 0 // it is refused
		}
		return p.Slots[c.Start.Shard.Slot]
	case c.RunNo != 0:
		return ofNo(p, c.RunNo)
	}
	return p.Slots[p.slotOf(c.RunID)]
}

// asks returns the post by which a new run asks a queue for a permit that is in another
// database, or nil.
func (p *placement) asks(c *store.Command) *post {
	if c.Start == nil || c.Start.Queue == nil {
		return nil
	}
	ask := c.Start.Queue.Ask
	ask.Claim = false
	to := p.of(&ask)
	if to == p.of(c) {
		return nil
	}
	return &post{target: to, shard: unordered, turn: -1, start: -1, entry: c.Start.Queue, posted: posted{Command: ask}}
}

// replaced returns the number of the run that a replaced run's name, ID@N, would have, or 0.
func replaced(id string) store.RunNo {
	at := strings.LastIndexByte(id, '@')
	if at < 0 {
		return 0
	}
	no, err := strconv.ParseInt(id[at+1:], 10, 64)
	if err != nil || no <= 0 || strconv.FormatInt(no, 10) != id[at+1:] {
		return 0
	}
	return store.RunNo(no)
}

// placementKey is the key of a placement in the meta of a database.
const placementKey = "databases"

// sit reads which one of several databases this is.
func (t *tx) sit() error {
	var text, slots string
	there, err := t.row("SELECT value FROM stet.meta WHERE key=$1", []any{placementKey}, &text)
	if err != nil || !there {
		return err
	}
	if !t.s.cfg.several {
		return fmt.Errorf("%w: schema %s of this database is one of several of a store: open all of them together, "+
			"with postgres.OpenAll", store.ErrInvalid, t.s.schema)
	}
	if _, err := t.row("SELECT value FROM stet.meta WHERE key='slots'", nil, &slots); err != nil {
		return err
	}
	n, err := strconv.Atoi(slots)
	if err != nil {
		return fmt.Errorf("%w: expected a number of slots, found %q", store.ErrDamaged, slots)
	}
	p, err := decodePlacement(text, n)
	if err == nil {
		t.s.seat = &seat{placement: p}
	}
	return err
}

// child is a run with a parent in another database.
type child struct {
	run, parent int64
	loc         []byte
	created     int64
}

// needed returns which of the runs have a live parent in another database that needs them. One
// whose database does not answer soon counts as such: this transaction is open.
func (t *tx) needed(runs []int64) (map[int64]bool, error) {
	var list []child
	err := t.each(`SELECT run_no, parent_no, parent_loc, created FROM stet.runs
		WHERE run_no=ANY($1::bigint[]) AND parent_no>0`, []any{runs}, func(scan func(...any) error) error {
		var c child
		err := scan(&c.run, &c.parent, &c.loc, &c.created)
		if ofNo(t.s.seat.placement, c.parent) != t.s.seat.Index {
			list = append(list, c)
		}
		return err
	})
	if err != nil || len(list) == 0 || t.s.seat.parents == nil {
		return nil, err
	}
	kept, err := t.s.seat.parents(t.ctx, list)
	needed := make(map[int64]bool, len(kept))
	for _, run := range kept {
		needed[run] = true
	}
	return needed, err
}

// childrenOf returns which of the runs, whose parents are in this database, these need.
func childrenOf(ctx context.Context, s *Store, list []child) (kept []int64, err error) {
	var runs, parents, created []int64
	var locs [][]byte
	for _, c := range list {
		runs, parents, created = append(runs, c.run), append(parents, c.parent), append(created, c.created)
		locs = append(locs, append([]byte{}, c.loc...))
	}
	err = s.single(ctx, "look for parents", func(t *tx) error {
		return t.each(`SELECT q.run FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[])
				AS q(run, parent, made, loc),
				LATERAL (SELECT FROM stet.runs p CROSS JOIN stet.entries e
					WHERE p.run_no=q.parent AND p.began<q.made AND p.status NOT IN {ended}
						AND e.run_no=p.run_no AND e.incarnation=p.incarnation AND e.loc=q.loc OFFSET 0) p`,
			[]any{runs, parents, created, locs}, func(scan func(...any) error) error {
				var run int64
				err := scan(&run)
				kept = append(kept, run)
				return err
			})
	})
	return kept, err
}

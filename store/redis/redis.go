package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/redis/rueidis"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/relay"
	"github.com/stet-run/stet/store/storekit"
)

// Store is a store on a Redis or Valkey server, or a cluster of them. It is safe for
// concurrent use.
//
// On a cluster an engine works on the parts of each master by leases and group commits of their
// own, so that a master which is away stops the runs of its parts alone, see store.Laned. Lists
// and counts ask all masters, and fail if one is away.
type Store struct {
	cfg    config
	client rueidis.Client
	handle string // names this handle among all
	id     string
	slots  int
	parts  int
	schema int
	seen   *numbers
	latest atomic.Int64 // store time
	anchor atomic.Pointer[anchor]
	known  settings // when it was opened

	promises promises

	closed     atomic.Bool
	hints      hints
	ahead      storekit.AheadLeases
	fences     fences
	commitConn commitConn
	relay      *relay.Relay // nil: one part
	memory     memory
	lanes      []*lane // one at least
	laneOf     []int   // by part

	mu      sync.Mutex
	batches map[boot]int64         // the last one of each boot of this process
	acked   map[boot]map[int]int64 // with several parts: the last one whose result it knows, by part
	epochs  map[store.Shard]int64  // the highest that was seen
}

// boot is a boot in a lane, which counts its batches.
type boot struct {
	node, boot string
	lane       int // -1: of the store as a whole
}

var (
	_ store.Store = (*Store)(nil)
	_ store.Laned = (*Store)(nil)
)

// numbers are the highest numbers of runs and items that are known, each without
// its slot.
type numbers struct{ runs, items atomic.Int64 }

const (
	defaultSlots = 256
	maxSlots     = 16384
	thisSchema   = 1
)

// Open opens the store at a URL, and makes it if it does not exist:
//
//	redis://[USER:PASSWORD@]HOST:PORT[/DB]       a server, or any node of a cluster
//	redis://HOST:PORT?addr=HOST:PORT             further nodes of a cluster
//	redis://HOST:PORT?master_set=NAME            sentinels, and the name they watch
//	rediss://…                                   with TLS
//	unix:///PATH                                 a Unix socket
//
// The parameters prefix=NAME and volatile=1 do what [Prefix] and [AllowLoss] do. ctx
// bounds Open alone. Errors: store.ErrInvalid if the URL or an option is wrong, or the
// server would break the store's promises; store.ErrSchema if the server or the store's
// schema is too old or too new; store.ErrUnavailable if the server cannot be reached.
func Open(ctx context.Context, url string, opts ...Option) (*Store, error) {
	cfg, option, err := configure(url, opts)
	if err != nil {
		return nil, err
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w: %w", redact(url), store.ErrUnavailable, err)
	}
	s := &Store{
		cfg: cfg, client: client, slots: cfg.slots, parts: 1, seen: cfg.seen,
		batches: map[boot]int64{}, acked: map[boot]map[int]int64{},
		epochs: map[store.Shard]int64{}, hints: newHints(),
		fences: fences{of: map[[2]string]*fence{}},
	}
	if err := (&opening{Store: s}).open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", redact(url), err), s.Close())
	}
	return s, nil
}

// open checks the servers and reads the store's own data.
func (s *opening) open(ctx context.Context) error {
	if err := s.inspect(ctx); err != nil {
		return err
	}
	parts := 1
	if s.known.cluster || s.cfg.parts < 0 {
		parts = s.cfg.slots
	}
	if s.known.cluster {
		masters, err := s.topology(ctx)
		if err != nil {
			return classify(ctx, "ask for the masters of the cluster", err, false)
		}
		s.masters = masters
	}
	s.handle = random()
	m, err := s.meta(ctx, parts)
	if err != nil {
		return err
	}
	s.id, s.slots, s.parts, s.schema = m.id, m.slots, m.parts, m.schema
	s.seen.saw(m.runs, m.items)
	switch {
	case m.oldest > thisSchema:
		return fmt.Errorf("%w: expected a schema that version %d can use, found one that needs %d: use a newer binary",
			store.ErrSchema, thisSchema, m.oldest)
	case s.slots < 1 || s.parts < 1 || s.parts > s.slots:
		return fmt.Errorf("%w: the store has %d slots in %d parts", store.ErrDamaged, s.slots, s.parts)
	case s.known.cluster && s.parts == 1 && s.slots > 1:
		s.cfg.log.Warn("the store has one hash tag and so uses one node of the cluster: make one on the cluster, or with "+
			"Spread, to use all", "prefix", s.cfg.prefix)
	}
	if err := s.settle(ctx, m); err != nil {
		return err
	}
	if s.known.whole && len(s.lanes) > 1 {
		s.cfg.log.Warn("while a master is away, and until its replica has taken its place, the others refuse all acts: set " +
			"cluster-require-full-coverage no on each server, so that they go on with their own runs")
	}
	if s.parts > 1 {
		s.relay = newRelay(s.Store)
	}
	if err := s.listen(ctx); err != nil {
		return err
	}
	known := s.known
	s.promises.now.Store(&known)
	s.promises.from.Store(true)
	return nil
}

func random() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // which never fails
	return hex.EncodeToString(id[:])
}

// Close closes the connections. Leases that are held stay until they end.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.hints.close()
	for _, l := range s.lanes {
		l.witnesses.Close()
	}
	if s.relay != nil {
		s.relay.Close()
	}
	s.commitConn.close()
	s.client.Close()
	s.commitConn.wait()
	return nil
}

// tag returns the beginning of the keys of a part.
func (s *Store) tag(part int) string { return "{" + s.cfg.prefix + ":" + strconv.Itoa(part) + "}" }

// head returns the arguments that every script has: see base.lua.
func (s *Store) head() []string {
	clock, floor := int64(0), s.latest.Load()
	if s.cfg.now != nil {
		floor = int64(s.observe(store.TimeOf(s.cfg.now())))
		clock = floor
	} else if a := s.anchor.Load(); a != nil {
		floor = max(floor, int64(a.floor()))
	}
	return []string{strconv.Itoa(s.slots), strconv.FormatInt(clock, 10), strconv.FormatInt(floor, 10)}
}

// anchor is a time of the store that this process has read, and when. If the server's clock is set back, the store's
// time goes on from there as fast as the clock of this process.
type anchor struct {
	now store.Time
	at  time.Time
}

// slower is by what part of itself the floor of the store's time is slower than the clock of this process. The two
// clocks differ by less, so that the floor does not overtake the server's clock unless that is set back.
const slower = 1000

// floor returns the time that an act is not before.
func (a *anchor) floor() store.Time {
	passed := time.Since(a.at)
	return a.now.Add(passed - passed/slower)
}

// observe notes the store's time; it returns the latest. An answer that is not after the floor says nothing new of the
// server's clock: to go on from it would lose the time that the answer took, with each answer.
func (s *Store) observe(now store.Time) store.Time {
	if a := s.anchor.Load(); s.cfg.now == nil && (a == nil || now > a.floor()) {
		s.anchor.CompareAndSwap(a, &anchor{now, time.Now()}) // another answer serves as well
	}
	for {
		last := s.latest.Load()
		if int64(now) <= last {
			return store.Time(last)
		}
		if s.latest.CompareAndSwap(last, int64(now)) {
			return now
		}
	}
}

// saw notes numbers of runs and items, without their slots.
func (n *numbers) saw(runs, items int64) {
	raise(&n.runs, runs)
	raise(&n.items, items)
}

func raise(n *atomic.Int64, to int64) {
	for last := n.Load(); to > last; last = n.Load() {
		if n.CompareAndSwap(last, to) {
			return
		}
	}
}

// reserve returns numbers above all that this process has seen, for a store of several
// parts. With one part its scripts count.
func (s *Store) reserve(use floors) floors {
	return floors{s.seen.runs.Add(use.runs) - use.runs, s.seen.items.Add(use.items) - use.items}
}

// sawAnswer notes the numbers of an answer.
func (s *Store) sawAnswer(a *store.Answer) {
	if s.parts > 1 {
		s.seen.saw(int64(a.Run.No)/int64(s.slots), int64(a.Item)/int64(s.slots))
	}
}

// slotOf is the slot of a run's ID.
func (s *Store) slotOf(id string) int { return int(xxhash.Sum64String(id) % uint64(s.slots)) }

func (s *Store) partOf(slot int) int { return slot % s.parts }

// shardsOf returns the shards of a part.
func (s *Store) shardsOf(part int) (set store.ShardSet) {
	for slot := part; slot < s.slots; slot += s.parts {
		set.Add(store.Shard{Group: store.DefaultGroup, Slot: slot}) // which stands for all groups
		set.Add(store.Shard{Group: store.SystemGroup, Slot: slot})
	}
	return set
}

func (s *Store) partOfRun(no store.RunNo) int { return s.partOf(int(int64(no) % int64(s.slots))) }

// check reports whether commands keep the contract, of this store.
func (s *Store) check(commands []store.Command) error {
	for i := range commands {
		st := commands[i].Start
		switch {
		case st == nil:
		case st.Shard.Slot >= s.slots:
			return fmt.Errorf("%w: start of %q: expected a slot below %d, found %d", store.ErrInvalid, st.ID, s.slots,
				st.Shard.Slot)
		case s.parts > 1 && st.Shard.Slot != s.slotOf(st.ID):
			return fmt.Errorf("%w: start of %q: expected slot %d, found %d", store.ErrInvalid, st.ID, s.slotOf(st.ID),
				st.Shard.Slot)
		}
	}
	return nil
}

package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/stet-run/stet/store"
)

// Which parts form a lane is noted in the store, because the nodes of a lane share its shards
// evenly, and have to agree on what they share. It is found out when the store is opened on a
// cluster the first time: the parts of each master are a lane. It stays so. The client finds a
// part wherever it is; after a failover all parts of a lane are on the new master, and after slots
// have moved a lane may be on several masters, and then stops with each of them.
//
// What is noted of a store is in part 0, and copies are in others, for processes that begin
// while part 0 is away.

const (
	// maxLanes bounds the lanes of a store. Masters beyond share them.
	maxLanes = 32
	// copies is how many of the first parts have what is noted.
	copies = 256
	// openLimit is how long each step of Open waits for the servers of a cluster, and openAgain, once one of them
	// has not answered.
	openLimit, openAgain = 3 * time.Second, 1500 * time.Millisecond
)

// opening is a store that is being opened.
type opening struct {
	*Store
	silent  bool   // a server of the cluster has not answered
	masters []held // of a cluster
}

// meta is what is noted of a store.
type meta struct {
	id                           string
	schema, oldest, slots, parts int
	lanes                        string // the index of the lane of each part, with commas between; "": none
	runs, items                  int64  // highest numbers in the part where it was read
}

// read reads the answer of open.lua. It reports false if there is no store.
func (m *meta) read(r *reader, from reply) bool {
	if len(r.list(from)) == 0 {
		return false
	}
	f := r.tuple(from, 8)
	m.id, m.schema, m.oldest, m.slots, m.parts = r.text(f[0]), int(r.int(f[1])), int(r.int(f[2])), int(r.int(f[3])),
		int(r.int(f[4]))
	m.lanes, m.runs, m.items = r.text(f[5]), r.int(f[6]), r.int(f[7])
	return r.err == nil
}

// meta reads what is noted of the store, and makes the store if there is none.
func (s *opening) meta(ctx context.Context, parts int) (*meta, error) {
	var r reader
	m := &meta{}
	limited, cancel := s.limited(ctx)
	defer cancel()
	answer, err := s.one(limited, openScript, "read the store", 0, random(), strconv.Itoa(s.cfg.slots),
		strconv.Itoa(parts), "")
	if err == nil {
		m.read(&r, answer)
		return m, r.err
	}
	if !s.known.cluster || !away(err) || ctx.Err() != nil {
		return nil, err
	}
	s.silent = s.silent || limited.Err() != nil
	var calls []call
	for part := 1; part < min(s.cfg.slots, copies); part++ {
		calls = append(calls, call{part, []string{"", "0", "0", ""}})
	}
	limited, cancel = s.limited(ctx)
	defer cancel()
	replies, errs := s.apart(limited, openScript, calls)
	for i := range replies {
		if errs[i] == nil && m.read(&r, replies[i]) && m.lanes != "" {
			return m, nil
		}
	}
	return nil, allThere(err)
}

// allThere says why a store is not opened without one of the masters.
func allThere(err error) error {
	return fmt.Errorf("%w; the store is not known to the others: it is made, and opened by this version the first time, "+
		"when all masters are there", err)
}

// limited bounds what Open asks of a cluster: a master may stand still.
func (s *opening) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if !s.known.cluster {
		return ctx, func() {}
	}
	if s.silent {
		return context.WithTimeout(ctx, openAgain)
	}
	return context.WithTimeout(ctx, openLimit)
}

// settle finds out the lanes, reads the highest numbers, and copies what is noted to where it is missing.
func (s *opening) settle(ctx context.Context, m *meta) error {
	all := make([]int, s.parts)
	for part := range all {
		all[part] = part
	}
	one := []*lane{{Store: s.Store, parts: all}}
	s.laneOf = make([]int, s.parts)
	if s.parts == 1 {
		s.lanes = one
		return nil
	}
	limited, cancel := s.limited(ctx)
	defer cancel()
	calls := onAll(all)
	replies, errs := s.apart(limited, numbersScript, calls)
	var r reader
	var bare []int // parts without a copy
	var missing error
	for part, answer := range replies {
		if errs[part] != nil {
			if missing == nil {
				missing = classify(limited, fmt.Sprintf("read the numbers of part %d", part), errs[part], false)
			}
			continue
		}
		f := r.tuple(answer, 3)
		s.seen.saw(r.int(f[0]), r.int(f[1]))
		if part < copies && r.text(f[2]) == "" {
			bare = append(bare, part)
		}
	}
	if r.err != nil {
		return r.err
	}
	switch {
	case missing == nil:
	case !s.known.cluster || !away(missing) || ctx.Err() != nil:
		return missing
	case m.lanes == "":
		return allThere(missing)
	}
	if !s.known.cluster && s.cfg.lanes == 0 && m.lanes == "" {
		s.lanes = one
		return nil
	}
	if err := s.divide(ctx, m); err != nil {
		return err
	}
	if len(bare) > 0 {
		note := onAll(bare, m.id, strconv.Itoa(m.schema), strconv.Itoa(m.oldest), strconv.Itoa(m.slots),
			strconv.Itoa(m.parts), m.lanes)
		limited, cancel := s.limited(ctx)
		defer cancel()
		_, errs := s.apart(limited, noteScript, note)
		for _, err := range errs {
			if err != nil && !away(classify(limited, "", err, false)) { // otherwise the next process does it
				return classify(limited, "note what the store is", err, false)
			}
		}
	}
	if missing != nil {
		s.cfg.log.Warn("a master of the store is away: its runs wait, and lists fail, until it is back", "error", missing)
	}
	return nil
}

// divide divides the parts into the lanes that are noted, or notes them.
func (s *opening) divide(ctx context.Context, m *meta) error {
	at := make([]string, s.parts)
	for part := range at {
		at[part] = s.masterOf(part)
	}
	if m.lanes == "" {
		answer, err := s.one(ctx, openScript, "note the lanes", 0, "", "0", "0", lanesBy(at, s.cfg.lanes))
		var r reader
		if err != nil {
			return err
		}
		if !m.read(&r, answer) {
			return errors.Join(r.err, fmt.Errorf("%w: the store is gone", store.ErrDamaged))
		}
	}
	of := strings.Split(m.lanes, ",")
	if len(of) != s.parts {
		return fmt.Errorf("%w: expected the lanes of %d parts, found those of %d", store.ErrDamaged, s.parts, len(of))
	}
	var lanes []*lane
	moved := 0
	for part := range of {
		index, err := strconv.Atoi(of[part])
		if err != nil || index < 0 || index > len(lanes) {
			return fmt.Errorf("%w: part %d is of lane %.20q", store.ErrDamaged, part, of[part])
		}
		if index == len(lanes) {
			lanes = append(lanes, &lane{Store: s.Store, index: index, at: at[part]})
		}
		l := lanes[index]
		l.parts, s.laneOf[part] = append(l.parts, part), index
		if at[part] != l.at {
			moved++
		}
	}
	s.lanes = lanes
	if moved > 0 {
		s.cfg.log.Warn("slots have moved since the store was made: a master that is away stops all lanes of which it has "+
			"parts", "parts apart from their lane", moved, "lanes", len(lanes))
	}
	return nil
}

// apart is attempt. What is asked of a master does not wait for another one.
func (s *opening) apart(ctx context.Context, sc *script, calls []call) ([]reply, []error) {
	replies, errs := make([]reply, len(calls)), make([]error, len(calls))
	at := map[string][]int{}
	for i := range calls {
		master := s.masterOf(calls[i].part)
		at[master] = append(at[master], i)
	}
	var asked sync.WaitGroup
	for _, which := range at {
		asked.Go(func() {
			own := make([]call, len(which))
			for k, i := range which {
				own[k] = calls[i]
			}
			got, failed := s.attempt(ctx, sc, own)
			for k, i := range which {
				replies[i], errs[i] = got[k], failed[k]
			}
		})
	}
	asked.Wait()
	return replies, errs
}

// masterOf returns the address of the master that had a part when the store was opened, or "".
func (s *opening) masterOf(part int) string {
	if len(s.masters) == 0 {
		return ""
	}
	key := s.client.B().Exists().Key(s.tag(part)).Build()
	slot := int64(key.Slot())
	for _, one := range s.masters {
		if one.first <= slot && slot <= one.last {
			return one.master
		}
	}
	return ""
}

// held is a range of hash slots of a cluster with the address of its master.
type held struct {
	first, last int64
	master      string
}

// topology returns which master has which hash slots. It asks servers, one after the other, until one answers.
func (s *opening) topology(ctx context.Context) (ranges []held, err error) {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	for _, node := range s.client.Nodes() {
		asked, cancel := context.WithTimeout(ctx, openAgain/3)
		var list []rueidis.RedisMessage
		list, err = node.Do(asked, node.B().ClusterSlots().Build()).ToArray()
		cancel()
		if err == nil {
			for _, one := range list {
				if h, ok := heldBy(one); ok {
					ranges = append(ranges, h)
				}
			}
			return ranges, nil
		}
	}
	return nil, err
}

// heldBy reads an element of the answer to CLUSTER SLOTS: first and last slot, master, replicas.
func heldBy(one rueidis.RedisMessage) (held, bool) {
	f, err := one.ToArray()
	if err != nil || len(f) < 3 {
		return held{}, false
	}
	first, err := f[0].AsInt64()
	last, err2 := f[1].AsInt64()
	master, err3 := f[2].ToArray()
	if errors.Join(err, err2, err3) != nil || len(master) < 2 {
		return held{}, false
	}
	host, _ := master[0].ToString()
	port, err := master[1].AsInt64()
	at := net.JoinHostPort(host, strconv.FormatInt(port, 10))
	if host == "" && len(master) > 2 { // the server does not tell it; then its ID is the name
		at, err = master[2].ToString()
	}
	return held{first, last, at}, err == nil
}

// lanesBy returns the text of the lanes: one for each master, in the order of their first parts. In
// tests it is so many.
func lanesBy(masters []string, n int) string {
	var seen []string
	of := make([]string, len(masters))
	for part, at := range masters {
		if n > 0 {
			of[part] = strconv.Itoa(part % n)
			continue
		}
		i := slices.Index(seen, at)
		if i < 0 {
			i, seen = len(seen), append(seen, at)
		}
		of[part] = strconv.Itoa(i % maxLanes)
	}
	return strings.Join(of, ",")
}

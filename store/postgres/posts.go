package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/relay"
	"github.com/stet-run/stet/store/internal/sqlstore"
	"github.com/stet-run/stet/store/storekit"
)

// What the acts of one database send to runs in another one of the same store (OpenAll) they
// put into its outbox. Each post of a turn has a number, and the receiver remembers the highest
// one of each shard that it has applied, in the act that does so. The posts of a shard are written
// by one process at a time, because its lease fences the commits: so they become visible in
// the order of their numbers.
//
// Other posts have no number: what a new run asks of its queue, and the answer to a watch that
// nobody gets. They may be written by several processes at once, and arrive twice. The receiver
// knows such an item by its ID, which it keeps for store.DedupWindow.

// posted is the body of a post.
type posted struct {
	Command store.Command
	// By is the run that gets an End if Command is a watch that nobody gets; 0: none does.
	By store.RunNo
	// Of which call in which process it is a part, and which one of its sends: see answers.
	Process, Call, Send int64
}

// unordered is the shard of a post without a number.
const unordered = ""

// post is a post that is to be written.
type post struct {
	target int
	shard  string // of the sender, or unordered
	turn   int    // index in the batch; -1: of a command
	update bool
	start  int               // of what a start asks: its place among the sends of the turn, or among the commands; else -1
	entry  *store.QueueEntry // of that start
	posted
}

// writes reports whether a post is written, once the results of its batch are known.
func (p *post) writes(r *store.BatchResult) bool {
	answers := r.Commands
	if p.turn >= 0 {
		turn := &r.Turns[p.turn]
		if turn.Verdict != store.Committed && (turn.Verdict != store.StillReady || p.update) {
			return false
		}
		answers = turn.Sends
	}
	return p.start < 0 || p.start < len(answers) && isNew(&answers[p.start], p.entry, r.Now)
}

// isNew reports whether an answer is that to a start, with an entry in a queue, that has made its run in the act at
// now. A repeat may find its run at the same time, while the server's clock stands still or was set back.
func isNew(a *store.Answer, entry *store.QueueEntry, now store.Time) bool {
	return a.Outcome == store.Applied && a.Run.Created == now && a.Run.Marks&store.Held != 0 &&
		bytes.Equal(a.Run.Queue, entry.Data)
}

// postText writes posts. Parameters: columns of them.
const postText = `WITH q AS MATERIALIZED (
		SELECT * FROM unnest($1::bigint[], $2::text[], $3::bytea[]) WITH ORDINALITY AS q(target, shard, body, place)),
	p AS (INSERT INTO stet.posted AS p (shard, no, given)
		SELECT shard, (extract(epoch FROM clock_timestamp())*1000000)::bigint+count(*), count(*)
		FROM q WHERE shard<>'' GROUP BY shard ORDER BY shard
		ON CONFLICT (shard) DO UPDATE SET no=greatest(excluded.no, p.no+excluded.given), given=excluded.given
		RETURNING shard, no, given)
	INSERT INTO stet.outbox (target, shard, no, body)
	SELECT q.target, q.shard, coalesce(p.no-p.given+row_number() OVER (PARTITION BY q.shard ORDER BY q.place), 0), q.body
	FROM q LEFT JOIN p ON p.shard=q.shard COLLATE "C" ORDER BY q.place`

// columns returns the parameters of postText.
func columns(posts []post) (targets []int64, shards []string, bodies [][]byte) {
	for i := range posts {
		targets, shards = append(targets, int64(posts[i].target)), append(shards, posts[i].shard)
		bodies = append(bodies, relay.Marshal(posts[i].posted))
	}
	return targets, shards, bodies
}

// writePosts writes posts in a transaction.
func (t *tx) writePosts(posts []post) error {
	if len(posts) == 0 {
		return nil
	}
	targets, shards, bodies := columns(posts)
	_, err := t.exec(postText, targets, shards, bodies)
	return err
}

// writeLoose writes posts without numbers in the transaction of an application.
func writeLoose(q querier, posts []post) error {
	for i := range posts {
		if _, err := q.exec("INSERT INTO stet.outbox (target, shard, no, body) VALUES ($1, $2, 0, $3)", posts[i].target,
			unordered, relay.Marshal(posts[i].posted)); err != nil {
			return err
		}
	}
	return nil
}

// targets returns the databases that posts are for.
func targets(posts []post) map[int]bool {
	set := map[int]bool{}
	for i := range posts {
		set[posts[i].target] = true
	}
	return set
}

// waitingPosts returns the first post in the outbox, by receiver.
func waitingPosts(ctx context.Context, s *Store) (map[int]int64, error) {
	first := map[int]int64{}
	err := s.single(ctx, "look at the outbox", func(t *tx) error {
		return t.each(`WITH RECURSIVE o(target, id) AS (
				(SELECT target, id FROM stet.outbox ORDER BY target, id LIMIT 1)
				UNION ALL SELECT n.* FROM o, LATERAL (SELECT n.target, n.id FROM stet.outbox n WHERE n.target>o.target
					ORDER BY n.target, n.id LIMIT 1) n)
			SELECT target, id FROM o`, nil, func(scan func(...any) error) error {
			var target, id int64
			err := scan(&target, &id)
			first[int(target)] = id
			return err
		})
	})
	return first, err
}

// readPosts deletes the posts that have arrived, and returns the first of the others that are
// for a database. Their bodies begin with the shard and the number.
func readPosts(ctx context.Context, s *Store, target int, arrived []int64, limit int) (posts []relay.Post, err error) {
	if arrived == nil {
		arrived = []int64{}
	}
	err = s.single(ctx, "read the outbox", func(t *tx) error {
		// The other part of the statement sees the table as it was before.
		return t.each(`WITH d AS (DELETE FROM stet.outbox WHERE id=ANY($1::bigint[]))
			SELECT id, shard, no, body FROM stet.outbox WHERE target=$2 AND id<>ALL($1::bigint[]) ORDER BY id LIMIT $3`,
			[]any{arrived, target, limit}, func(scan func(...any) error) error {
				var id, no int64
				var shard string
				var body []byte
				err := scan(&id, &shard, &no, &body)
				head := relay.Marshal(heading{shard, no})
				head = append(binary.AppendUvarint(nil, uint64(len(head))), head...)
				posts = append(posts, relay.Post{No: id, Body: append(head, body...)})
				return err
			})
	})
	return posts, err
}

// heading is what is written of a post besides its body.
type heading struct {
	Shard string
	No    int64
}

// arrival is a post at its receiver.
type arrival struct {
	heading
	posted
	fresh  bool
	answer store.Answer // if it is fresh
}

func readArrival(p relay.Post) (a arrival, err error) {
	n, size := binary.Uvarint(p.Body)
	if size <= 0 || n > uint64(len(p.Body)-size) {
		return a, fmt.Errorf("%w: post %d in the outbox cannot be read", store.ErrDamaged, p.No)
	}
	body := p.Body[size:]
	if err := errors.Join(relay.Unmarshal(body[:n], &a.heading), relay.Unmarshal(body[n:], &a.posted)); err != nil {
		return a, fmt.Errorf("%w: post %d in the outbox cannot be read: %w", store.ErrDamaged, p.No, err)
	}
	return a, nil
}

// deliver applies what another database has sent, each post with a number once. caller, if it
// is not nil, is the call whose own posts may claim their runs. It returns the databases for which it
// has put something into the outbox.
func deliver(ctx context.Context, s *Store, source int, posts []relay.Post, caller *call) (list []arrival, next []int,
	err error) {
	list = make([]arrival, len(posts))
	for i := range posts {
		if list[i], err = readArrival(posts[i]); err != nil {
			return nil, nil, err
		}
		caller.claims(&list[i])
	}
	at := s.seat.placement
	const act = "deliver from another database"
	var onward []post
	var applied []store.Command
	var answers []store.Answer
	err = patiently(ctx, s, func() error {
		return s.write(ctx, act, waitLimit, func(t *tx, now store.Time) (err error) {
			if err := t.fresh(source, list); err != nil {
				return err
			}
			applied = nil
			for i := range list {
				if list[i].fresh {
					applied = append(applied, list[i].Command)
				}
			}
			if answers, err = t.applyPosts(now, applied, caller); err != nil {
				return err
			}
			onward = nil
			k := 0
			for i := range list {
				if a := &list[i]; a.fresh {
					a.answer = answers[k]
					onward = append(onward, a.replies(now, at)...)
					k++
				}
			}
			return errors.Join(t.writePosts(onward), t.arrived(source, list))
		})
	})
	if err != nil {
		return nil, nil, err
	}
	for to := range targets(onward) {
		next = append(next, to)
	}
	what := storekit.ChangeOf(&store.Batch{Commands: applied}, &store.BatchResult{Commands: answers})
	s.hint.notify(what, len(applied))
	s.hint.heard.Add(what) // runs of this process may be ready
	return list, next, nil
}

// fresh locks the source, and finds out which posts were not applied yet.
func (t *tx) fresh(source int, list []arrival) error {
	if _, err := t.exec("INSERT INTO stet.sources (source) VALUES ($1) ON CONFLICT DO NOTHING", source); err != nil {
		return err
	}
	if _, err := t.row("SELECT FROM stet.sources WHERE source=$1 FOR UPDATE", []any{source}); err != nil {
		return err
	}
	highest := map[string]int64{}
	shards := []string{}
	for i := range list {
		shards = append(shards, list[i].Shard)
	}
	// A statement of its own, which sees what was waited for.
	err := t.each("SELECT shard, no FROM stet.relayed WHERE source=$1 AND shard=ANY($2::text[])", []any{source, shards},
		func(scan func(...any) error) error {
			var shard string
			var no int64
			err := scan(&shard, &no)
			highest[shard] = no
			return err
		})
	for i := range list {
		a := &list[i]
		if a.fresh = a.Shard == unordered || a.No > highest[a.Shard]; a.fresh && a.Shard != unordered {
			highest[a.Shard] = a.No
		}
	}
	return err
}

// arrived notes the highest numbers that were applied.
func (t *tx) arrived(source int, list []arrival) error {
	highest := map[string]int64{}
	for i := range list {
		if a := &list[i]; a.fresh && a.Shard != unordered {
			highest[a.Shard] = max(highest[a.Shard], a.No)
		}
	}
	shards, nos := []string{}, []int64{}
	for shard, no := range highest {
		shards, nos = append(shards, shard), append(nos, no)
	}
	if len(shards) == 0 {
		return nil
	}
	_, err := t.exec(`INSERT INTO stet.relayed AS r (source, shard, no)
		SELECT $1::integer, q.shard, q.no FROM unnest($2::text[], $3::bigint[]) AS q(shard, no) ORDER BY q.shard
		ON CONFLICT (source, shard) DO UPDATE SET no=greatest(r.no, excluded.no)`, source, shards, nos)
	return err
}

// applyPosts carries out commands in one round trip if they are of the usual kind, and otherwise
// one after the other.
func (t *tx) applyPosts(now store.Time, commands []store.Command, caller *call) ([]store.Answer, error) {
	if slices.ContainsFunc(commands, func(c store.Command) bool { return c.Claim }) {
		current, err := t.share(caller.leases)
		if err != nil {
			return nil, err
		}
		c := committing{rows: rows{t}, tx: t, now: now}
		return sqlstore.Under(&c, now, current, false).All(commands)
	}
	if q := t.s.newCommandBatch(commands); q != nil && len(commands) > 1 {
		batch := &pgx.Batch{}
		batch.Queue("SAVEPOINT quick")
		q.queue(t.s, batch)
		results := t.conn.SendBatch(t.ctx, batch)
		_, err := results.Exec()
		if err == nil {
			err = q.read(results)
		}
		if closed := results.Close(); err == nil {
			err = closed
		}
		switch {
		case err == nil && q.done:
			return q.answers, nil
		case err != nil && !errors.Is(err, errNotAtOnce):
			return nil, err
		}
		if _, err := t.exec("ROLLBACK TO quick"); err != nil {
			return nil, err
		}
	}
	return t.s.applyAll(t, now, commands)
}

// replies returns what is to be sent on: the End for a watch that nobody gets, and what a new run
// asks of its queue elsewhere.
func (a *arrival) replies(now store.Time, at *placement) (posts []post) {
	c := &a.Command
	nobody := a.answer.Outcome == store.NotFound || a.answer.Outcome == store.Ended
	if nobody && a.By != 0 && c.Item != nil && c.Item.Kind == store.ItemWatch {
		end := store.Command{RunNo: a.By, Item: storekit.UnwatchableEnd(c.Item)}
		posts = append(posts, post{target: at.of(&end), shard: unordered, turn: -1, start: -1, posted: posted{Command: end}})
	}
	if ask := at.asks(c); ask != nil && isNew(&a.answer, ask.entry, now) {
		posts = append(posts, *ask)
	}
	return posts
}

package redis

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// The witness of a boot, see storekit.Witnesses, is a connection whose number stands in the hash
// g, beside the number of the server's life. A script may not ask which connections there are, so
// whoever takes over gives the lease as it has seen it: it is taken only if it was not renewed
// since.

// witness is that of a boot in a lane: on a cluster it is on the master of the lane's home.
type witness struct {
	s    *lane
	life storekit.Life
}

func (w witness) name() string { return w.life.Node + "\n" + w.life.Boot.Boot }

// key is where the signs of all boots are.
func (w witness) key() string { return w.s.tag(w.s.home()) + "g" }

// keep keeps the connection from now on, unless that is done.
func (w witness) keep() {
	if w.s.cfg.now == nil {
		w.s.witnesses.Keep(w.life.Boot, w.live)
	}
}

// live keeps the connection until ctx ends.
func (w witness) live(ctx context.Context, stirred <-chan struct{}) {
	for ctx.Err() == nil {
		noted, err := w.session(ctx, stirred)
		w.s.witnesses.Blind()
		if ctx.Err() != nil {
			return
		}
		if noted {
			w.withdraw(ctx)
			continue // at once
		}
		w.s.cfg.log.Debug("no witness: a takeover waits for the end of the lease", "error", err)
		pause(ctx, storekit.WitnessRetry)
	}
}

// withdraw notes that the boot has no witness: its lease counts.
func (w witness) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storekit.WitnessAnswer)
	defer cancel()
	_ = w.s.client.Do(ctx, w.s.client.B().Hdel().Key(w.key()).Field(w.name()).Build()).Error() // or it is cut off
}

// asked is what a witness asks on its connection, each question with a bound of its own.
type asked struct {
	c   rueidis.DedicatedClient
	ctx context.Context
}

func (a asked) ask(cmd rueidis.Completed) rueidis.RedisResult {
	ctx, cancel := context.WithTimeout(a.ctx, storekit.WitnessAnswer)
	defer cancel()
	return a.c.Do(ctx, cmd)
}

// askAll is ask for several, at once.
func (a asked) askAll(cmds ...rueidis.Completed) []rueidis.RedisResult {
	ctx, cancel := context.WithTimeout(a.ctx, storekit.WitnessAnswer)
	defer cancel()
	return a.c.DoMulti(ctx, cmds...)
}

// session is the life of one connection. It reports whether it was noted.
func (w witness) session(ctx context.Context, stirred <-chan struct{}) (noted bool, err error) {
	c, release := w.s.client.Dedicate()
	defer release()
	defer c.Close() // the connection must not serve others: it is a sign of life
	conn := asked{c, ctx}
	// The first command has a key, which says which server of a cluster is meant.
	if err := conn.ask(c.B().Hlen().Key(w.key()).Build()).Error(); err != nil {
		return false, err
	}
	cut := c.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}}) // tells of the end at once
	number, err := conn.ask(c.B().ClientId().Build()).AsInt64()
	if err != nil {
		return false, err
	}
	about, err := conn.ask(c.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return false, err
	}
	life := field(about, "run_id")
	if life == "" {
		return false, fmt.Errorf("%w: expected a run_id in INFO, found none", store.ErrUnavailable)
	}
	sign := newSign(life, number, w.life.Process)
	if err := conn.ask(c.B().Hset().Key(w.key()).FieldValue().FieldValue(w.name(), sign).Build()).Error(); err != nil {
		return false, err
	}
	w.s.hints.tell(store.Change{Nodes: true}) // who was alone is not any more
	for {
		gone, others, err := w.look(conn, life)
		if err != nil {
			return true, err
		}
		next, died := w.s.witnesses.Look(w.life, gone, others)
		if died {
			w.s.hints.in.Add(store.Change{Nodes: true}) // leases have ended
		}
		stir := stirred
		if next <= storekit.WitnessLook {
			stir = nil
		}
		select {
		case err := <-cut:
			return true, err
		case <-ctx.Done():
			return true, ctx.Err()
		case <-stir:
		case <-time.After(next):
		}
	}
}

// look returns the boots whose connections to this life of the server are gone, and whether there are others.
func (w witness) look(conn asked, life string) (gone map[storekit.Boot]storekit.Sign, others bool, err error) {
	c := conn.c
	answers := conn.askAll(c.B().Role().Build(), c.B().Hgetall().Key(w.key()).Build())
	role, err := answers[0].ToArray()
	if err != nil {
		return nil, false, err
	}
	if name, err := role[0].ToString(); err != nil || name != "master" {
		return nil, false, fmt.Errorf("%w: expected a master, found %q", store.ErrUnavailable, name)
	}
	signs, err := answers[1].AsStrMap()
	if err != nil {
		return nil, false, err
	}
	gone = map[storekit.Boot]storekit.Sign{}
	var numbers []int64
	for name, sign := range signs {
		at, s, ok := readSign(sign)
		node, boot, _ := strings.Cut(name, "\n")
		if b := (storekit.Boot{Node: node, Boot: boot}); ok && at == life && b != w.life.Boot {
			gone[b], numbers = s, append(numbers, s.Number)
		}
	}
	if len(numbers) == 0 {
		return gone, false, nil
	}
	list, err := conn.ask(c.B().ClientList().Id().ClientId(numbers...).Build()).ToString()
	if err != nil {
		return nil, false, err
	}
	for line := range strings.Lines(strings.TrimPrefix(list, "txt:")) { // of a verbatim string
		if strings.TrimSpace(line) == "" {
			continue
		}
		text, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
		there, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, false, fmt.Errorf("%w: CLIENT LIST: expected id=N, found %.40q", store.ErrUnavailable, line)
		}
		maps.DeleteFunc(gone, func(_ storekit.Boot, s storekit.Sign) bool { return s.Number == there })
	}
	return gone, len(gone) < len(numbers), nil
}

// newSign returns what a witness notes: the life of the server, the number of its connection, and its process.
func newSign(life string, number int64, p storekit.Process) string {
	return fmt.Sprintf("%s;%d;%d;%s", life, number, p.PID, p.Host)
}

// readSign is the inverse of newSign.
func readSign(text string) (life string, s storekit.Sign, ok bool) {
	parts := strings.SplitN(text, ";", 4)
	if len(parts) < 4 {
		return "", s, false
	}
	number, err := strconv.ParseInt(parts[1], 10, 64)
	pid, pidErr := strconv.Atoi(parts[2])
	return parts[0], storekit.Sign{Number: number, Process: storekit.Process{Host: parts[3], PID: pid}},
		err == nil && pidErr == nil
}

// field returns a field of the answer to INFO, or "".
func field(about, name string) string {
	for line := range strings.Lines(about) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

func openAll(t testing.TB, dsns []string, opts ...postgres.Option) *postgres.Wide {
	t.Helper()
	w, err := postgres.OpenAll(t.Context(), dsns, append(opts, postgres.Logger(slog.New(slog.DiscardHandler)))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

var number = stet.Message[int]("number")

// adding receives so many numbers and returns their sum.
var adding = stet.Define("adding", func(ctx stet.Context, n int) (sum int, err error) {
	for range n {
		v, err := number.Receive(ctx)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum, nil
})

// family starts children, which add numbers, and returns the sum of all.
var family = stet.Define("family", func(ctx stet.Context, n int) (sum int, err error) {
	var children []*stet.RunFuture[int]
	for i := range n {
		child, err := leaf.Go(ctx, i)
		if err != nil {
			return 0, err
		}
		children = append(children, child)
	}
	for _, child := range children {
		v, err := child.Await(ctx)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum, nil
})

var leaf = stet.Define("leaf", func(ctx stet.Context, n int) (int, error) {
	return stet.Step(ctx, "step", func(context.Context) (int, error) { return n, nil })
})

// drive runs an engine until the test ends.
func drive(t testing.TB, s store.Store, lease time.Duration) *stet.Engine {
	t.Helper()
	e, err := stet.New(t.Context(), stet.Config{Store: s, Workflows: []stet.Definition{adding, family, leaf}, Build: "b",
		LeaseTTL: lease, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return e
}

// patiently repeats an act while a database is away: nothing tells when it is back.
func patiently(ctx context.Context, t testing.TB, act func() error) {
	t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		err := act()
		switch {
		case err == nil:
			return
		case !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown):
			t.Fatal(err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
}

// begun returns the error of a start. One that was carried out before is none.
func begun[T any](_ *stet.Run[T], err error) error {
	if errors.Is(err, stet.ErrExists) {
		return nil
	}
	return err
}

// homes returns so many IDs of runs at home in a database.
func homes(w *postgres.Wide, database, n int) (ids []string) {
	for range n {
		ids = append(ids, w.NewID(database))
	}
	return ids
}

// Of two servers one dies, for longer than leases last. The runs on the other one start, receive
// and end meanwhile; what they send to the first one waits. When it is back everything goes on, and
// has happened once.
func TestAServerThatIsAwayStopsItsRunsAlone(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	awayAlone(t, servers.NewPostgres(t, servers.Fast...), servers.NewPostgres(t, servers.Fast...))
}

func TestADatabaseThatIsAwayStopsItsRunsAlone(t *testing.T) {
	t.Parallel()
	awayAlone(t, newAway(t), newAway(t))
}

func awayAlone(t *testing.T, one, two stopped) {
	t.Helper()
	w := openAll(t, []string{one.DSN(), two.DSN()}, postgres.AllowLoss(), postgres.Slots(16))
	const lease = 3 * time.Second
	e := drive(t, w, lease)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	there := slices.IndexFunc(w.Databases(), func(name string) bool { return strings.Contains(name, nameOf(t, two)) })
	here := 1 - there
	start := func(id string, n int) {
		t.Helper()
		if _, err := adding.Start(ctx, e, n, stet.ID(id)); err != nil {
			t.Fatal(err)
		}
	}
	say := func(id string, n int) {
		t.Helper()
		if err := number.Send(ctx, e, id, n); err != nil {
			t.Fatal(err)
		}
	}
	ends := func(id string, want int) {
		t.Helper()
		if got, err := adding.Handle(e, id).Wait(ctx); err != nil || got != want {
			t.Fatalf("run %s: %d, %v; want %d", id, got, err, want)
		}
	}
	left, right := homes(w, here, 8), homes(w, there, 8)
	for _, id := range slices.Concat(left, right) {
		start(id, 2)
		say(id, 1)
	}
	// Runs of both send to the other one: families whose children are spread.
	parents := slices.Concat(homes(w, here, 2), homes(w, there, 2))
	for _, id := range parents[:3] {
		if _, err := family.Start(ctx, e, 20, stet.ID(id)); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range parents[:3] {
		if sum, err := family.Handle(e, id).Wait(ctx); err != nil || sum != 190 {
			t.Fatalf("family %s: %d, %v", id, sum, err)
		}
	}
	if err := two.Stop(); err != nil {
		t.Fatal(err)
	}
	died := time.Now()
	var slowest time.Duration
	for i := 0; i < len(left) || time.Since(died) < 2*lease; i++ {
		begun := time.Now()
		id := w.NewID(here)
		if i < len(left) {
			id = left[i]
		} else {
			start(id, 2)
			say(id, 1)
		}
		say(id, 2)
		ends(id, 3)
		slowest = max(slowest, time.Since(begun))
	}
	if slowest > lease {
		t.Errorf("a run on the server that is there took %s", slowest)
	}
	t.Logf("the slowest run beside a server that is away took %s", slowest)
	stuck := w.NewID(here)
	if _, err := family.Start(ctx, e, 20, stet.ID(stuck)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.List(ctx, store.Filter{}); !errors.Is(err, store.ErrUnavailable) ||
		!strings.Contains(err.Error(), strings.TrimSuffix(nameOf(t, two), " at ")) {
		t.Errorf("a list without a database: %v", err)
	}
	if page, err := w.List(ctx, store.Filter{IDs: left}); err != nil || len(page.Runs) != len(left) {
		t.Errorf("of runs on the other one %d are listed, %v", len(page.Runs), err)
	}
	if err := two.Start(); err != nil {
		t.Fatal(err)
	}
	for _, id := range right {
		patiently(ctx, t, func() error { return number.Send(ctx, e, id, 2, stet.SendKey("second")) })
		ends(id, 3)
	}
	if sum, err := family.Handle(e, stuck).Wait(ctx); err != nil || sum != 190 {
		t.Fatalf("the family that was started meanwhile: %d, %v", sum, err)
	}
	page, err := w.List(ctx, store.Filter{Workflows: []string{"leaf"}, Limit: 1000})
	if err != nil || len(page.Runs) != 80 {
		t.Errorf("%d children, %v; want 80", len(page.Runs), err)
	}
	findings, err := w.Doctor(ctx)
	for _, f := range findings {
		if !f.OK && !strings.Contains(f.What, "settings of the server") {
			t.Errorf("%s: %s", f.What, f.Detail)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// nameOf returns how a server or a database is named in errors and lists.
func nameOf(t testing.TB, d dsn) string {
	t.Helper()
	config, err := pgx.ParseConfig(d.DSN())
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(config.Host, "/") {
		return config.Host
	}
	return config.Database + " at "
}

// A process begins while one of the databases is away: it works on the other, and takes the first
// when that is back.
func TestAStoreIsOpenedWithoutOneOfItsServers(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	openedWithoutOne(t, servers.NewPostgres(t, servers.Fast...), servers.NewPostgres(t, servers.Fast...))
}

func TestAStoreIsOpenedWithoutOneOfItsDatabases(t *testing.T) {
	t.Parallel()
	openedWithoutOne(t, newAway(t), newAway(t))
}

func openedWithoutOne(t *testing.T, one, two stopped) {
	t.Helper()
	dsns := []string{one.DSN(), two.DSN()}
	if _, err := postgres.OpenAll(t.Context(), []string{one.DSN(), "host=/nowhere dbname=x"}, postgres.AllowLoss(),
		postgres.Schema("early")); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "all databases") {
		t.Errorf("a store is made without one of its databases: %v", err)
	}
	made := openAll(t, dsns, postgres.AllowLoss())
	there := slices.IndexFunc(made.Databases(), func(name string) bool { return strings.Contains(name, nameOf(t, two)) })
	ids := []string{made.NewID(1 - there), made.NewID(there)}
	if err := two.Stop(); err != nil {
		t.Fatal(err)
	}
	w := openAll(t, []string{two.DSN(), one.DSN()}, postgres.AllowLoss())
	e := drive(t, w, 10*time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if run, err := leaf.Start(ctx, e, 7, stet.ID(ids[0])); err != nil {
		t.Fatal(err)
	} else if got, err := run.Wait(ctx); err != nil || got != 7 {
		t.Fatal(got, err)
	}
	if err := two.Start(); err != nil {
		t.Fatal(err)
	}
	patiently(ctx, t, func() error { return begun(leaf.Start(ctx, e, 8, stet.ID(ids[1]))) })
	if got, err := leaf.Handle(e, ids[1]).Wait(ctx); err != nil || got != 8 {
		t.Fatal(got, err)
	}
}

// A turn sends to a run by the name that it has since it was replaced. The name would be in the lane's own
// database, the run is in the other one: it gets what was sent, also while that one is away.
func TestALaneOfAServerFindsReplacedRuns(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	replacedRuns(t, servers.NewPostgres(t), servers.NewPostgres(t)) // a killed one keeps what it has acknowledged
}

func TestALaneFindsReplacedRuns(t *testing.T) {
	t.Parallel()
	replacedRuns(t, newAway(t), newAway(t))
}

func replacedRuns(t *testing.T, one, two stopped) {
	t.Helper()
	w := openAll(t, []string{one.DSN(), two.DSN()}, postgres.Slots(8), postgres.AllowLoss())
	away := one // has database 0
	if strings.Contains(w.Databases()[0], nameOf(t, two)) {
		away = two
	}
	self := store.Node{ID: "n", Boot: "n-1", Workflows: []string{"w"}}
	leases := make([][]store.Lease, 2)
	for i, lane := range w.Lanes() {
		if _, err := lane.Register(t.Context(), self); err != nil {
			t.Fatal(err)
		}
		var shards []store.Shard
		for slot := range 8 {
			if w.LaneOf(slot) == i {
				shards = append(shards, store.Shard{Group: store.DefaultGroup, Slot: slot})
			}
		}
		got, _, err := lane.Acquire(t.Context(), self, shards, ttl)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range got {
			leases[i] = append(leases[i], a.Lease)
		}
	}
	no := int64(0)
	commit := func(lane int, b store.Batch) store.BatchResult {
		t.Helper()
		no++
		b.Node, b.Boot, b.No, b.Leases = self.ID, self.Boot, no, leases[lane]
		result, err := w.Lanes()[lane].Commit(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	begin := func(id string) store.Run {
		t.Helper()
		c := start(id)
		c.Claim, c.Start.Shard.Slot = true, postgres.SlotOfID(w, id)
		return commit(w.Home(id), store.Batch{Commands: []store.Command{c}}).Commands[0].Run
	}
	sender := begin(w.NewID(1))
	var former store.Run
	name := ""
	for name == "" || w.Home(name) != 1 {
		former = begin(w.NewID(0))
		name = fmt.Sprintf("%s@%d", former.ID, former.No)
	}
	commit(0, store.Batch{Turns: []*store.Turn{{Run: former.No, Shard: former.Shard,
		Update: &store.Update{Status: store.Failed}}}})
	again := start(former.ID)
	again.Start.Shard, again.Start.Existing = former.Shard, store.ReplaceFailed
	again.Start.Seed = store.Seed([]byte("another seed 16b"))
	if answers, _, err := w.Apply(t.Context(), []store.Command{again}); err != nil || answers[0].Outcome != store.Applied {
		t.Fatalf("%+v, %v", answers, err)
	}
	verb := func(id string) {
		t.Helper()
		result := commit(1, store.Batch{Turns: []*store.Turn{{Run: sender.No, Shard: sender.Shard, Sends: []store.Command{
			{RunID: name, Item: &store.Item{Kind: store.ItemRetry, ID: id, Origin: "o"}}}}}})
		if len(result.Turns[0].Sends) != 1 || result.Turns[0].Sends[0].Outcome != store.Posted {
			t.Errorf("a send to %s: %+v; want that it is posted", name, result.Turns[0])
		}
	}
	arrived := func(n int) {
		t.Helper()
		servers.Until(t, "items arrive", func() bool {
			items, err := w.Inbox(t.Context(), former.No)
			return err == nil && len(items) == n
		})
	}
	verb("first")
	arrived(1)
	if err := away.Stop(); err != nil {
		t.Fatal(err)
	}
	verb("second")
	if err := away.Start(); err != nil {
		t.Fatal(err)
	}
	arrived(2)
}

// The databases of a store are opened together, and no others with them.
func TestOpenAllRefusesWhatDoesNotBelongTogether(t *testing.T) {
	t.Parallel()
	dsns, _ := schemasOf(t, 5)
	opts := []postgres.Option{postgres.AllowLoss(), postgres.Slots(4)}
	first := openAll(t, dsns[:2], opts...)
	again := openAll(t, []string{dsns[1], dsns[0]}, opts...)
	for _, id := range []string{"a", "b", "c", "d"} {
		if first.Home(id) != again.Home(id) {
			t.Errorf("the home of %s depends on the order of the addresses", id)
		}
	}
	openAll(t, dsns[2:4], opts...)
	alone := open(t, dsns[4], append(opts, postgres.Conns(2))...)
	if _, _, err := alone.Apply(t.Context(), []store.Command{{Start: &store.Start{ID: "x", Workflow: "w",
		Shard: store.Shard{Group: store.DefaultGroup, Slot: 1}}}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		dsns []string
		says string
	}{
		{"one", dsns[:1], "for one database use Open"},
		{"too few", []string{dsns[0], dsns[4]}, "used by itself"},
		{"databases of two stores", []string{dsns[0], dsns[2]}, "databases of one store"},
		{"one twice", []string{dsns[0], dsns[0]}, "each database once"},
		{"one more", dsns[:3], "databases of one store"},
	} {
		w, err := postgres.OpenAll(t.Context(), c.dsns, opts...)
		if err == nil {
			_ = w.Close()
		}
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: %v; want %q", c.what, err, c.says)
		}
	}
	if s, err := postgres.Open(t.Context(), dsns[0], opts...); !errors.Is(err, store.ErrInvalid) ||
		!strings.Contains(err.Error(), "OpenAll") {
		t.Errorf("one of several databases is opened by itself: %v, %v", s, err)
	}
}

// What is started in an application's transaction is at home in its database, or is refused with
// the one that is; so is a step in a transaction.
func TestTransactionsSayWhereARunIsAtHome(t *testing.T) {
	t.Parallel()
	dsns, schemas := schemasOf(t, 2)
	// The databases are told apart though both are schemas of one: so this is a test of names.
	w := openAll(t, dsns, postgres.AllowLoss(), postgres.Slots(8))
	e := drive(t, w, time.Minute)
	c := application(t, dsns[0][:strings.LastIndexAny(dsns[0], "? ")])
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run, err := stet.StartTx(t.Context(), tx, e, leaf, 5, stet.ID(w.NewID(0)))
	if err != nil {
		t.Fatal(err)
	}
	id := w.NewID(1)
	_, err = stet.StartTx(t.Context(), tx, e, leaf, 5, stet.ID(id))
	for _, says := range []string{id, "database 1", "database 0", schemas[0], schemas[1], "NewID"} {
		if !errors.Is(err, stet.ErrInvalid) || !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("a run that is at home elsewhere: %v; want %q in it", err, says)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := run.Wait(t.Context()); err != nil || got != 5 {
		t.Errorf("the run that was started in a transaction: %d, %v", got, err)
	}
}

// Many runs of several nodes send to each other between three databases, while the connections of
// one of them are cut again and again: everything arrives, once.
func TestSendsBetweenDatabasesArriveOnce(t *testing.T) {
	t.Parallel()
	dsns, schemas := schemasOf(t, 3)
	opts := []postgres.Option{postgres.AllowLoss(), postgres.Slots(12), postgres.Conns(4)}
	w := openAll(t, dsns, opts...)
	e := drive(t, w, 5*time.Second)
	drive(t, openAll(t, dsns, opts...), 5*time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	stop, cut := make(chan struct{}), make(chan error, 1)
	var cuts atomic.Int64
	go func() {
		conn, err := pgx.Connect(ctx, dsns[0][:strings.LastIndexAny(dsns[0], "? ")])
		if err != nil {
			cut <- err
			return
		}
		defer func() { _ = conn.Close(context.Background()) }()
		for range 20 { // each one is made anew meanwhile, also on a slow machine
			select {
			case <-stop:
				cut <- nil
				return
			case <-time.After(300 * time.Millisecond):
			}
			n := 0
			if err := conn.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE pid<>pg_backend_pid() AND query LIKE '%'||$1||'%'`, schemas[1]).Scan(&n); err != nil {
				cut <- err
				return
			}
			cuts.Add(int64(n))
		}
		cut <- nil
	}()
	const families, each = 12, 20
	for i := range families {
		patiently(ctx, t, func() error { return begun(family.Start(ctx, e, each, stet.ID(fmt.Sprint("family", i)))) })
	}
	for i := range families {
		patiently(ctx, t, func() error {
			sum, err := family.Handle(e, fmt.Sprint("family", i)).Wait(ctx)
			if err == nil && sum != each*(each-1)/2 {
				t.Errorf("family %d: %d", i, sum)
			}
			if ctx.Err() != nil {
				return nil // the runs that have not ended are listed below
			}
			return err
		})
	}
	close(stop)
	if err := <-cut; err != nil {
		t.Error(err)
	}
	if ctx.Err() != nil {
		page, err := w.List(context.Background(), store.Filter{Limit: 1000, Statuses: []store.Status{store.Queued,
			store.Running, store.Suspended, store.Stalled}})
		for _, r := range page.Runs {
			t.Logf("%s of %s in database %d is %s: %s", r.ID, r.Workflow, w.Home(r.ID), r.Status, r.Reason)
		}
		t.Fatal("not all families have ended: ", err)
	}
	t.Logf("%d connections were cut", cuts.Load())
	var page store.Page
	patiently(ctx, t, func() (err error) { // the pool may still hold one of those
		page, err = w.List(ctx, store.Filter{Workflows: []string{"leaf"}, Limit: 1000})
		return err
	})
	if len(page.Runs) != families*each {
		t.Errorf("%d children; want %d", len(page.Runs), families*each)
	}
	at := map[int]int{}
	for i := range page.Runs {
		at[w.Home(page.Runs[i].ID)]++
	}
	if len(at) != 3 {
		t.Errorf("the children are at home in %v", at)
	}
}

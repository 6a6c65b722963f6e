package steps_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/steps"
)

// task is a task of the tests. It takes a second unless it is cancelled before.
type task struct {
	steps.Place
	name      string
	next      func() steps.Task
	goexit    bool
	log       *journal
	cancelled chan struct{}
}

func (k *task) Execute() func() steps.Task {
	k.log.note("begin " + k.name)
	select {
	case <-time.After(time.Second):
	case <-k.cancelled:
	}
	k.log.note("end " + k.name)
	if k.goexit {
		runtime.Goexit()
	}
	return k.next
}

func (k *task) Cancel(error)   { close(k.cancelled) }
func (k *task) String() string { return "task " + k.name }

// journal is what has happened, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) note(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// seen returns a copy of what has happened.
func (j *journal) seen() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

func (j *journal) task(name string) *task {
	return &task{name: name, log: j, cancelled: make(chan struct{})}
}

func (j *journal) expect(t *testing.T, lines ...string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Equal(j.lines, lines) {
		t.Errorf("expected %q, found %q", lines, j.lines)
	}
}

// newPool returns a pool whose goroutines end with the test.
func newPool(t *testing.T, limit int) *steps.Pool {
	pool := steps.NewPool(limit, false)
	t.Cleanup(func() { pool.Stop() })
	return pool
}

// TestPoolKeepsOrderAndLimit: no more tasks than allowed are executed at once, and the
// others begin in the order in which they came.
func TestPoolKeepsOrderAndLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		pool := newPool(t, 1)
		for i := range 3 {
			pool.Start(j.task(fmt.Sprint(i)))
		}
		synctest.Wait()
		if n := len(pool.Running()); n != 1 {
			t.Errorf("expected one task to be executed, found %d", n)
		}
		<-pool.Stop() // drops those that wait
		j.expect(t, "begin 0", "end 0")

		j.lines = nil
		pool = newPool(t, 2)
		for i := range 5 {
			pool.Start(j.task(fmt.Sprint(i)))
			synctest.Wait()
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		begun := slices.DeleteFunc(slices.Clone(j.lines), func(line string) bool { return line[0] == 'e' })
		slices.Sort(begun[2:4]) // begin at the same moment
		if want := []string{"begin 0", "begin 1", "begin 2", "begin 3", "begin 4"}; !slices.Equal(begun, want) {
			t.Errorf("expected %q, found %q", want, begun)
		}
		if len(pool.Running()) > 0 {
			t.Error("a task is still executed")
		}
	})
}

// TestPoolNotifiesOfTheNextTask: who knows how many tasks have begun is notified when there
// is one more, also if it has begun before it asks.
func TestPoolNotifiesOfTheNextTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		pool := newPool(t, 1)
		closed := func(c <-chan struct{}) bool {
			select {
			case <-c:
				return true
			default:
				return false
			}
		}
		none := pool.More(0)
		if closed(none) {
			t.Error("notified before the first task")
		}
		pool.Start(j.task("first"))
		pool.Start(j.task("second")) // finds no room
		synctest.Wait()
		if n := pool.Begun(); n != 1 || !closed(none) || !closed(pool.More(0)) || closed(pool.More(1)) {
			t.Errorf("expected to be notified of one task, %d have begun", n)
		}
		time.Sleep(time.Minute)
		if n := pool.Begun(); n != 2 || !closed(pool.More(1)) || closed(pool.More(2)) {
			t.Errorf("expected to be notified of the second task, %d have begun", n)
		}
	})
}

// TestPoolFollows: what follows a task is executed also when others wait, and when its
// own next task finds no room it waits.
func TestPoolFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		pool := newPool(t, 1)
		first := j.task("first")
		first.next = func() steps.Task {
			j.note("next")
			return j.task("follows")
		}
		pool.Start(first)
		synctest.Wait()
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		j.expect(t, "begin first", "end first", "next", "begin follows")
		<-pool.Stop()

		j.lines = nil
		pool = newPool(t, 1)
		pool.Start(first)
		synctest.Wait()
		pool.Start(j.task("waits"))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		want := []string{"begin first", "end first", "begin waits", "end waits", "begin follows", "end follows"}
		j.lines = slices.DeleteFunc(j.lines, func(line string) bool { return line == "next" }) // beside the one that waits
		j.expect(t, want...)

		j.lines = nil
		pool.Follow(func() steps.Task { return nil })
		pool.Follow(func() steps.Task { return j.task("direct") })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		j.expect(t, "begin direct", "end direct")
	})
}

// TestPoolReplacesGoroutine: a task that ends its goroutine leaves its room to the next.
func TestPoolReplacesGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		pool := newPool(t, 1)
		bad := j.task("bad")
		bad.goexit = true
		pool.Start(bad)
		synctest.Wait()
		pool.Start(j.task("good"))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		j.expect(t, "begin bad", "end bad", "begin good", "end good")
	})
}

// TestPoolStops: nothing begins after Stop, and it waits for what is executed, which a
// cancel ends early.
func TestPoolStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		pool := newPool(t, 1)
		select {
		case <-steps.NewPool(1, false).Stop():
		default:
			t.Error("a pool that executes nothing is not drained")
		}
		begun := time.Now()
		pool.Start(j.task("a"))
		synctest.Wait()
		drained := pool.Stop()
		pool.Start(j.task("late"))
		pool.Follow(func() steps.Task { return j.task("later") })
		select {
		case <-drained:
			t.Error("drained while a task is executed")
		default:
		}
		if places := pool.CancelAll(); !slices.Equal(places, []string{"task a"}) {
			t.Errorf("expected task a to be cancelled, found %q", places)
		}
		<-drained
		if time.Since(begun) != 0 {
			t.Error("the cancel did not reach the task")
		}
		j.expect(t, "begin a", "end a")
		<-pool.Stop() // again
	})
}

// A task that is kept has its place after its end, until it is released; one that is not
// executed cannot be kept.
func TestPoolKeepsPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 1)
		log := &journal{}
		newTask := func(name string) *task { return &task{name: name, log: log, cancelled: make(chan struct{})} }
		first, second, third := newTask("1"), newTask("2"), newTask("3")
		p.Keep(first) // too early: does nothing
		p.Start(first)
		p.Start(second)
		p.Start(third)
		p.Keep(first)
		p.Keep(second) // it waits: does nothing
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"begin 1", "end 1"}; !slices.Equal(log.seen(), want) {
			t.Errorf("found %q; want %q", log.seen(), want)
		}
		p.Release(first)
		p.Release(first)
		synctest.Wait()
		p.Keep(second)
		p.Release(second) // while it is executed: it has its place until it ends
		synctest.Wait()
		if want := []string{"begin 1", "end 1", "begin 2"}; !slices.Equal(log.seen(), want) {
			t.Errorf("found %q; want %q", log.seen(), want)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"begin 1", "end 1", "begin 2", "end 2", "begin 3", "end 3"}; !slices.Equal(log.seen(), want) {
			t.Errorf("found %q; want %q", log.seen(), want)
		}
	})
}

// limitedTask is a task of a kind.
type limitedTask struct {
	*task
	kind  string
	limit int
}

func (k limitedTask) Limit() (string, int) { return k.kind, k.limit }

// Of a kind no more tasks have a place than their limit says. Those that wait for their kind
// take no place from others.
func TestPoolLimitsKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 3)
		var j journal
		of := func(name, kind string, limit int) *limitedTask { return &limitedTask{j.task(name), kind, limit} }
		first := of("a1", "a", 1)
		p.Start(first)
		synctest.Wait()
		p.Keep(first)
		for _, k := range []*limitedTask{of("a2", "a", 1), of("a3", "a", 1), of("b1", "b", 2), of("b2", "b", 2),
			of("b3", "b", 2), of("c", "", 0)} {
			p.Start(k)
			synctest.Wait()
		}
		running := func(want ...string) {
			t.Helper()
			var names []string
			for _, k := range p.Running() {
				names = append(names, k.String())
			}
			if slices.Sort(names); !slices.Equal(names, want) {
				t.Errorf("%q are executed; want %q", names, want)
			}
		}
		running("task a1", "task b1", "task b2")
		time.Sleep(1500 * time.Millisecond) // these have ended
		running("task b3", "task c")
		time.Sleep(time.Second)
		synctest.Wait()
		running()
		j.lines = nil
		p.Release(first)
		synctest.Wait()
		j.expect(t, "begin a2")
		time.Sleep(time.Minute)
		synctest.Wait()
		j.expect(t, "begin a2", "end a2", "begin a3", "end a3")
		<-p.Stop()
	})
}

// Where tasks of a kind say different limits, as two builds do, each counts for its own task,
// and all begin that may.
func TestPoolLetsInWhatALimitAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 10)
		var j journal
		for i, limit := range []int{3, 3, 3, 1, 3, 3, 3} {
			p.Start(&limitedTask{j.task(fmt.Sprint(i)), "a", limit})
		}
		for _, want := range []int{3, 3, 1, 0} {
			time.Sleep(500 * time.Millisecond)
			if n := len(p.Running()); n != want {
				t.Errorf("%d are executed; want %d", n, want)
			}
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
		}
	})
}

// Places that a run keeps are given up when it releases them, at Close all others, and after
// Close at once.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newPool(t, 1)
		places := steps.Places{Pool: pool}
		log := &journal{}
		var tasks []*task
		for i := range 5 {
			tasks = append(tasks, &task{name: fmt.Sprint(i), log: log, cancelled: make(chan struct{})})
			pool.Start(tasks[i])
		}
		keep := func(i int) {
			t.Helper()
			pool.Keep(tasks[i])
			places.Keep(tasks[i])
			time.Sleep(time.Hour) // all that have a place end
			synctest.Wait()
			if last := log.seen()[len(log.seen())-1]; last != fmt.Sprint("end ", i) {
				t.Errorf("found %q last; want the end of %d, which keeps its place", last, i)
			}
		}
		keep(0)
		places.Release([]steps.Task{tasks[0]})
		synctest.Wait()
		keep(1)
		places.Close()
		synctest.Wait()
		pool.Keep(tasks[2])
		places.Keep(tasks[2]) // too late
		time.Sleep(time.Hour)
		synctest.Wait()
		if last := log.seen()[len(log.seen())-1]; last != "end 4" {
			t.Errorf("found %q last; want the end of 4: no place is kept after Close", last)
		}
		places.Release([]steps.Task{tasks[1]}) // again: does nothing
	})
}

// TestPoolUsesItsGoroutinesAgain: of many that have worked some wait for more, and work again; none is left when the
// pool has stopped.
func TestPoolUsesItsGoroutinesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many, kept = 300, 128
		var j journal
		pool := steps.NewPool(many, false)
		goroutines := func() int {
			stacks := make([]byte, 4<<20)
			return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "steps.(*Pool).await(")
		}
		round := func(n int) {
			for i := range n {
				pool.Start(j.task(fmt.Sprint(i)))
			}
			time.Sleep(10 * time.Second)
			synctest.Wait()
		}
		for _, n := range []int{many, kept, 1, many} {
			round(n)
			if more := goroutines(); more != kept {
				t.Errorf("after %d tasks %d goroutines wait for more, expected %d", n, more, kept)
			}
		}
		<-pool.Stop()
		synctest.Wait()
		if more := goroutines(); more != 0 {
			t.Errorf("%d goroutines are left", more)
		}
	})
}

// TestPoolWaitsForNoTask: tasks that wait for one another all begin.
func TestPoolWaitsForNoTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 200
		pool := steps.NewPool(many, false)
		var all, done sync.WaitGroup
		all.Add(many)
		for range many {
			done.Add(1)
			pool.Follow(func() steps.Task {
				defer done.Done()
				all.Done()
				all.Wait()
				return nil
			})
		}
		done.Wait()
		<-pool.Stop()
	})
}

// TestPoolDoesManyOnFewGoroutines: what is short is not worth a goroutine of its own.
func TestPoolDoesManyOnFewGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 1000
		pool := steps.NewPool(many, false)
		var gate, done sync.WaitGroup
		gate.Add(1)
		pool.Follow(func() steps.Task { gate.Wait(); return nil })
		synctest.Wait()
		before := runtime.NumGoroutine()
		if pool.Crowded() {
			t.Error("it is crowded, though all work has begun")
		}
		for range many {
			done.Add(1)
			pool.Follow(func() steps.Task { done.Done(); return nil })
		}
		done.Wait()
		synctest.Wait()
		if more := runtime.NumGoroutine() - before; more > many/10 {
			t.Errorf("%d goroutines were made for %d tasks", more, many)
		}
		gate.Done()
		<-pool.Stop()
	})
}

// TestPoolDoesWhatIsReadyWhenItStops: work that was taken is done, whoever is called for it.
func TestPoolDoesWhatIsReadyWhenItStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := steps.NewPool(1, false)
		var done atomic.Int32
		for range 300 {
			pool.Follow(func() steps.Task { done.Add(1); return nil })
		}
		<-pool.Stop()
		synctest.Wait()
		if n := done.Load(); n != 300 || pool.Crowded() {
			t.Errorf("%d of 300 were done; more wait: %t", n, pool.Crowded())
		}
	})
}

// ofParty is a task of a party that ends when it is released.
type ofParty struct {
	*task
	party string
}

func (p *ofParty) Party() string { return p.party }

// TestPartiesShareThePlaces: of the tasks that wait, parties take turns. In a fair pool a party with any number of
// tasks leaves places to others.
func TestPartiesShareThePlaces(t *testing.T) {
	for _, c := range []struct {
		places  int
		fair    bool
		hog     int // places that a party alone takes of them
		another int // that another one with as many tasks gets at once
	}{{1, true, 1, 0}, {8, true, 8, 0}, {9, true, 8, 1}, {90, true, 80, 9}, {90, false, 90, 0}} {
		synctest.Test(t, func(t *testing.T) {
			var j journal
			pool := steps.NewPool(c.places, c.fair)
			running := func(party string) (n int) {
				synctest.Wait()
				for _, task := range pool.Running() {
					if task.(*ofParty).party == party {
						n++
					}
				}
				return n
			}
			for i := range 1000 {
				pool.Start(&ofParty{j.task(fmt.Sprint("hog ", i)), "hog"})
			}
			hog := running("hog")
			for i := range 1000 {
				pool.Start(&ofParty{j.task(fmt.Sprint("other ", i)), "other"})
			}
			if other := running("other"); hog != c.hog || other != c.another {
				t.Errorf("of %d places, fair %t, one party has taken %d and another one %d; want %d and %d",
					c.places, c.fair, hog, other, c.hog, c.another)
			}
			time.Sleep(time.Hour) // a task takes a second
			begun := map[byte]int{}
			for _, line := range j.seen() {
				if line[0] == 'b' && begun['h']+begun['o'] < 1000 {
					begun[line[len("begin ")]]++
				}
			}
			if begun['o'] < 400 {
				t.Errorf("of %d places, fair %t: among the first 1000 tasks are %d of the second party",
					c.places, c.fair, begun['o'])
			}
			pool.Stop()
		})
	}
}

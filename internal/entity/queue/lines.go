package queue

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/store"
)

// key is what a queue knows of one of its keys. Runs without a key share "".
type key struct {
	name   string
	held   int   // permits
	served int64 // number of the last permit; 0: it was not served, or long ago
	lines  []*line
	recent window     // what its rate counts
	until  store.Time // when it is looked at again, if its rate blocks it; 0: it is not resting
	rests  int        // place among those that rest
}

// line is the runs of one key and priority, first come, first served. It is not
// empty.
type line struct {
	key      *key
	level    *level
	requests []*request
	index    int // in the level's heap; -1: the key is blocked
}

// level is the lines of one priority. The heap has those that are not blocked.
type level struct {
	class    string // the name of a task; "": the nodes of runs execute what has asked
	priority int
	lines    []*line
	count    int // of lines, blocked ones too
}

func (l *level) Len() int { return len(l.lines) }
func (l *level) Less(i, j int) bool {
	a, b := l.lines[i], l.lines[j]
	return cmp.Or(cmp.Compare(a.key.served, b.key.served), a.requests[0].compare(b.requests[0])) < 0
}
func (l *level) Swap(i, j int) {
	l.lines[i], l.lines[j] = l.lines[j], l.lines[i]
	l.lines[i].index, l.lines[j].index = i, j
}
func (l *level) Push(x any) {
	ln := x.(*line)
	ln.index = len(l.lines)
	l.lines = append(l.lines, ln)
}
func (l *level) Pop() any {
	last := len(l.lines) - 1
	ln := l.lines[last]
	l.lines[last] = nil
	l.lines, ln.index = l.lines[:last], -1
	return ln
}

func (q *Rules) key(name string) *key {
	k := q.keys[name]
	if k == nil {
		k = &key{name: name}
		q.keys[name] = k
	}
	return k
}

func compareLevel(l *level, priority int) int { return cmp.Compare(priority, l.priority) }

// line returns the place of a request's line among those of its key; -1: there is none.
func (k *key) line(r *request) int {
	return slices.IndexFunc(k.lines, func(ln *line) bool {
		return ln.level.priority == r.Priority && ln.level.class == r.class()
	})
}

// enter puts a request that is due into its line.
func (q *Rules) enter(r *request) {
	k := q.key(r.Key)
	i := k.line(r)
	r.queued = true
	q.ready++
	if r.Task != nil {
		q.tasks.count(r.Task.Name).Offered++
	}
	if i >= 0 {
		ln := k.lines[i]
		at, _ := slices.BinarySearchFunc(ln.requests, r, (*request).compare)
		ln.requests = slices.Insert(ln.requests, at, r)
		if ln.index >= 0 {
			heap.Fix(ln.level, ln.index)
		}
		return
	}
	levels := q.levels[r.class()]
	at, found := slices.BinarySearchFunc(levels, r.Priority, compareLevel)
	if !found {
		levels = slices.Insert(levels, at, &level{class: r.class(), priority: r.Priority})
		q.levels[r.class()] = levels
	}
	ln := &line{key: k, level: levels[at], requests: []*request{r}}
	k.lines = append(k.lines, ln)
	ln.level.count++
	heap.Push(ln.level, ln)
}

// leave takes a request out of its line.
func (q *Rules) leave(r *request) {
	k := q.keys[r.Key]
	i := k.line(r)
	ln := k.lines[i]
	at, _ := slices.BinarySearchFunc(ln.requests, r, (*request).compare)
	ln.requests = slices.Delete(ln.requests, at, at+1)
	q.ready--
	if r.Task != nil {
		q.tasks.count(r.Task.Name).Offered--
	}
	if len(ln.requests) > 0 {
		if ln.index >= 0 {
			heap.Fix(ln.level, ln.index)
		}
		return
	}
	k.lines = slices.Delete(k.lines, i, i+1)
	if ln.index >= 0 {
		heap.Remove(ln.level, ln.index)
	}
	if ln.level.count--; ln.level.count == 0 {
		levels := q.levels[r.class()]
		at, _ := slices.BinarySearchFunc(levels, r.Priority, compareLevel)
		if levels = slices.Delete(levels, at, at+1); len(levels) == 0 {
			delete(q.levels, r.class())
		} else {
			q.levels[r.class()] = levels
		}
	}
}

// unblock puts the lines of a key back that were blocked by its limit.
func (q *Rules) unblock(k *key) {
	for _, ln := range k.lines {
		if ln.index < 0 {
			heap.Push(ln.level, ln)
		}
	}
}

func (q *Rules) unblockAll() {
	for _, k := range q.keys {
		q.unblock(k)
	}
}

// remembered is for how many permits a queue remembers which keys were served.
const remembered = 1000

// turn is a permit and the key that it was for.
type turn struct {
	key string
	no  int64
}

// serve notes that a key was served.
func (q *Rules) serve(k *key, no int64) {
	k.served = no
	q.turns = append(q.turns, turn{k.name, no})
	for _, ln := range k.lines {
		if ln.index >= 0 {
			heap.Fix(ln.level, ln.index)
		}
	}
}

func (q *Rules) sortTurns() {
	slices.SortFunc(q.turns, func(a, b turn) int { return cmp.Compare(a.no, b.no) })
}

// forgetOld forgets keys that were not served for long.
func (q *Rules) forgetOld(w *entity.Writer) {
	for len(q.turns) > 0 && q.turns[0].no+remembered <= q.head.Granted && !w.Full() {
		name := q.turns[0].key
		q.turns = q.turns[1:]
		q.forget(name, w)
	}
}

// forget drops what is known of a key that holds nothing, waits for nothing and was
// not served for long.
func (q *Rules) forget(name string, w *entity.Writer) {
	k := q.keys[name]
	if k == nil || k.held+len(k.lines)+len(k.recent.buckets) > 0 || k.served+remembered > q.head.Granted && k.served > 0 {
		return
	}
	if k.served > 0 {
		w.Delete(keyLoc + name)
	}
	delete(q.keys, name)
}

// delays is a heap of requests by when they are due.
type delays []*request

func (d delays) Len() int           { return len(d) }
func (d delays) Less(i, j int) bool { return d[i].compare(d[j]) < 0 }
func (d delays) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}
func (d *delays) Push(x any) {
	r := x.(*request)
	r.index = len(*d)
	*d = append(*d, r)
}
func (d *delays) Pop() any {
	old := *d
	last := len(old) - 1
	r := old[last]
	old[last] = nil
	*d = old[:last]
	return r
}

// remove takes a request out that is not due.
func (d *delays) remove(r *request) {
	heap.Remove(d, r.index)
}

package planner

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/entity/acts"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/schedule"
	"github.com/stet-run/stet/store"
)

// Workflow is the name that schedules have as entities.
const Workflow = store.EntityPrefix + "schedule"

// Keep is how many decisions are kept.
const Keep = 1000

// steps bounds the instants that one turn looks at.
const steps = 1000

// HeaderName and HeaderTime are the headers of a run that a schedule has started:
// its name, and the instant in RFC 3339. Tag is the tag with its name.
const (
	HeaderName = "stet-schedule"
	HeaderTime = "stet-scheduled-for"
	Tag        = "stet.schedule"
)

// Rules are the rules of one schedule. They implement entity.Rules.
type Rules struct {
	run  *store.Run
	name string

	Snapshot
	times   *schedule.Times
	running map[string]*Running
	items   []store.Item // taken in this activation and not answered
	placer  Placer
	place   func(*store.Start) // puts starts on the queue; nil: there is none, or no such
	moved   bool               // it may be another queue by now
	hold    store.Time         // when the queue is looked for again; 0: it is known
	garbage []string           // what a deleted schedule has left
}

// Snapshot is what stands in the entity of a schedule.
type Snapshot struct {
	Config  *Config // nil: there is none
	State   State
	Running []Running // by instant
	Fills   []Fill    // in their order
	Past    []Decision

	fillNos []int64
	oldest  int64 // number of the oldest decision
}

// Placer returns what puts starts on a queue, or nil if there is no such queue. An
// error says that it cannot know now.
type Placer func(permit.Place) (func(*store.Start), error)

// New returns what makes the rules of schedules.
func New(placer Placer) func(run *store.Run) entity.Rules {
	return func(run *store.Run) entity.Rules {
		return &Rules{run: run, name: NameOf(run.ID), placer: placer, running: map[string]*Running{}}
	}
}

// NameOf returns the name of the schedule whose entity has the ID.
func NameOf(id string) string { return strings.TrimPrefix(id, Workflow+"/") }

// Read returns what stands. The error wraps store.ErrDamaged.
func Read(entries []store.Entry) (*Snapshot, error) {
	s := &Snapshot{}
	for i := range entries {
		loc, value := entries[i].Loc, entries[i].Value
		kind, rest, _ := strings.Cut(loc, "/")
		var err error
		switch kind {
		case "config":
			s.Config = &Config{}
			err = Decode(value, s.Config)
		case "state":
			err = Decode(value, &s.State)
		case "run":
			r := Running{RunID: rest}
			err = Decode(value, &r)
			s.Running = append(s.Running, r)
		case "fill":
			var f Fill
			err = Decode(value, &f)
			s.Fills, s.fillNos = append(s.Fills, f), append(s.fillNos, numberOf(rest))
		case "past":
			var d Decision
			err = Decode(value, &d)
			if s.Past = append(s.Past, d); s.oldest == 0 {
				s.oldest = numberOf(rest)
			}
		default:
			err = fmt.Errorf("%w: expected an entry of a schedule", store.ErrDamaged)
		}
		if err != nil {
			return nil, fmt.Errorf("entry %q: %w", loc, err)
		}
	}
	slices.SortStableFunc(s.Running, func(a, b Running) int { return cmp.Compare(a.Instant, b.Instant) })
	return s, nil
}

// numbered returns a location whose order is that of the number.
func numbered(kind string, n int64) string { return fmt.Sprintf("%s/%016x", kind, n) }

func numberOf(text string) (n int64) {
	if _, err := fmt.Sscanf(text, "%x", &n); err != nil {
		return 0 // of an entry that somebody else has written; it sorts first
	}
	return n
}

// Load implements entity.Rules.
func (r *Rules) Load(entries []store.Entry) error {
	s, err := Read(entries)
	if err != nil {
		return err
	}
	if s.Config == nil {
		for i := range entries {
			r.garbage = append(r.garbage, entries[i].Loc)
		}
		return nil
	}
	r.Snapshot = *s
	for i := range s.Running {
		run := s.Running[i]
		r.running[run.RunID] = &run
	}
	// It was valid where it was set.
	if r.times, err = s.Config.Spec().Compile(); err != nil {
		return fmt.Errorf("schedule %q: %w: %w", r.name, entity.ErrLacks, err)
	}
	return nil
}

// Wake implements entity.Rules.
func (r *Rules) Wake() store.Time {
	if r.hold != 0 {
		return r.hold
	}
	if r.Config == nil || r.State.Paused {
		return 0
	}
	return r.next(r.State.At)
}

// next returns the instant after the given one; 0: there is none.
func (r *Rules) next(after store.Time) store.Time {
	return store.TimeOf(r.times.Next(time.UnixMicro(int64(after))))
}

// Take implements entity.Rules. The end of a run is noted at once; what is asked
// of the schedule is done when the instants before it are decided.
func (r *Rules) Take(it *store.Item, _ store.Time, w *entity.Writer) {
	if it.Kind == store.ItemEnd {
		if r.running[it.Name] != nil {
			delete(r.running, it.Name)
			w.Delete("run/" + it.Name)
		}
		w.Consume(it.No, nil)
		return
	}
	r.items = append(r.items, *it)
}

// Tick implements entity.Rules.
func (r *Rules) Tick(now store.Time, w *entity.Writer) {
	before := r.State
	if !r.findQueue() {
		r.hold = now.Add(lookAgain)
		return
	}
	if !r.work(now, w) {
		w.More()
	}
	if r.Config != nil && r.State != before {
		w.Put("state", Encode(&r.State))
	}
}

// lookAgain is how long a schedule waits that cannot know its queue.
const lookAgain = time.Second

// findQueue finds out how runs are put on the schedule's queue. It reports false if
// the store cannot say now: then nothing is decided.
func (r *Rules) findQueue() bool {
	r.hold, r.place, r.moved = 0, nil, false
	if r.Config == nil || r.Config.Queue == nil {
		return true
	}
	var err error
	r.place, err = r.placer(*r.Config.Queue)
	return err == nil
}

// work does what can be done. It reports false if there is more to do.
func (r *Rules) work(now store.Time, w *entity.Writer) bool {
	for len(r.garbage) > 0 {
		if w.Full() {
			return false
		}
		w.Delete(r.garbage[0])
		r.garbage = r.garbage[1:]
	}
	for {
		r.release(now, w)
		if !r.due(now, w) {
			return false
		}
		if len(r.items) == 0 {
			break
		}
		if w.Full() {
			return false
		}
		it := r.items[0]
		r.items = r.items[1:]
		answer := r.answer(&it, now, w)
		var verdict []byte
		if it.Kind == store.ItemUpdate {
			verdict = Encode(answer)
		}
		w.Consume(it.No, verdict)
		if len(r.garbage) > 0 || r.moved {
			return false
		}
	}
	return r.fill(now, w)
}

// due decides the instants that have come. It reports false if some are left.
func (r *Rules) due(now store.Time, w *entity.Writer) bool {
	if r.Config == nil || r.State.Paused {
		return true
	}
	for n := 0; ; n++ {
		at := r.next(r.State.At)
		if at == 0 || at > now {
			return true
		}
		if n >= steps || w.Full() {
			return false
		}
		switch late := now - store.Time(r.Config.CatchUp); {
		case at <= r.State.Quiet:
			r.skip(at, min(now, r.State.Quiet)+1, WasPaused, now, w)
		case r.Config.CatchUp >= 0 && at < late:
			r.skip(at, late, Missed, now, w)
		default:
			r.State.At = at
			r.decide(at, now, w)
		}
	}
}

// skip skips an instant, and if they come at an interval all before the limit.
func (r *Rules) skip(at, limit store.Time, reason string, now store.Time, w *entity.Writer) {
	last, count := at, int64(1)
	if every := store.Time(r.times.Interval() / time.Microsecond); every > 0 {
		more := (limit - 1 - at) / every
		last, count = at+more*every, 1+int64(more)
	}
	r.State.At = last
	r.note(Decision{From: at, To: last, Count: count, At: now, Reason: reason}, w)
}

// decide decides an instant by the overlap policy.
func (r *Rules) decide(at, now store.Time, w *entity.Writer) {
	switch {
	case r.free():
		r.start(at, now, w)
	case r.Config.Overlap == BufferOne && r.State.Buffered == 0:
		r.State.Buffered = at
	case r.Config.Overlap == CancelPrevious:
		r.cancel(w)
		r.replace(now, w)
		r.State.Buffered = at
	default:
		r.note(Decision{From: at, To: at, Count: 1, At: now, Reason: Overlapped}, w)
	}
}

// free reports whether a run may be started.
func (r *Rules) free() bool {
	return r.Config.Overlap == Allow || len(r.running) == 0 && r.State.Buffered == 0
}

// replace skips the buffered instant.
func (r *Rules) replace(now store.Time, w *entity.Writer) {
	if at := r.State.Buffered; at != 0 {
		r.State.Buffered = 0
		r.note(Decision{From: at, To: at, Count: 1, At: now, Reason: Replaced}, w)
	}
}

// release starts the buffered instant when nothing runs any more.
func (r *Rules) release(now store.Time, w *entity.Writer) {
	if at := r.State.Buffered; r.Config != nil && at != 0 && !r.State.Paused &&
		(len(r.running) == 0 || r.Config.Overlap == Allow) {
		r.State.Buffered = 0
		r.start(at, now, w)
	}
}

// RunID returns the ID of the run that a schedule starts for an instant.
func RunID(name string, at store.Time) string {
	return name + "/" + at.Time().Format(time.RFC3339Nano)
}

// start starts the run of an instant and asks for its end.
func (r *Rules) start(at, now store.Time, w *entity.Writer) {
	id := RunID(r.name, at)
	if r.running[id] != nil {
		return // it was started, and has not ended
	}
	if r.Config.Queue != nil && r.place == nil {
		r.note(Decision{From: at, To: at, Count: 1, At: now, Reason: NoQueue}, w)
		return
	}
	r.State.Started++
	r.note(Decision{From: at, To: at, Count: 1, At: now, RunID: id}, w)
	run := &Running{RunID: id, Instant: at}
	r.running[id] = run
	w.Put("run/"+id, Encode(run))
	c := r.Config
	seed := sha256.Sum256(slices.Concat(r.run.Seed[:], []byte(id)))
	start := &store.Start{
		ID: id, Workflow: c.Workflow, Seed: store.Seed(seed[:16]), Input: c.Input,
		Tags: r.tags(), Headers: Headers(c.Headers, r.name, at),
	}
	if r.place != nil {
		r.place(start)
	}
	w.Send(store.Command{Start: start})
	w.Send(stored.Watching(r.run.No, id, id, r.itemID("watch")))
}

// tags returns the tags of a run, by key.
func (r *Rules) tags() []store.Pair {
	tags := append(slices.DeleteFunc(slices.Clone(r.Config.Tags), func(p store.Pair) bool { return p.Key == Tag }),
		store.Pair{Key: Tag, Value: r.name})
	slices.SortFunc(tags, func(a, b store.Pair) int { return cmp.Compare(a.Key, b.Key) })
	return tags
}

// Headers returns the stored headers of a run of the schedule over others that are
// stored.
func Headers(under []byte, name string, at store.Time) []byte {
	all := map[string]string{}
	if len(under) > 0 {
		_ = json.Unmarshal(under, &all) // was written by the engine; what is no map is dropped
	}
	all[HeaderName], all[HeaderTime] = name, at.Time().Format(time.RFC3339Nano)
	return must(json.Marshal(all))
}

// cancel asks the runs that have not ended to cancel.
func (r *Rules) cancel(w *entity.Writer) {
	for _, id := range slices.Sorted(maps.Keys(r.running)) {
		run := r.running[id]
		if run.Cancelled {
			continue
		}
		run.Cancelled = true
		w.Put("run/"+id, Encode(run))
		item := r.itemID("cancel")
		w.Send(store.Command{RunID: id, Item: &store.Item{
			Kind: store.ItemCancel, Name: Workflow + "/" + r.name, ID: item, Origin: item,
			Value: []byte("the next run of its schedule is due"),
		}})
	}
}

// itemID returns the ID of an item for a run, which is sent at most one of a kind
// for one decision in the life of a schedule.
func (r *Rules) itemID(kind string) string {
	return fmt.Sprintf("%s/%s %s %d %d", Workflow, r.name, kind, r.State.Made, r.State.Past)
}

// note records a decision. What is skipped for the reason of the last one, and
// follows it, is added to that.
func (r *Rules) note(d Decision, w *entity.Writer) {
	if d.RunID == "" {
		r.State.Skipped += d.Count
	}
	if n := len(r.Past); n > 0 && d.RunID == "" {
		if last := &r.Past[n-1]; last.RunID == "" && last.Reason == d.Reason && r.next(last.To) == d.From {
			last.To, last.At = d.To, d.At
			last.Count += d.Count
			w.Put(numbered("past", r.State.Past), Encode(last))
			return
		}
	}
	r.State.Past++
	r.Past = append(r.Past, d)
	w.Put(numbered("past", r.State.Past), Encode(&d))
	if r.oldest == 0 {
		r.oldest = r.State.Past
	}
	for r.State.Past-r.oldest >= Keep {
		w.Delete(numbered("past", r.oldest))
		r.oldest++
		r.Past = r.Past[1:]
	}
}

// fill goes on with the backfills. It reports false if it could do more.
func (r *Rules) fill(now store.Time, w *entity.Writer) bool {
	for n := 0; r.Config != nil && len(r.Fills) > 0; n++ {
		if n >= steps || w.Full() {
			return false
		}
		f := &r.Fills[0]
		loc := numbered("fill", r.fillNos[0])
		at := r.next(f.After)
		switch {
		case at == 0 || at >= f.To:
			w.Delete(loc)
			r.Fills, r.fillNos = r.Fills[1:], r.fillNos[1:]
			continue
		case !r.free():
			return true // the end of what runs goes on with it
		}
		f.After = at
		w.Put(loc, Encode(f))
		r.start(at, now, w)
	}
	return true
}

// answer does what is asked of the schedule.
func (r *Rules) answer(it *store.Item, now store.Time, w *entity.Writer) Answer {
	if it.Name == ItemSet {
		var s Set
		if err := Decode(it.Value, &s); err != nil {
			return Answer{Reason: err.Error()}
		}
		return r.set(&s, it, now, w)
	}
	if r.Config == nil {
		return Answer{Missing: true}
	}
	switch it.Name {
	case ItemPause:
		if !r.State.Paused {
			r.State.Paused, r.State.PausedAt, r.State.Reason = true, now, strings.ToValidUTF8(string(it.Value), "?")
		}
	case ItemResume:
		if r.State.Paused {
			r.State.Paused, r.State.PausedAt, r.State.Reason, r.State.Quiet = false, 0, "", now
		}
	case ItemTrigger:
		answer := r.trigger(now, w)
		if answer.OK {
			acts.CarriedOut(it, w)
		}
		return answer
	case ItemBackfill:
		var f Fill
		if err := Decode(it.Value, &f); err != nil {
			return Answer{Reason: err.Error()}
		}
		if f.To > now {
			return Answer{Reason: fmt.Sprintf("expected the end of a backfill not to be in the future, found %s at %s", f.To,
				now)}
		}
		r.State.Fills++
		r.Fills, r.fillNos = append(r.Fills, f), append(r.fillNos, r.State.Fills)
		w.Put(numbered("fill", r.State.Fills), Encode(&f))
	case ItemDelete:
		r.delete(w)
	default:
		return Answer{Reason: fmt.Sprintf("nobody knows %q", it.Name)}
	}
	acts.CarriedOut(it, w)
	return Answer{OK: true}
}

// set makes the schedule, or another one of it.
func (r *Rules) set(s *Set, it *store.Item, now store.Time, w *entity.Writer) Answer {
	former := r.Config
	if former != nil {
		paused := s.Config
		paused.Paused = former.Paused // which is how it was made
		if bytes.Equal(Encode(&paused), Encode(former)) {
			return Answer{OK: true}
		}
		if s.New {
			return Answer{Exists: true}
		}
	}
	times, err := s.Config.Spec().Compile()
	switch {
	case errors.Is(err, schedule.ErrInvalid):
		return Answer{Reason: err.Error()}
	case err != nil:
		panic(err)
	}
	config := s.Config
	r.Config, r.times = &config, times
	r.moved = true
	r.State.At = max(r.State.At, now)
	if former == nil {
		r.State.Made = now
		if config.Paused {
			r.State.Paused, r.State.PausedAt = true, now
		}
	}
	w.Put("config", Encode(&config))
	w.Put("state", Encode(&r.State))
	acts.CarriedOut(it, w)
	return Answer{OK: true}
}

// trigger decides an instant now.
func (r *Rules) trigger(now store.Time, w *entity.Writer) Answer {
	// Not an instant of the schedule's own, and none twice.
	at := max(now, r.State.Manual+1)
	if at%1000 == 0 {
		at++
	}
	if !r.free() && (r.Config.Overlap == Skip || r.Config.Overlap == BufferOne && r.State.Buffered != 0) {
		return Answer{Reason: Overlapped + ", and its overlap policy starts no other"}
	}
	if r.Config.Queue != nil && r.place == nil {
		return Answer{Reason: NoQueue}
	}
	r.State.Manual = at
	r.decide(at, now, w)
	return Answer{OK: true, RunID: RunID(r.name, at)}
}

// delete takes away all that stands, in this turn what makes it a schedule. Runs
// go on.
func (r *Rules) delete(w *entity.Writer) {
	w.Delete("config")
	w.Delete("state")
	for id := range r.running {
		r.garbage = append(r.garbage, "run/"+id)
	}
	for _, n := range r.fillNos {
		r.garbage = append(r.garbage, numbered("fill", n))
	}
	for n := r.oldest; n > 0 && n <= r.State.Past; n++ {
		r.garbage = append(r.garbage, numbered("past", n))
	}
	slices.Sort(r.garbage)
	r.Snapshot, r.times, r.running = Snapshot{}, nil, map[string]*Running{}
}

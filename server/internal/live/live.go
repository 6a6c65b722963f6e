// Package live follows runs, lists and nodes for those who look at them, and tells what has
// changed as server-sent events.
//
// A follower keeps what it has told last, not a queue: one that is slow skips states and
// never the last one. All followers together read a subject at most once per Every, whatever
// their number: reads are shared, and go through the View of the follower afterwards.
package live

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/internal/view"
	"github.com/stet-run/stet/store"
)

// Every is how often a subject is read.
const Every = time.Second

// Reads shares reads of a store among followers. Make one with New.
type Reads struct {
	engine *stet.Engine

	mu    sync.Mutex
	slots map[string]*slot
	swept time.Time // when slots were forgotten last
	hubs  map[store.RunNo]*hub
}

// New returns shared reads of an engine's store.
func New(e *stet.Engine) *Reads {
	return &Reads{engine: e, slots: map[string]*slot{}, hubs: map[store.RunNo]*hub{}}
}

// slot is one read that is shared.
type slot struct {
	mu    sync.Mutex
	at    time.Time        // when the read began
	took  [2]time.Duration // this one, and the one before
	value any
	err   error
}

// shared returns the result of read for the key, at most Every old, and of a read that has not
// begun before since.
func shared[T any](
	ctx context.Context, r *Reads, key string, since time.Time, read func(context.Context) (T, error),
) (T, error) {
	r.mu.Lock()
	r.sweep(time.Now())
	s := r.slots[key]
	if s == nil {
		s = &slot{at: time.Now().Add(-Every)}
		r.slots[key] = s
	}
	r.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.value == nil && s.err == nil || now.Sub(s.at) >= Every*9/10 || s.at.Before(since) {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		value, err := read(bounded)
		cancel()
		s.value, s.err, s.at, s.took = value, err, now, [2]time.Duration{time.Since(now), s.took[0]}
	}
	value, _ := s.value.(T)
	return value, s.err
}

// sweep forgets what is too old to be of use, once per Every: it may be large. r.mu is held.
func (r *Reads) sweep(now time.Time) {
	if now.Sub(r.swept) < Every {
		return
	}
	r.swept = now
	maps.DeleteFunc(r.slots, func(_ string, s *slot) bool {
		if !s.mu.TryLock() { // it is read
			return false
		}
		defer s.mu.Unlock()
		return now.Sub(s.at) > 2*Every
	})
}

// ofRun returns the result of a read of one run, for all followers of the run. What was read before
// the last hint about it is old.
func ofRun[T any](
	ctx context.Context, f *Follower, what, id string, read func(context.Context) (T, error),
) (T, error) {
	return shared(ctx, f.reads, what+"\x00"+id, f.since(id), read)
}

// Subjects are what a follower looks at.
type Subjects struct {
	Runs    []string // IDs
	Streams []Stream
	Lists   []store.Filter // with their limits
	Names   []string       // of the lists, as the follower has written them
	Nodes   bool
}

// Stream is a stream of a run.
type Stream struct{ Run, Name string }

// place is how far a follower knows a run.
type place struct {
	// Run tells a run from one that another start has put in its place; 0: not known.
	Run         store.RunNo `json:"r,omitempty"`
	Incarnation int         `json:"i"`
	Generation  int         `json:"g"`
	Number      int64       `json:"n"` // highest completion number
	Ended       int64       `json:"t"` // when that ended, in microseconds: after a retry another has the number
	// Items are the positions of the last items that were told, by stream.
	Items map[string]int64 `json:"s,omitempty"`
}

// same reports whether two places are of one history.
func (p place) same(o place) bool {
	return p.Incarnation == o.Incarnation && p.Generation == o.Generation
}

// sum is the hash of an event that was sent.
type sum [sha256.Size]byte

// Follower tells what changes of its subjects.
type Follower struct {
	reads    *Reads
	view     *view.View
	subjects Subjects
	places   map[string]place
	told     map[string]sum  // of the last event sent, by event and subject: the texts may be large
	hints    chan struct{}   // nil: it does not listen
	joined   map[string]*hub // by the ID of a run
	// Tell sends an event. An error ends the follower's round.
	Tell func(event, id string, data any) error
}

// Follow returns a follower that goes on where the last event ID that it has got says; "":
// from the beginning. The error wraps store.ErrBadCursor.
func (r *Reads) Follow(v *view.View, subjects Subjects, last string) (*Follower, error) {
	f := &Follower{reads: r, view: v, subjects: subjects, places: map[string]place{}, told: map[string]sum{}}
	if last == "" {
		return f, nil
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(last)
	if err != nil || json.Unmarshal(data, &f.places) != nil || !told(f.places) {
		return nil, fmt.Errorf("Last-Event-ID: expected the ID of one of these events: %w", store.ErrBadCursor)
	}
	if f.places == nil {
		f.places = map[string]place{}
	}
	maps.DeleteFunc(f.places, func(id string, _ place) bool {
		return !slices.Contains(subjects.Runs, id) &&
			!slices.ContainsFunc(subjects.Streams, func(s Stream) bool { return s.Run == id })
	})
	return f, nil
}

// told reports whether a server can have told how far a reader is.
func told(places map[string]place) bool {
	for _, p := range places {
		for _, position := range p.Items {
			if position < 0 {
				return false
			}
		}
		if p.Number < 0 {
			return false
		}
	}
	return true
}

// cursor returns the ID of an event: how far all runs are known.
func (f *Follower) cursor() string {
	data, err := json.Marshal(f.places)
	if err != nil {
		panic(err) // numbers always encode
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// tell sends an event if it says something else than the last one of its subject.
func (f *Follower) tell(event, subject string, data any) (told bool, err error) {
	text, err := json.Marshal(data)
	if err != nil {
		return false, err
	}
	key := event + "\x00" + subject
	now := sum(sha256.Sum256(text))
	if f.told[key] == now {
		return false, nil
	}
	f.told[key] = now
	return true, f.Tell(event, f.cursor(), json.RawMessage(text))
}

// Round looks at all subjects once, and tells what is new.
func (f *Follower) Round(ctx context.Context) error {
	for _, id := range f.subjects.Runs {
		if err := f.run(ctx, id); err != nil {
			return err
		}
	}
	for _, s := range f.subjects.Streams {
		if err := f.items(ctx, s); err != nil {
			return err
		}
	}
	for i := range f.subjects.Lists {
		if err := f.list(ctx, i); err != nil {
			return err
		}
	}
	if f.subjects.Nodes {
		info, err := shared(ctx, f.reads, "nodes", time.Time{}, f.reads.engine.Nodes().Info)
		if err != nil {
			return err
		}
		nodes := view.ShowNodes(f.view, info)
		nodes.Now = time.Time{}
		for i := range nodes.Nodes {
			if state := nodes.Nodes[i].State; state != "silent" && state != "lost" { // it changes each time
				nodes.Nodes[i].Seen = time.Time{}
			}
		}
		if _, err := f.tell("nodes", "", nodes); err != nil {
			return err
		}
	}
	return nil
}

// run tells how a run stands, and which of its entries are new.
func (f *Follower) run(ctx context.Context, id string) error {
	info, err := f.info(ctx, id)
	if err != nil {
		return err
	}
	run, err := f.view.Show(ctx, info)
	if err != nil {
		return err
	}
	if f.join(info) { // what it has read may be older than the first hint
		return f.run(ctx, id)
	}
	if err := f.replaced(info); err != nil {
		return err
	}
	known := f.places[id]
	now := known
	now.Incarnation, now.Generation = info.Incarnation, info.Generation
	f.places[id] = now
	if !known.same(now) {
		if err := f.reset(id); err != nil {
			return err
		}
	}
	changed, err := f.tell("run", id, run)
	if err == nil && (changed || !info.Status.Terminal()) {
		err = f.shown(ctx, info)
	}
	if err != nil || !changed && info.Status != store.Running {
		return err
	}
	return f.entries(ctx, id)
}

// info reads a run without its large values, and without any for an identity that may not read them.
func (f *Follower) info(ctx context.Context, id string) (*stet.RunInfo, error) {
	longest := f.view.Longest()
	return ofRun(ctx, f, fmt.Sprint("run", longest), id, func(ctx context.Context) (*stet.RunInfo, error) {
		return view.Read(ctx, f.reads.engine, id, longest)
	})
}

// shown tells what is in the inbox of a run, and the values that it shows.
func (f *Follower) shown(ctx context.Context, info *stet.RunInfo) error {
	inbox, err := ofRun(ctx, f, "inbox", info.ID, func(ctx context.Context) ([]store.Item, error) {
		return f.reads.engine.Store().Inbox(ctx, info.Number)
	})
	if err != nil {
		return err
	}
	items := view.ShowInbox(f.view, info, inbox)
	if key := "inbox\x00" + info.ID; len(items) > 0 || f.told[key] != (sum{}) { // an empty one is no news
		if _, err := f.tell("inbox", info.ID, api.RunInbox{RunID: info.ID, Inbox: api.Inbox{Items: items}}); err != nil {
			return err
		}
	}
	feeds, err := f.feeds(ctx, info)
	if err != nil {
		return err
	}
	shown := view.ShowFeeds(f.view, info, feeds)
	for i := range shown.Values {
		v := &shown.Values[i]
		if _, err := f.tell("value", info.ID+"\x00"+v.Name, api.RunValue{RunID: info.ID, NamedValue: *v}); err != nil {
			return err
		}
	}
	return nil
}

// feeds reads what a run shows.
func (f *Follower) feeds(ctx context.Context, info *stet.RunInfo) ([]store.Feed, error) {
	values := f.view.Longest() > 0
	return ofRun(ctx, f, fmt.Sprint("feeds", values), info.ID, func(ctx context.Context) ([]store.Feed, error) {
		return view.Feeds(ctx, f.reads.engine.Store(), info.Number, values)
	})
}

// items tells the items of a stream after the last one that is known, each once.
func (f *Follower) items(ctx context.Context, s Stream) error {
	info, err := f.info(ctx, s.Run)
	if err != nil {
		return err
	}
	if f.join(info) {
		return f.items(ctx, s)
	}
	if err := f.replaced(info); err != nil {
		return err
	}
	feeds, err := f.feeds(ctx, info)
	if err != nil {
		return err
	}
	last := int64(0)
	for i := range feeds {
		if feeds[i].Stream && feeds[i].Name == s.Name {
			last = feeds[i].Last
		}
	}
	for f.places[s.Run].Items[s.Name] < last {
		found, err := f.view.Items(ctx, s.Run, s.Name, f.places[s.Run].Items[s.Name], 0)
		if err != nil || len(found) == 0 {
			return err
		}
		for _, item := range found {
			p := f.places[s.Run]
			if p.Items = maps.Clone(p.Items); p.Items == nil {
				p.Items = map[string]int64{}
			}
			p.Items[s.Name] = item.Position
			f.places[s.Run] = p
			if err := f.Tell("item", f.cursor(), api.RunItem{RunID: s.Run, Stream: s.Name, StreamItem: item}); err != nil {
				return err
			}
		}
	}
	return nil
}

// replaced forgets what is known of a run if another one has its ID now, whose streams begin at
// their first positions too.
func (f *Follower) replaced(info *stet.RunInfo) error {
	known, ok := f.places[info.ID]
	switch now := (place{Run: info.Number, Incarnation: info.Incarnation, Generation: info.Generation}); {
	case !ok:
		f.places[info.ID] = now
	case known.Run == 0:
		known.Run = info.Number
		f.places[info.ID] = known
	case known.Run != info.Number:
		f.places[info.ID] = now
		return f.reset(info.ID)
	}
	return nil
}

// reset tells that what a follower knows of the entries of a run is void: it has continued as
// new, or was taken back.
func (f *Follower) reset(id string) error {
	p := f.places[id]
	p.Number, p.Ended = 0, 0
	f.places[id] = p
	prefix := "entry\x00" + id + "\x00"
	maps.DeleteFunc(f.told, func(key string, _ sum) bool { return strings.HasPrefix(key, prefix) })
	return f.Tell("reset", f.cursor(), api.RunReset{RunID: id})
}

// entries tells the entries of a run with a higher number than is known, in the order of
// numbers, and those without a number that have changed. They are without values.
func (f *Follower) entries(ctx context.Context, id string) error {
	found, err := ofRun(ctx, f, "history", id, func(ctx context.Context) ([]stet.HistoryEntry, error) {
		return f.reads.engine.Runs().History(ctx, id, stet.HistoryQuery{})
	})
	if err != nil {
		return err
	}
	known := f.places[id]
	if known.Number > 0 && !slices.ContainsFunc(found, func(e stet.HistoryEntry) bool {
		return e.Number == known.Number && e.Ended.UnixMicro() == known.Ended
	}) {
		if err := f.reset(id); err != nil { // it was retried, or a loop has pruned
			return err
		}
	}
	var entries []*api.Entry
	for i := range found {
		if found[i].Number == 0 || found[i].Number > f.places[id].Number {
			entries = append(entries, api.EntryOf(&found[i]))
		}
	}
	slices.SortStableFunc(entries, func(a, b *api.Entry) int { return int(a.Number - b.Number) })
	for _, e := range entries {
		subject := id + "\x00" + e.Location
		if e.Number > 0 {
			p := f.places[id]
			p.Number, p.Ended = e.Number, e.Ended.UnixMicro()
			f.places[id] = p
			delete(f.told, "entry\x00"+subject)
		}
		if _, err := f.tell("entry", subject, api.RunEntry{RunID: id, Entry: e}); err != nil {
			return err
		}
		if e.Number > 0 {
			delete(f.told, "entry\x00"+subject) // its number says that it was told
		}
	}
	return nil
}

// list tells a page of runs when it is another one.
func (f *Follower) list(ctx context.Context, i int) error {
	filter, who := f.subjects.Lists[i], f.view.Who()
	key := fmt.Sprintf("list\x00%s\x00%s\x00%q\x00%s", f.subjects.Names[i], who.Role, who.Workflows, filter.String())
	runs, err := shared(ctx, f.reads, key, time.Time{}, func(ctx context.Context) ([]*api.Run, error) {
		runs, _, err := f.view.Runs(ctx, filter)
		return runs, err
	})
	if err != nil {
		return err
	}
	if runs == nil {
		runs = []*api.Run{}
	}
	_, err = f.tell("page", f.subjects.Names[i], api.LivePage{Query: f.subjects.Names[i], Runs: runs})
	return err
}

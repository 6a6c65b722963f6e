package stet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stet-run/stet/internal/entity/topic"
	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/store"
)

// ErrTopicFull: as many events of the topic as its Cap says, or as many bytes as its CapBytes,
// may still be wanted by some run; nothing was published. The text names the run that is the
// furthest behind.
var ErrTopicFull = topic.ErrFull

// Topics are the topics of an engine's store. Topic.Publish makes one. Safe for
// concurrent use.
type Topics struct{ engine *Engine }

// Topics returns the topics of the store.
func (e *Engine) Topics() Topics { return Topics{e} }

// TopicInfo is how a topic stands, as its writer has counted. What was sent to it a
// moment ago may be missing.
//
// Accepted = Received + Pending + InFlight + Expired.
type TopicInfo struct {
	Name      string
	Mode      TopicMode     // of the last event that was published
	Expiry    time.Duration // likewise; None: none
	Retention time.Duration // likewise; None: for ever
	Cap       int           // likewise; None: none
	CapBytes  int64         // likewise; None: none

	Accepted int64 // events that were published
	// Received counts the consumed events that a run has taken, and the broadcast ones
	// that are kept no more and that some run got.
	Received int64
	Expired  int64 // kept no more, and nobody got them
	Pending  int64 // kept; a broadcast one whoever has got it
	Had      int64 // of Pending: broadcast ones that all runs have had; Cap does not count them
	InFlight int64 // consumed ones that are on their way to a run
	Waiting  int64 // waits of runs
	Refused  int64 // by Cap or CapBytes, and not accepted
	Bytes    int64 // of Pending and InFlight
	HadBytes int64 // of Had; CapBytes does not count them

	// Lacks is what the process that owns the topic lacks to read it, such as a key. It passes nothing on until another
	// process has it. "": nothing is lacking.
	Lacks string
}

// EventInfo is an event that a topic keeps.
type EventInfo struct {
	ID       string
	Number   store.ItemNo // events are published in the order of their numbers
	Mode     TopicMode
	Sent     time.Time `json:",omitzero"`
	Expires  time.Time `json:",omitzero"` // zero: with the topic's retention
	Headers  Headers
	Size     int   // of the value in bytes
	Received int64 // runs that got it, of a broadcast one
	InFlight bool  // on its way to a run
	LeftOut  bool  // the value, by the EventPage

	value  []byte
	codecs codecs
}

// Decode decodes the event's value into v, a pointer. One that was left out leaves v alone.
func (i *EventInfo) Decode(v any) error { return i.codecs.decode(i.value, v) }

// List returns how the topics of the store stand, by name: all to which anything
// was ever published, or that a run has waited at.
func (t Topics) List(ctx context.Context) ([]TopicInfo, error) {
	var infos []TopicInfo
	lacks := recordLacks{engine: t.engine}
	f := store.Filter{Workflows: []string{event.Workflow}, Limit: store.MaxPage}
	for {
		page, err := t.engine.store.List(ctx, f)
		if err != nil {
			return nil, fmt.Errorf("list topics: %w", err)
		}
		for i := range page.Runs {
			stats, err := t.engine.topicStats(ctx, &page.Runs[i])
			if err != nil {
				return nil, err
			}
			name, _ := event.Topic(page.Runs[i].ID)
			info := topicInfo(name, stats)
			if info.Lacks, err = lacks.of(ctx, &page.Runs[i]); err != nil {
				return nil, err
			}
			infos = append(infos, info)
		}
		if f.Cursor = page.Next; page.Next == "" {
			slices.SortFunc(infos, func(a, b TopicInfo) int { return cmp.Compare(a.Name, b.Name) })
			return infos, nil
		}
	}
}

// Info returns how a topic stands. ErrNotFound: nothing was ever published to it,
// and no run has waited at it.
func (t Topics) Info(ctx context.Context, name string) (*TopicInfo, error) {
	run, err := t.engine.topicRecord(ctx, name)
	if err != nil {
		return nil, err
	}
	stats, err := t.engine.topicStats(ctx, run)
	if err != nil {
		return nil, err
	}
	info := topicInfo(name, stats)
	lacks := recordLacks{engine: t.engine}
	if info.Lacks, err = lacks.of(ctx, run); err != nil {
		return nil, err
	}
	return &info, nil
}

// EventPage selects events of a topic. The zero EventPage selects all.
type EventPage struct {
	Before  store.ItemNo // only events with a lower EventInfo.Number; 0: all
	Limit   int          // at most so many, the last ones; 0: all
	Longest int          // leaves out values with more bytes, whose Size is there; 0: none; below 0: all
	// Bytes leaves out the values of older events once those of newer ones have so many bytes; 0: none.
	Bytes int
}

// Events returns the events that a topic keeps, or those of a page, in the order in which they were
// published. ErrNotFound as for Info.
func (t Topics) Events(ctx context.Context, name string, page ...EventPage) ([]EventInfo, error) {
	run, err := t.engine.topicRecord(ctx, name)
	if err != nil {
		return nil, err
	}
	var p topic.Page
	for _, each := range page {
		p = topic.Page(each)
	}
	held, err := topic.Events(ctx, t.engine.store, run.No, p)
	if err != nil {
		return nil, fmt.Errorf("events of topic %q: %w", name, err)
	}
	infos := make([]EventInfo, len(held))
	for i := range held {
		h := &held[i]
		headers, _ := decodeHeaders(h.Headers) // were written by encode
		infos[i] = EventInfo{
			ID: event.PublicID(h.ID), Number: h.Number, Mode: modeOf(h.Mode), Sent: h.Sent.Time(), Headers: headers,
			Size: h.Bytes, Received: h.Runs, InFlight: h.InFlight, LeftOut: h.Value == nil && h.Bytes > 0,
			value: h.Value, codecs: t.engine.codecs,
		}
		if h.Expires != 0 {
			infos[i].Expires = h.Expires.Time()
		}
	}
	return infos, nil
}

// Remove takes an event out of a topic, by its ID, so that no run gets it any more: one that
// each run that gets it fails by, say. It counts as if it had expired. A run that has got it, or
// to which it is on its way, is not concerned; a consumed event on its way is gone when it comes
// back. The store's audit has the act.
//
// Errors: ErrNotFound if the topic keeps no such event, ErrInvalid for a bad act, ErrPending if
// ctx ends before a process has decided (the request stands), and those of the store.
func (t Topics) Remove(ctx context.Context, name, eventID string, act Act) error {
	if err := act.check(); err != nil {
		return fmt.Errorf("remove event %q of topic %q: %w", eventID, name, err)
	}
	if _, err := t.engine.topicRecord(ctx, name); err != nil { // asked of nobody it would be made
		return err
	}
	found, err := topic.Remove(ctx, t.engine.inner, name, eventID,
		recordOf(t.engine, "remove", "event", eventID+" of topic "+name, act))
	if err == nil && !found {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("remove event %q of topic %q: %w", eventID, name, err)
	}
	t.engine.logged(ctx, "remove", "event", eventID+" of topic "+name, act, nil)
	return nil
}

// Waiting returns how the runs stand that wait at a topic, in the order in which they were
// created; WaitsFor says since when, and until when. A run that has begun to wait a moment
// ago may be missing. They are without their inputs and results. ErrNotFound as for Info.
func (t Topics) Waiting(ctx context.Context, name string) ([]RunInfo, error) {
	run, err := t.engine.topicRecord(ctx, name)
	if err != nil {
		return nil, err
	}
	runs, err := topic.Waiting(ctx, t.engine.store, run.No)
	if err != nil {
		return nil, fmt.Errorf("waits at topic %q: %w", name, err)
	}
	var infos []RunInfo
	for chunk := range slices.Chunk(runs, store.DefaultPage) {
		page, _, err := t.engine.Runs().List(ctx, store.Filter{Nos: chunk, Limit: len(chunk), Values: true, Longest: -1})
		if err != nil {
			return nil, err
		}
		for i := range page {
			if slices.ContainsFunc(page[i].WaitsFor, func(w WaitInfo) bool { return w.Topic == name }) {
				infos = append(infos, page[i])
			}
		}
	}
	slices.SortFunc(infos, func(a, b RunInfo) int { return cmp.Compare(a.Number, b.Number) })
	return infos, nil
}

func (e *Engine) topicRecord(ctx context.Context, name string) (*store.Run, error) {
	run, ok, err := e.inner.Head(ctx, event.EntityID(name))
	switch {
	case err != nil:
		return nil, fmt.Errorf("topic %q: %w", name, err)
	case !ok:
		return nil, fmt.Errorf("topic %q: %w", name, ErrNotFound)
	}
	return &run, nil
}

// topicStats reads how a topic stands, as it says; zero: it has said nothing yet.
func (e *Engine) topicStats(ctx context.Context, run *store.Run) (topic.Stats, error) {
	stats, _, err := topic.ReadStats(ctx, e.store, run.No)
	if err != nil {
		return stats, fmt.Errorf("how %s stands: %w", run.ID, err)
	}
	return stats, nil
}

func modeOf(m event.Mode) TopicMode {
	if m == 0 {
		return Broadcast // nothing was published yet
	}
	return TopicMode(m - event.Broadcast)
}

func topicInfo(name string, s topic.Stats) TopicInfo {
	duration := func(d store.Delay) time.Duration {
		if d == event.Never {
			return None
		}
		return time.Duration(d) * time.Microsecond
	}
	capBytes := s.Settings.CapBytes
	if capBytes == 0 {
		capBytes = int64(None) // the last publisher is of a release that had none
	}
	return TopicInfo{
		Name: name, Mode: modeOf(s.Settings.Mode), Cap: s.Settings.Cap, CapBytes: capBytes,
		Expiry: duration(s.Settings.Expiry), Retention: duration(s.Settings.Retention),
		Accepted: s.Counts.Accepted, Received: s.Counts.Received, Expired: s.Counts.Expired, Refused: s.Counts.Refused,
		Pending: s.Pending, Had: s.Had, InFlight: s.InFlight, Waiting: s.Waiting, Bytes: s.Bytes, HadBytes: s.HadBytes,
	}
}

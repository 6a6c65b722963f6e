package runfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

const (
	format  = "stet run"
	version = 1
)

// ErrFormat says that bytes are not an exported run, or one of a later version.
var ErrFormat = errors.New("not an exported run")

// file is the JSON object. Its fields keep their names and meanings for ever.
type file struct {
	Format  string  `json:"format"`
	Version int     `json:"version"`
	Run     run     `json:"run"`
	Entries []entry `json:"entries"`
	Inbox   []item  `json:"inbox,omitempty"`
}

type run struct {
	No          store.RunNo  `json:"no"`
	ID          string       `json:"id"`
	Group       string       `json:"group"`
	Slot        int          `json:"slot"`
	Workflow    string       `json:"workflow"`
	Status      store.Status `json:"status"`
	Marks       store.Marks  `json:"marks,omitempty"`
	Claimed     bool         `json:"claimed,omitempty"`
	Incarnation int          `json:"incarnation"`
	Generation  int          `json:"generation"`
	Seed        []byte       `json:"seed"`             // base64
	Random      []byte       `json:"random,omitempty"` // of a forked run: its origin's seed
	First       *origin      `json:"first,omitempty"`  // of a run that has continued as new
	Began       instant      `json:"began,omitzero"`
	Build       string       `json:"build,omitempty"`
	Parent      store.RunNo  `json:"parent,omitempty"`
	ParentLoc   loc          `json:"parent_location,omitempty"`
	Created     instant      `json:"created,omitzero"`
	Started     instant      `json:"started,omitzero"`
	Ended       instant      `json:"ended,omitzero"`
	Expires     int64        `json:"expires_us,omitempty"` // -1: never
	WakeAt      instant      `json:"wake_at,omitzero"`
	Suspect     int          `json:"suspect,omitempty"`
	Strikes     int          `json:"strikes,omitempty"`
	Alone       bool         `json:"alone,omitempty"`
	Tags        []pair       `json:"tags,omitempty"`
	Headers     *value       `json:"headers,omitempty"`
	Queue       *value       `json:"queue,omitempty"`
	Input       *value       `json:"input,omitempty"`
	Output      *value       `json:"output,omitempty"`
	Reason      string       `json:"reason,omitempty"`
	Waits       *value       `json:"waits,omitempty"`
	Damage      string       `json:"damage,omitempty"`
}

// origin is how a run began.
type origin struct {
	Workflow string `json:"workflow"`
	Seed     []byte `json:"seed"`  // base64
	Input    []byte `json:"input"` // base64 of the SHA-256
}

// pair is a tag.
type pair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

type entry struct {
	Location   loc     `json:"location"`
	Kind       kind    `json:"kind"`
	State      state   `json:"state"`
	Number     int64   `json:"number,omitempty"` // of the completion
	Born       int64   `json:"born,omitempty"`
	At         instant `json:"at,omitzero"`
	Wake       instant `json:"wake,omitzero"`
	Attempts   int     `json:"attempts,omitempty"`
	Owes       bool    `json:"owes,omitempty"`
	Generation int     `json:"generation,omitempty"`
	Started    instant `json:"started,omitzero"`
	Ended      instant `json:"ended,omitzero"`
	Value      *value  `json:"value,omitempty"`
}

type item struct {
	No          store.ItemNo `json:"no"`
	Kind        itemKind     `json:"kind"`
	State       itemState    `json:"state"`
	Name        string       `json:"name,omitempty"`
	ID          string       `json:"id"`
	Origin      string       `json:"origin,omitempty"`
	Incarnation int          `json:"incarnation,omitempty"`
	Generation  int          `json:"generation,omitempty"`
	Location    loc          `json:"location,omitempty"`
	Failed      bool         `json:"failed,omitempty"`
	Sent        instant      `json:"sent,omitzero"`
	Headers     *value       `json:"headers,omitempty"`
	Value       *value       `json:"value,omitempty"`
	Verdict     *value       `json:"verdict,omitempty"`
}

// Write writes a snapshot that has all values. It fails if a value was left out because
// it is large.
func Write(w io.Writer, s *store.Snapshot) error {
	f := file{Format: format, Version: version, Run: runOf(&s.Run), Entries: make([]entry, 0, len(s.Entries))}
	for i := range s.Entries {
		e := &s.Entries[i]
		if e.Value == nil && e.Size > 0 {
			return fmt.Errorf("entry %s: its value of %d bytes is missing", location.Loc(e.Loc), e.Size)
		}
		f.Entries = append(f.Entries, entryOf(e))
	}
	for i := range s.Items {
		if it := &s.Items[i]; it.Size > 0 {
			return fmt.Errorf("item %d: its value of %d bytes is missing", it.No, it.Size)
		}
		f.Inbox = append(f.Inbox, itemOf(&s.Items[i]))
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false) // would change values
	encoder.SetIndent("", "\t")
	return encoder.Encode(&f)
}

// Read is the inverse of Write. An error other than the reader's wraps ErrFormat.
func Read(r io.Reader) (*store.Snapshot, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	bad := func(text string, args ...any) (*store.Snapshot, error) {
		return nil, fmt.Errorf("%w: %w", ErrFormat, fmt.Errorf(text, args...))
	}
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return bad("%w", err)
	}
	switch {
	case head.Format != format:
		return bad("expected format %q, found %q", format, head.Format)
	case head.Version < 1 || head.Version > version:
		return bad("expected version 1 to %d, found %d; read it with the version of stet that wrote it, or a later one",
			version, head.Version)
	}
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return bad("%w", err)
	}
	s := new(store.Snapshot)
	if len(f.Run.Seed) != len(s.Run.Seed) {
		return bad("run: expected a seed of %d bytes, found %d", len(s.Run.Seed), len(f.Run.Seed))
	}
	if f.Run.ID == "" || f.Run.Workflow == "" || !f.Run.Status.Valid() {
		return bad("run: expected an ID, a workflow and a status")
	}
	if n := len(f.Run.Random); n != 0 && n != len(s.Run.Random) {
		return bad("run: expected randomness of %d bytes, or none, found %d", len(s.Run.Random), n)
	}
	if o := f.Run.First; o != nil && (len(o.Seed) != len(s.Run.First.Seed) || len(o.Input) != len(s.Run.First.Input)) {
		return bad("run: expected the first seed and the hash of the first input to have %d and %d bytes, found %d and %d",
			len(s.Run.First.Seed), len(s.Run.First.Input), len(o.Seed), len(o.Input))
	}
	s.Run = f.Run.stored()
	for i := range f.Entries {
		e := f.Entries[i].stored()
		if err := location.Check(e.Loc); err != nil {
			return bad("entry %d: %w", i, err)
		}
		s.Entries = append(s.Entries, e)
	}
	slices.SortFunc(s.Entries, func(a, b store.Entry) int { return bytes.Compare([]byte(a.Loc), []byte(b.Loc)) })
	for i := 1; i < len(s.Entries); i++ {
		if s.Entries[i].Loc == s.Entries[i-1].Loc {
			return bad("entry %s stands twice", location.Loc(s.Entries[i].Loc))
		}
	}
	for i := range f.Inbox {
		s.Items = append(s.Items, f.Inbox[i].stored())
	}
	return s, nil
}

func runOf(r *store.Run) run {
	var random []byte
	if r.Random != (store.Seed{}) {
		random = r.Random[:]
	}
	out := run{
		Random: random,
		No:     r.No, ID: r.ID, Group: r.Shard.Group, Slot: r.Shard.Slot, Workflow: r.Workflow,
		Status: r.Status, Marks: r.Marks, Claimed: r.Claimed, Incarnation: r.Incarnation, Generation: r.Generation,
		Began: instant(r.Began),
		Seed:  r.Seed[:], Build: r.Build, Parent: r.Parent, ParentLoc: loc(r.ParentLoc),
		Created: instant(r.Created), Started: instant(r.Started), Ended: instant(r.Ended), WakeAt: instant(r.WakeAt),
		Expires: int64(r.Expires),
		Suspect: r.Suspect, Strikes: r.Strikes, Alone: r.Alone, Headers: valueOf(r.Headers), Queue: valueOf(r.Queue),
		Input: valueOf(r.Input), Output: valueOf(r.Output), Reason: r.Reason, Waits: valueOf(r.Waits),
		Damage: r.Damage,
	}
	if r.First != (store.Origin{}) {
		out.First = &origin{r.First.Workflow, r.First.Seed[:], r.First.Input[:]}
	}
	for _, t := range r.Tags {
		out.Tags = append(out.Tags, pair(t))
	}
	return out
}

func (r *run) stored() store.Run {
	out := store.Run{
		No: r.No, ID: r.ID, Shard: store.Shard{Group: r.Group, Slot: r.Slot}, Workflow: r.Workflow,
		Status: r.Status, Marks: r.Marks, Claimed: r.Claimed, Incarnation: r.Incarnation, Generation: r.Generation,
		Began: store.Time(r.Began),
		Seed:  store.Seed(r.Seed), Build: r.Build, Parent: r.Parent, ParentLoc: string(r.ParentLoc),
		Created: store.Time(r.Created), Started: store.Time(r.Started), Ended: store.Time(r.Ended),
		WakeAt: store.Time(r.WakeAt), Expires: store.Time(r.Expires),
		Suspect: r.Suspect, Strikes: r.Strikes, Alone: r.Alone, Headers: r.Headers.bytes(), Queue: r.Queue.bytes(),
		Input: r.Input.bytes(), Output: r.Output.bytes(), Reason: r.Reason, Waits: r.Waits.bytes(),
		Damage: r.Damage,
	}
	copy(out.Random[:], r.Random)
	if o := r.First; o != nil {
		out.First = store.Origin{Workflow: o.Workflow, Seed: store.Seed(o.Seed), Input: [sha256.Size]byte(o.Input)}
	}
	for _, t := range r.Tags {
		out.Tags = append(out.Tags, store.Pair(t))
	}
	out.InputSize, out.OutputSize = len(out.Input), len(out.Output)
	return out
}

func entryOf(e *store.Entry) entry {
	return entry{
		Location: loc(e.Loc), Kind: kind(e.Kind), State: state(e.State), Number: e.Seq, Born: e.Born,
		At: instant(e.At), Wake: instant(e.Wake), Attempts: e.Attempt, Owes: e.Owes, Generation: e.Generation,
		Started: instant(e.Started), Ended: instant(e.Ended), Value: valueOf(e.Value),
	}
}

func (e *entry) stored() store.Entry {
	v := e.Value.bytes()
	return store.Entry{
		Loc: string(e.Location), Kind: store.Kind(e.Kind), State: store.EntryState(e.State), Seq: e.Number, Born: e.Born,
		At: store.Time(e.At), Wake: store.Time(e.Wake), Attempt: e.Attempts, Owes: e.Owes, Generation: e.Generation,
		Started: store.Time(e.Started), Ended: store.Time(e.Ended), Value: v, Size: len(v),
	}
}

func itemOf(it *store.Item) item {
	return item{
		No: it.No, Kind: itemKind(it.Kind), State: itemState(it.State), Name: it.Name, ID: it.ID, Origin: it.Origin,
		Incarnation: it.Incarnation, Generation: it.Generation, Location: loc(it.Loc), Failed: it.Failed,
		Sent:  instant(it.Sent),
		Value: valueOf(it.Value), Headers: valueOf(it.Headers), Verdict: valueOf(it.Verdict),
	}
}

func (it *item) stored() store.Item {
	return store.Item{
		No: it.No, Kind: store.ItemKind(it.Kind), State: store.ItemState(it.State),
		Name: it.Name, ID: it.ID, Origin: it.Origin,
		Incarnation: it.Incarnation, Generation: it.Generation, Loc: string(it.Location), Failed: it.Failed,
		Sent:  store.Time(it.Sent),
		Value: it.Value.bytes(), Headers: it.Headers.bytes(), Verdict: it.Verdict.bytes(),
	}
}

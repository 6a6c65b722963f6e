package runfile

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

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
	Marks       uint8        `json:"marks,omitempty"`
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

// Write writes a snapshot that has all values. It fails before it writes anything if a value was left out because
// it is large. It holds one entry as text at a time: all of them may be large together.
func Write(w io.Writer, s *store.Snapshot) error {
	for i := range s.Entries {
		if e := &s.Entries[i]; e.Value == nil && e.Size > 0 {
			return fmt.Errorf("entry %s: its value of %d bytes is missing", location.Loc(e.Loc), e.Size)
		}
	}
	for i := range s.Items {
		if it := &s.Items[i]; it.Size > 0 {
			return fmt.Errorf("item %d: its value of %d bytes is missing", it.No, it.Size)
		}
	}
	p := &printer{to: bufio.NewWriter(w)}
	p.field("format", format)
	p.field("version", version)
	p.field("run", runOf(&s.Run))
	p.list("entries", len(s.Entries), func(i int) any { return entryOf(&s.Entries[i]) })
	if len(s.Items) > 0 {
		p.list("inbox", len(s.Items), func(i int) any { return itemOf(&s.Items[i]) })
	}
	p.text("\n}\n")
	if p.err == nil {
		p.err = p.to.Flush()
	}
	return p.err
}

// printer writes the object of a file, field by field, as encoding/json does with an indent.
type printer struct {
	to  *bufio.Writer
	any bool // a field was written
	err error
}

func (p *printer) text(text string) {
	if p.err == nil {
		_, p.err = p.to.WriteString(text)
	}
}

// name begins a field.
func (p *printer) name(name string) {
	begin := "{\n\t"
	if p.any {
		begin = ",\n\t"
	}
	p.any = true
	p.text(begin + strconv.Quote(name) + ": ")
}

func (p *printer) field(name string, value any) {
	p.name(name)
	p.value(value, "\t")
}

func (p *printer) list(name string, n int, value func(int) any) {
	p.name(name)
	if n == 0 {
		p.text("[]")
		return
	}
	p.text("[")
	for i := range n {
		if i > 0 {
			p.text(",")
		}
		p.text("\n\t\t")
		p.value(value(i), "\t\t")
	}
	p.text("\n\t]")
}

// value writes a value whose further lines begin with a prefix.
func (p *printer) value(value any, prefix string) {
	if p.err != nil {
		return
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // would change values
	encoder.SetIndent(prefix, "\t")
	if p.err = encoder.Encode(value); p.err == nil {
		_, p.err = p.to.Write(bytes.TrimSuffix(text.Bytes(), []byte("\n")))
	}
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
		Status: r.Status, Marks: uint8(r.Marks), Claimed: r.Claimed, Incarnation: r.Incarnation, Generation: r.Generation,
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
		Status: r.Status, Marks: store.Marks(r.Marks), Claimed: r.Claimed,
		Incarnation: r.Incarnation, Generation: r.Generation, Began: store.Time(r.Began),
		Seed: store.Seed(r.Seed), Build: r.Build, Parent: r.Parent, ParentLoc: string(r.ParentLoc),
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

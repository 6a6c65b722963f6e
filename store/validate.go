package store

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The bounds of names that every store keeps.
const (
	MaxRunID    = 255 // bytes of a run's or an item's ID
	MaxName     = 255 // bytes of a workflow's, message's or group's name
	MaxLocation = 4 << 10
	// MaxDiscardNames bounds the names of an Update's DiscardNames.
	MaxDiscardNames = 100
	MaxPage         = 10_000 // runs in one page of List
	MaxMost         = 1 << 30
	DefaultPage     = 100
	MaxClaim        = 10_000 // items in one answer of Claim

	// MaxDelay is the longest time.Duration, so that no sum of a time and a delay
	// overflows.
	MaxDelay = Delay(math.MaxInt64 / time.Microsecond)
)

// invalid wraps ErrInvalid with what was expected and what was found.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// CheckRunID reports whether id can name a run: 1 to 255 bytes of UTF-8 without
// control characters. The error wraps ErrInvalid.
func CheckRunID(id string) error { return checkText("run ID", id, MaxRunID, false) }

func checkText(what, s string, limit int, emptyOK bool) error {
	if s == "" && !emptyOK || len(s) > limit {
		return invalid("%s: expected 1 to %d bytes, found %d", what, limit, len(s))
	}
	if !utf8.ValidString(s) {
		return invalid("%s: expected UTF-8, found %q", what, s)
	}
	if i := strings.IndexFunc(s, unicode.IsControl); i >= 0 {
		r, _ := utf8.DecodeRuneInString(s[i:])
		return invalid("%s: expected no control characters, found %q at byte %d", what, r, i)
	}
	return nil
}

// Validate reports whether s can be a shard of a store. The error wraps ErrInvalid.
func (s Shard) Validate() error {
	if s.Slot < 0 {
		return invalid("shard: expected a slot of 0 or more, found %d", s.Slot)
	}
	return checkText("group", s.Group, MaxName, false)
}

// Validate reports whether the command keeps the contract. The error wraps
// ErrInvalid.
func (c *Command) Validate() error {
	switch {
	case c.Admit != "":
		return invalid("command: expected an Admit of %q among what its turn sends", c.Admit)
	case (c.Start == nil) == (c.Item == nil):
		return invalid("command: expected exactly one of Start and Item")
	case c.Start != nil:
		return c.Start.validate()
	}
	if c.RunNo < 0 || c.RunNo > 0 && c.RunID != "" {
		return invalid("item %q: expected either the ID of its run or a number from 1, found %q and %d",
			c.Item.ID, c.RunID, c.RunNo)
	}
	if c.RunNo == 0 {
		if err := CheckRunID(c.RunID); err != nil {
			return err
		}
	}
	return c.Item.validate()
}

func (s *Start) validate() error {
	if err := CheckRunID(s.ID); err != nil {
		return err
	}
	if err := s.Shard.Validate(); err != nil {
		return err
	}
	if err := checkText("workflow", s.Workflow, MaxName, false); err != nil {
		return err
	}
	if err := checkTags(s.Tags, false); err != nil {
		return err
	}
	if err := checkHeaders(s.Headers); err != nil {
		return err
	}
	if s.At < 0 || s.After < 0 || s.After > MaxDelay {
		return invalid("start of %q: expected a time of 0 or more and a delay of 0 to %d µs, found %d and %d",
			s.ID, MaxDelay, s.At, s.After)
	}
	if s.Existing > ReplaceEnded {
		return invalid("start of %q: unknown policy %d", s.ID, s.Existing)
	}
	if s.Build != "" && s.Fork != nil {
		return invalid("start of %q: expected no build of a fork, found %q", s.ID, s.Build)
	}
	seen := make(map[string]bool, len(s.Items))
	for i := range s.Items {
		if err := s.Items[i].validate(); err != nil {
			return err
		}
		if seen[s.Items[i].ID] {
			return invalid("start of %q: two items have the ID %q", s.ID, s.Items[i].ID)
		}
		seen[s.Items[i].ID] = true
	}
	if s.Queue != nil {
		if err := s.Queue.validate(s); err != nil {
			return err
		}
	}
	if s.Fork != nil {
		return s.Fork.validate(s.ID, seen)
	}
	return nil
}

func (p *QueueEntry) validate(s *Start) error {
	switch {
	case p.Data == nil || len(p.Data) > MaxHeaders:
		return invalid("start of %q: expected 1 to %d bytes of its place in a queue, found %d", s.ID, MaxHeaders, len(p.Data))
	case p.Line != nil && (p.Ask.Item != nil || p.Ask.Start != nil):
		return invalid("start of %q: expected a line of a queue or an item for it, found both", s.ID)
	case p.Line != nil:
		return p.Line.validate(s)
	case s.At != 0 || s.After != 0:
		return invalid("start of %q: expected no delay of a run that asks for a permit, found %d and %d",
			s.ID, s.At, s.After)
	case p.Ask.Item == nil || p.Ask.Start != nil || p.Ask.RunID == s.ID || p.Ask.RunNo != 0:
		return invalid("start of %q: expected its place in a queue to send an item to another run by its ID", s.ID)
	}
	return p.Ask.Validate()
}

func (l *Line) validate(s *Start) error {
	if err := CheckRunID(l.Queue); err != nil {
		return fmt.Errorf("start of %q: its queue: %w", s.ID, err)
	}
	if l.Queue == s.ID {
		return invalid("start of %q: expected the line of another run", s.ID)
	}
	if l.Priority != int(int32(l.Priority)) {
		return invalid("start of %q: expected a priority of 32 bits, found %d", s.ID, l.Priority)
	}
	return checkText("key in a queue", l.Key, MaxName, true)
}

// Validate reports whether the query keeps the contract. The error wraps ErrInvalid.
func (q *WaitingQuery) Validate() error {
	if q.Limit < 0 {
		return invalid("waiting runs: expected a limit of 0 or more, found %d", q.Limit)
	}
	return CheckRunID(q.Queue)
}

// validate checks what a fork begins with; ids are those of the start's items.
func (f *Fork) validate(run string, ids map[string]bool) error {
	if f.Started < 0 {
		return invalid("fork %q: expected a time of 0 or more, found %d", run, f.Started)
	}
	locs := make(map[string]bool, len(f.Entries))
	for i := range f.Entries {
		e := &f.Entries[i]
		if fault := e.fault(); fault != "" {
			return invalid("entry of fork %q: %s", run, fault)
		}
		if locs[e.Loc] {
			return invalid("fork %q: two entries are at %q", run, e.Loc)
		}
		locs[e.Loc] = true
	}
	for i := range f.Items {
		it := &f.Items[i]
		switch err := it.validate(); {
		case err != nil:
			return fmt.Errorf("fork %q: %w", run, err)
		case ids[it.ID]:
			return invalid("fork %q: two items have the ID %q", run, it.ID)
		case it.Sent < 0 || it.State != New && it.State != Consumed || it.State == Consumed && it.Value != nil:
			return invalid("fork %q: item %q: expected it new, or consumed and without a value, found state %d, sent at %d",
				run, it.ID, it.State, it.Sent)
		}
		ids[it.ID] = true
	}
	return checkAudit(f.Audit)
}

func checkAudit(list []Audit) error {
	for i := range list {
		if err := list[i].check(); err != nil {
			return err
		}
	}
	return nil
}

func (it *Item) validate() error {
	if !it.Kind.Valid() {
		return invalid("item: unknown kind %d", it.Kind)
	}
	if err := checkText("item ID", it.ID, MaxRunID, false); err != nil {
		return err
	}
	if len(it.Loc) > MaxLocation {
		return invalid("item %q: expected a location of at most %d bytes, found %d", it.ID, MaxLocation, len(it.Loc))
	}
	if err := checkHeaders(it.Headers); err != nil {
		return err
	}
	return checkText("item name", it.Name, MaxName, true)
}

func checkHeaders(headers []byte) error {
	if len(headers) > MaxHeaders {
		return invalid("headers: expected at most %d bytes, found %d", MaxHeaders, len(headers))
	}
	return nil
}

// checkTags checks tags that are set; with removal a value may be empty.
func checkTags(tags []Pair, removal bool) error {
	if len(tags) > MaxTags {
		return invalid("tags: expected at most %d, found %d", MaxTags, len(tags))
	}
	seen := make(map[string]bool, len(tags))
	for _, p := range tags {
		if err := CheckTag(p, removal); err != nil {
			return err
		}
		if seen[p.Key] {
			return invalid("tags: two have the key %q", p.Key)
		}
		seen[p.Key] = true
	}
	return nil
}

// CheckTag reports whether a run can have the tag; with removal its value may be
// empty. The error wraps ErrInvalid.
func CheckTag(tag Pair, removal bool) error {
	if err := checkText("key of a tag", tag.Key, MaxKey, false); err != nil {
		return err
	}
	if i := strings.IndexAny(tag.Key, " ,=<>*\"'`"); i >= 0 {
		return invalid("key of a tag: expected no spaces, commas, quotes and =<>*, found %q", tag.Key)
	}
	return checkText("value of tag "+tag.Key, tag.Value, MaxPairValue, removal)
}

// checkFeeds checks the values, streams and tags of a turn.
func (t *Turn) checkFeeds() error {
	names := make(map[string]bool, len(t.Values))
	for i := range t.Values {
		name := t.Values[i].Name
		if err := checkText("name of a value", name, MaxName, false); err != nil {
			return err
		}
		if names[name] {
			return invalid("turn of run number %d: two values of the name %q", t.Run, name)
		}
		names[name] = true
	}
	for i := range t.Appends {
		if t.Appends[i].Keep < 0 {
			return invalid("turn of run number %d: expected to keep 0 or more items of stream %q, found %d",
				t.Run, t.Appends[i].Name, t.Appends[i].Keep)
		}
		if err := checkText("name of a stream", t.Appends[i].Name, MaxName, false); err != nil {
			return err
		}
	}
	return checkTags(t.Tags, true)
}

// Bounds validates the query. It returns the most items of an answer.
func (q *StreamQuery) Bounds() (limit int, err error) {
	if q.Limit < 0 || q.Limit > MaxPage || q.After < 0 {
		return 0, invalid("stream: expected a limit of 0 to %d and a position of 0 or more, found %d and %d",
			MaxPage, q.Limit, q.After)
	}
	if q.Limit == 0 {
		return DefaultPage, nil
	}
	return q.Limit, nil
}

// Validate reports whether the batch keeps the contract. The error wraps
// ErrInvalid.
func (b *Batch) Validate() error {
	if b.Node == "" || b.Boot == "" || b.No < 1 {
		return invalid("batch: expected a node, a boot and a number from 1, found %q, %q and %d", b.Node, b.Boot, b.No)
	}
	if b.Last < 0 || b.Last >= b.No {
		return invalid("batch: expected a last batch before number %d, found %d", b.No, b.Last)
	}
	if err := checkLeases(b.Leases); err != nil {
		return err
	}
	runs := make(map[RunNo]bool, len(b.Turns))
	for i, t := range b.Turns {
		if t == nil {
			return invalid("batch: turn %d is nil", i)
		}
		if runs[t.Run] {
			return invalid("batch: two turns of run number %d", t.Run)
		}
		runs[t.Run] = true
		if b.LeaseOf(t.Shard) == nil {
			return invalid("batch: no lease for shard %s of run number %d", t.Shard, t.Run)
		}
		if err := t.validate(); err != nil {
			return err
		}
	}
	return validateCommands(b.Commands)
}

// checkLeases makes sure that each shard has one lease: of two with different epochs the
// store could not know which one counts.
func checkLeases(leases []Lease) error {
	shards := make(map[Shard]bool, len(leases))
	for i := range leases {
		if shard := leases[i].Shard; shards[shard] {
			return invalid("leases: expected one of each shard, found two of %s", shard)
		}
		shards[leases[i].Shard] = true
	}
	return nil
}

// Validate reports whether the request keeps the contract. The error wraps
// ErrInvalid.
func (r *ClaimRequest) Validate() error {
	if r.Limit < 0 {
		return invalid("claim: expected a limit of 0 or more, found %d", r.Limit)
	}
	return checkLeases(r.Leases)
}

// LeaseOf returns the batch's lease of a shard, or nil.
func (b *Batch) LeaseOf(s Shard) *Lease {
	for i := range b.Leases {
		if b.Leases[i].Shard == s {
			return &b.Leases[i]
		}
	}
	return nil
}

func (t *Turn) validate() error {
	for _, list := range [][]Entry{t.Rewrites, t.Entries} {
		for i := range list {
			if fault := list[i].fault(); fault != "" {
				return invalid("entry of run number %d: %s", t.Run, fault)
			}
		}
	}
	for _, s := range t.Prune {
		if s.From == "" || s.From >= s.To || len(s.From) > MaxLocation || len(s.To) > MaxLocation {
			return invalid("turn of run number %d: expected a span between two locations of 1 to %d bytes, "+
				"found %.100q to %.100q", t.Run, MaxLocation, s.From, s.To)
		}
	}
	for i := range t.Returned {
		if err := t.Returned[i].validate(); err != nil {
			return fmt.Errorf("turn of run number %d: %w", t.Run, err)
		}
		if t.Returned[i].Sent < 0 {
			return invalid("turn of run number %d: expected a returned item to be sent at 0 or later, found %d",
				t.Run, t.Returned[i].Sent)
		}
		if t.Returned[i].Kind.Verb() {
			return invalid("turn of run number %d: expected what was sent to the run's code to be returned, found a %s",
				t.Run, t.Returned[i].Kind)
		}
	}
	for _, x := range t.Refused {
		if len(x.Reason) == 0 {
			return invalid("turn of run number %d: expected a reason why item number %d is refused, found none", t.Run, x.Item)
		}
	}
	if t.Update != nil && t.Update.Continue != nil {
		if err := checkText("workflow", t.Update.Continue.Workflow, MaxName, false); err != nil {
			return err
		}
		if t.Update.Status != Running || t.Update.Continue.At < 0 {
			return invalid("turn of run number %d: expected a run that continues as new to be running, "+
				"at a time of 0 or more, found it %s at %d", t.Run, t.Update.Status, t.Update.Continue.At)
		}
	}
	if t.Update != nil && !t.Update.Status.Valid() {
		return invalid("turn of run number %d: unknown status %d", t.Run, t.Update.Status)
	}
	if u := t.Update; u != nil && u.Unclaim && (u.Status != Running || u.Marks&Paused != 0) {
		return invalid("turn of run number %d: expected a run that is given back to be running and not paused, "+
			"found it %s with the marks %q", t.Run, u.Status, u.Marks)
	}
	if t.Update != nil && t.Update.Generation < 0 {
		return invalid("turn of run number %d: expected a generation of 0 or more, found %d", t.Run, t.Update.Generation)
	}
	if u := t.Update; u != nil && (u.Keep != 0 && !u.Status.Terminal() || u.Keep < KeepForever || u.Keep > MaxDelay) {
		return invalid("turn of run number %d: expected an end with a time to keep the run of at most %d µs, "+
			"found it %s with %d", t.Run, MaxDelay, u.Status, u.Keep)
	}
	if t.Update != nil && len(t.Update.Queue) > MaxHeaders {
		return invalid("turn of run number %d: expected at most %d bytes of its place in a queue, found %d",
			t.Run, MaxHeaders, len(t.Update.Queue))
	}
	if t.Update != nil && len(t.Update.DiscardNames) > MaxDiscardNames {
		return invalid("turn of run number %d: expected at most %d names of messages to discard, found %d",
			t.Run, MaxDiscardNames, len(t.Update.DiscardNames))
	}
	if err := checkAudit(t.Audit); err != nil {
		return err
	}
	if t.Update != nil {
		if err := checkAudit(t.Update.Audit); err != nil {
			return err
		}
		for _, name := range t.Update.DiscardNames {
			if err := checkText("message to discard", name, MaxName, true); err != nil {
				return err
			}
		}
		if err := validateCommands(t.Update.Sends); err != nil {
			return err
		}
	}
	if err := t.checkFeeds(); err != nil {
		return err
	}
	for i := range t.Sends {
		c := &t.Sends[i]
		err := error(nil)
		switch {
		case c.Admit == "":
			err = c.Validate()
		case c.Start != nil || c.Item != nil || c.RunNo < 1:
			err = invalid("turn of run number %d: expected an Admit of a run by its number, found number %d",
				t.Run, c.RunNo)
		default:
			err = CheckRunID(c.Admit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fault returns what is wrong with the entry; "": nothing.
func (e *Entry) fault() string {
	switch {
	case e.Loc == "" || len(e.Loc) > MaxLocation:
		return fmt.Sprintf("expected a location of 1 to %d bytes, found %d", MaxLocation, len(e.Loc))
	case e.Kind == 0 || e.State < Open || e.State > Withdrawn:
		return fmt.Sprintf("kind %d or state %d is not known", e.Kind, e.State)
	case e.Seq < 0:
		return fmt.Sprintf("expected a completion number of 0 or more, found %d", e.Seq)
	case e.Generation < 0:
		return fmt.Sprintf("expected a generation of 0 or more, found %d", e.Generation)
	}
	return ""
}

// Validate reports whether the node keeps the contract. The error wraps
// ErrInvalid.
func (n *Node) Validate() error {
	if err := checkText("node ID", n.ID, MaxRunID, false); err != nil {
		return err
	}
	if err := checkText("boot", n.Boot, MaxRunID, false); err != nil {
		return err
	}
	for _, w := range n.Workflows {
		if err := checkText("workflow", w, MaxName, false); err != nil {
			return err
		}
	}
	for _, g := range n.Groups {
		if err := checkText("group", g, MaxName, false); err != nil {
			return err
		}
	}
	for _, name := range n.Tasks {
		if err := checkText("task", name, MaxName, false); err != nil {
			return err
		}
	}
	if n.TTL < 0 || n.TTL > MaxDelay {
		return invalid("lease: expected a time of 0 to %d µs, found %d", MaxDelay, n.TTL)
	}
	if len(n.Bodies) > MaxBodies {
		return invalid("bodies of a node: expected at most %d, found %d", MaxBodies, len(n.Bodies))
	}
	for _, b := range n.Bodies {
		if err := checkText("run ID of a body", b.RunID, MaxRunID, false); err != nil {
			return err
		}
	}
	if len(n.Zones) > MaxName {
		return invalid("zones of a node: expected a digest of at most %d bytes, found %d", MaxName, len(n.Zones))
	}
	if len(n.Lacks) > MaxLacks {
		return invalid("lacks of a node: expected at most %d, found %d", MaxLacks, len(n.Lacks))
	}
	for _, lack := range n.Lacks {
		if len(lack) > MaxLack {
			return invalid("lacks of a node: expected at most %d bytes each, found %d", MaxLack, len(lack))
		}
	}
	if len(n.Lost) > MaxLost {
		return invalid("lost nodes of a node: expected at most %d, found %d", MaxLost, len(n.Lost))
	}
	for _, need := range n.Requirements {
		if err := need.Shard.Validate(); err != nil {
			return err
		}
		if err := checkText("workflow", need.Workflow, MaxName, false); err != nil {
			return err
		}
	}
	return nil
}

// Bounds validates the filter for List. It returns the number of runs in a page
// and the run number below which the page begins, 0 for the first page.
func (f *Filter) Bounds() (limit int, below RunNo, err error) {
	if f.Limit < 0 || f.Limit > MaxPage {
		return 0, 0, invalid("limit: expected 0 to %d, found %d", MaxPage, f.Limit)
	}
	if f.Most < 0 || f.Most > MaxMost {
		return 0, 0, invalid("most: expected 0 to %d, found %d", MaxMost, f.Most)
	}
	if f.ParentID != "" {
		return 0, 0, invalid("filter: expected the number of a parent, found the ID %q: ask Runs of an engine, or call "+
			"ResolveParent", f.ParentID)
	}
	for _, s := range f.Statuses {
		if !s.Valid() {
			return 0, 0, invalid("filter: unknown status %d", s)
		}
	}
	for _, tag := range f.Tags {
		if err := CheckTag(tag, false); err != nil {
			return 0, 0, err
		}
	}
	for _, shard := range f.Claimed {
		if err := shard.Validate(); err != nil {
			return 0, 0, err
		}
	}
	if limit = f.Limit; limit == 0 {
		limit = DefaultPage
	}
	if f.Cursor != "" && f.ByEnded {
		var place Place
		place, err = DecodePlace(f.Cursor)
		below = place.No
	} else if f.Cursor != "" {
		below, err = DecodeCursor(f.Cursor)
	}
	if err != nil {
		return 0, 0, err
	}
	return limit, below, nil
}

// Place is where a run stands in a list by ends. Such a list goes from the greatest to the
// least.
type Place struct {
	Ended Time
	No    RunNo
}

// PlaceOf returns the place of a run that has ended.
func PlaceOf(r *Run) Place { return Place{r.Ended, r.No} }

// Before reports whether p stands before another place in a list by ends.
func (p Place) Before(other Place) bool {
	return p.Ended > other.Ended || p.Ended == other.Ended && p.No > other.No
}

// After validates a filter with ByEnded. It returns the number of runs in a page and the
// place after which the page begins; that of the first page is before all others.
func (f *Filter) After() (limit int, after Place, err error) {
	if limit, _, err = f.Bounds(); err != nil {
		return 0, Place{}, err
	}
	if f.Cursor == "" {
		return limit, Place{math.MaxInt64, math.MaxInt64}, nil
	}
	after, err = DecodePlace(f.Cursor)
	return limit, after, err
}

// Encode returns the cursor of the page of a list by ends that begins after the place.
func (p Place) Encode() string {
	var b [17]byte
	b[0] = 2 // version
	binary.BigEndian.PutUint64(b[1:], uint64(p.Ended))
	binary.BigEndian.PutUint64(b[9:], uint64(p.No))
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// DecodePlace is the inverse of Place.Encode. The error wraps ErrBadCursor.
func DecodePlace(cursor string) (Place, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err == nil && len(b) == 17 && b[0] == 2 {
		p := Place{Time(binary.BigEndian.Uint64(b[1:])), RunNo(binary.BigEndian.Uint64(b[9:]))}
		if p.Ended > 0 && p.No > 0 {
			return p, nil
		}
	}
	return Place{}, fmt.Errorf("%w: expected the cursor of a former page by ends, found %q", ErrBadCursor, cursor)
}

// EncodeCursor returns the cursor of the page that begins below the given run.
func EncodeCursor(below RunNo) string {
	var b [9]byte
	b[0] = 1 // version
	binary.BigEndian.PutUint64(b[1:], uint64(below))
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// DecodeCursor is the inverse of EncodeCursor. The error wraps ErrBadCursor.
func DecodeCursor(cursor string) (RunNo, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(b) != 9 || b[0] != 1 {
		return 0, fmt.Errorf("%w: expected the cursor of a former page, found %q", ErrBadCursor, cursor)
	}
	below := RunNo(binary.BigEndian.Uint64(b[1:]))
	if below < 1 {
		return 0, fmt.Errorf("%w: expected the cursor of a former page, found %q", ErrBadCursor, cursor)
	}
	return below, nil
}

func validateCommands(commands []Command) error {
	for i := range commands {
		if err := commands[i].Validate(); err != nil {
			return err
		}
	}
	return nil
}

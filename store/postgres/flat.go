package postgres

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// flatBatch is a batch in lists of rows, as one statement takes it: the turns, their
// entries, updates and items, and the starts and sends of turns and commands. It has no
// room for the rarer parts of a turn, see take.
type flatBatch struct {
	b      *store.Batch
	leases []store.Lease // of the turns' shards, and of those in which runs may be claimed

	updates  []updateRow
	entries  int
	fresh    []int64 // numbers of entries where none may stand, see addEntry
	others   []int64 // numbers of other entries
	bytes    []byte  // locations and values of the entries
	seen     []itemRow
	consumed []itemRow
	starts   []startRow
	sends    []sendRow
	claims   bool            // an item may claim a run
	ids      map[string]bool // of the runs that commands are for
	riders   riders
	seat     *seat                // of the store
	posts    []post               // for other databases
	held     map[store.RunNo]bool // runs whose update something unexamined holds back
	known    map[*store.Command]*fact
	tags     map[store.RunNo][]byte // of the runs whose turns change them, as they are stored
	again    bool                   // something is to be asked before the batch can be taken
	names    runNames

	params *values // room for the parameters
}

// updateRow is the update of a turn.
type updateRow struct {
	run int64
	*store.Update
}

// itemRow is an item that a turn has seen or consumed.
type itemRow struct {
	run, item int64
	verdict   []byte
}

// startRow is a run to be started.
type startRow struct {
	turn  int64 // its place in the batch, counted from 1; 0: a command of the batch
	claim bool  // the batch has the lease of its shard
	*store.Start
}

// sendRow is an item to be sent.
type sendRow struct {
	turn int64 // as in startRow
	*store.Command
	unasked bool // it is a part of a start, and nobody waits for its answer
}

// empty makes room for another batch in the memory of the last one.
func (f *flatBatch) empty() {
	clear(f.ids)
	if f.params != nil {
		f.params.empty()
	}
	*f = flatBatch{
		leases: emptied(f.leases), updates: emptied(f.updates), fresh: emptied(f.fresh), others: emptied(f.others),
		bytes: emptied(f.bytes), seen: emptied(f.seen), consumed: emptied(f.consumed), starts: emptied(f.starts),
		sends: emptied(f.sends), ids: f.ids, params: f.params, riders: f.riders.emptied(),
		names: f.names,
	}
}

// take lists the parts of a batch. It reports false for a batch that has others as well. f
// is empty.
func (f *flatBatch) take(b *store.Batch) bool {
	f.b = b
	f.holdBack(b)
	leased := make(map[store.Shard]bool, len(b.Leases))
	for i, t := range b.Turns {
		if !f.turn(int64(i+1), t) {
			return false
		}
		leased[t.Shard] = true
	}
	if !f.commands(0, b.Commands) || f.claimedLater() {
		return false
	}
	f.riders.orders(f)
	f.riders.post(f)
	for i := range f.starts {
		st := &f.starts[i]
		if st.claim = st.claim && b.LeaseOf(st.Shard) != nil; st.claim {
			leased[st.Shard] = true
		}
	}
	for i := range b.Leases {
		if f.claims || leased[b.Leases[i].Shard] {
			f.leases = append(f.leases, b.Leases[i])
		}
	}
	return true
}

// rare reports whether a turn does what no statement for many turns does: acts of operators, dead letters, a rewind, a
// change of the place in a queue.
func rare(t *store.Turn) bool {
	if len(t.Rewrites)+len(t.Returned)+len(t.Dead)+len(t.Refused)+len(t.Audit) > 0 || t.Rewound {
		return true
	}
	u := t.Update
	return u != nil && (u.Generation != 0 || u.Queue != nil || u.Marks&store.Held != 0 || u.AnyBuild || len(u.Audit) > 0)
}

// separator implements store.Separator: the batch of a turn that is rare is written turn by turn.
type separator struct{}

// Separate implements store.Separator.
func (separator) Separate(t *store.Turn) bool { return rare(t) }

func (f *flatBatch) turn(place int64, t *store.Turn) bool {
	if rare(t) || !f.riders.turn(f, t) {
		return false
	}
	run := int64(t.Run)
	for i := range t.Entries {
		if t.Insert {
			f.fresh = f.addEntry(f.fresh, t, &t.Entries[i])
		} else {
			f.others = f.addEntry(f.others, t, &t.Entries[i])
		}
	}
	f.entries += len(t.Entries)
	for _, no := range t.Seen {
		f.seen = append(f.seen, itemRow{run: run, item: int64(no)})
	}
	for _, c := range t.Consumed {
		f.consumed = append(f.consumed, itemRow{run, int64(c.Item), c.Verdict})
	}
	if !f.commands(place, t.Sends) {
		return false
	}
	u := t.Update
	if u == nil {
		return true
	}
	if f.held[t.Run] {
		f.riders.held = append(f.riders.held, updateRow{run, u})
		return true
	}
	for _, c := range u.Consumed { // with the update or not at all, as the statement has it
		f.consumed = append(f.consumed, itemRow{run, int64(c.Item), c.Verdict})
	}
	f.updates = append(f.updates, updateRow{run, u})
	return f.commands(place, u.Sends)
}

// entryWidth is how many numbers addEntry appends.
const entryWidth = 16

// addEntry appends the numbers of an entry to a list, and its location and value to
// f.bytes. The last four numbers are: whether it owes, the place of the bytes, counted
// from 1, the length of the location, and that of the value, or -1 if there is none.
func (f *flatBatch) addEntry(list []int64, t *store.Turn, e *store.Entry) []int64 {
	owes, size := int64(0), int64(len(e.Value))
	if e.Owes {
		owes = 1
	}
	if e.Value == nil {
		size = -1
	}
	list = append(list, int64(t.Run), int64(t.Incarnation), int64(e.Kind), int64(e.State), e.Seq, e.Born, int64(e.At),
		int64(e.Wake), int64(e.Attempt), int64(e.Started), int64(e.Ended), int64(e.Generation),
		owes, int64(len(f.bytes)+1), int64(len(e.Loc)), size)
	f.bytes = append(append(f.bytes, e.Loc...), e.Value...)
	return list
}

func (f *flatBatch) commands(turn int64, list []store.Command) bool {
	for i := range list {
		if !f.command(turn, &list[i]) {
			return false
		}
	}
	return true
}

func (f *flatBatch) command(turn int64, c *store.Command) bool {
	if k := f.known[c]; k != nil {
		f.riders.facts = append(f.riders.facts, k)
		return true
	}
	if c.Admit != "" {
		f.riders.admits, f.claims = append(f.riders.admits, c), f.claims || c.Claim
		return true
	}
	st, id := c.Start, c.RunID
	if st != nil {
		id = st.ID
	}
	known := id != "" && f.ids[id]
	if f.ids == nil {
		f.ids = map[string]bool{}
	}
	f.ids[id] = true
	switch {
	case st == nil:
		f.riders.sends = f.riders.sends || known || c.Item.Kind == store.ItemGrant
		f.addSend(sendRow{turn, c, false})
	case known: // by a former command
		f.again = true
		return false
	case st.Fork != nil, asks(st) && st.Queue.Ask.Start != nil:
		return false
	default:
		f.starts = append(f.starts, startRow{turn, c.Claim && st.Queue == nil, st})
		f.riders.start(f, turn, st)
	}
	return true
}

func (f *flatBatch) addSend(r sendRow) {
	f.sends = append(f.sends, r)
	f.claims = f.claims || r.Claim
}

// claimedLater reports whether a run that gets an item may be claimed by a later command alone: the answer to the
// earlier one has the run as it was between the two, and the receivers are read when all is done. A number and an ID
// may be of one run.
func (f *flatBatch) claimedLater() bool {
	if !f.claims {
		return false
	}
	type receiver struct {
		no store.RunNo
		id string
	}
	var unclaimed map[receiver]bool
	numbers, ids := false, false // of those in unclaimed
	for _, s := range f.sends {
		r := receiver{s.RunNo, s.RunID}
		switch {
		case s.unasked:
		case s.Claim && (unclaimed[r] || s.RunID == "" && ids || s.RunID != "" && numbers):
			return true
		case !s.Claim:
			if unclaimed == nil {
				unclaimed = map[receiver]bool{}
			}
			unclaimed[r] = true
			numbers, ids = numbers || s.RunID == "", ids || s.RunID != ""
		}
	}
	return false
}

// stamp has the parameters that each statement begins with besides those of the batch: the
// fence under which it is written, and the two of nowExpr.
type stamp struct {
	fence [16]byte
	floor int64
	test  any
}

// addHead adds the parameters that each statement begins with: node, boot, number of the
// batch, fence, verdicts, and those of nowExpr. It empties the room before.
func (f *flatBatch) addHead(at stamp) *values {
	if f.params == nil {
		f.params = newValues()
	}
	v := f.params
	v.empty() // of another statement for the same batch
	v.text(f.b.Node)
	v.text(f.b.Boot)
	v.number(f.b.No)
	v.small(pgtype.UUIDOID, func(out []byte) []byte { return append(out, at.fence[:]...) })
	v.bytea(f.verdicts())
	addTimes(v, at)
	return v
}

// addTimes adds the two parameters of nowExpr.
func addTimes(v *values, at stamp) {
	v.number(at.floor)
	if test, ok := at.test.(int64); ok {
		v.number(test)
		return
	}
	v.add(pgtype.Int8OID, nil)
}

// verdicts returns the stored form of the verdicts: all turns are committed, or held back.
func (f *flatBatch) verdicts() []byte {
	if len(f.riders.held) == 0 {
		return binary.AppendUvarint(nil, uint64(len(f.b.Turns)))
	}
	results := make([]store.TurnResult, len(f.b.Turns))
	for i := range results {
		results[i].Verdict = f.verdict(i)
	}
	return sqlstore.EncodeVerdicts(results)
}

// verdict returns the verdict of a turn, once the batch is written.
func (f *flatBatch) verdict(turn int) store.Verdict {
	if t := f.b.Turns[turn]; t.Update != nil && f.held[t.Run] {
		return store.StillReady
	}
	return store.Committed
}

// addUpdates adds the columns of the updates, by run; then which of these end, and which
// of those discard their inbox.
func (f *flatBatch) addUpdates(v *values) {
	u := f.updates
	slices.SortFunc(u, func(a, b updateRow) int { return cmp.Compare(a.run, b.run) })
	numbersOf(v, u, func(u updateRow) int64 { return u.run })
	numbersOf(v, u, func(u updateRow) int64 { return int64(u.Status) })
	numbersOf(v, u, func(u updateRow) int64 { return int64(u.MarksOver(store.Admitted)) })
	numbersOf(v, u, func(u updateRow) int64 { return int64(u.WakeAt) })
	bytesOf(v, u, func(u updateRow) string { return u.Reason })
	bytesOf(v, u, func(u updateRow) string { return u.Build })
	boolsOf(v, u, func(u updateRow) bool { return clears(u.Update) })
	boolsOf(v, u, func(u updateRow) bool { return u.Isolate })
	byteasOf(v, u, func(u updateRow) []byte { return u.Output })
	byteasOf(v, u, func(u updateRow) []byte { return u.Waits })
	boolsOf(v, u, func(u updateRow) bool { return u.Unclaim })
	var over, discard []int64
	for _, u := range u {
		if u.Status.Terminal() {
			over = append(over, u.run)
			if u.Discard {
				discard = append(discard, u.run)
			}
		}
	}
	v.numbers(over, discard)
}

// addNames adds which of the runs that end discard their messages of a name, and the names.
func (f *flatBatch) addNames(v *values) {
	var runs []int64
	var names []string
	for _, u := range f.updates {
		if u.Status.Terminal() && !u.Discard {
			for _, name := range u.DiscardNames {
				runs, names = append(runs, u.run), append(names, name)
			}
		}
	}
	v.numbers(runs)
	v.texts(names)
}

// addKeeps adds how long the runs are kept that the updates end, in their order.
func (f *flatBatch) addKeeps(v *values) {
	u := f.updates
	if !slices.ContainsFunc(u, func(u updateRow) bool { return u.Keep != 0 }) {
		u = nil // as commit_1 takes it
	}
	numbersOf(v, u, func(u updateRow) int64 { return int64(u.Keep) })
}

// clears says with Isolate what becomes of the suspicion that the run kills its process. Without Isolate: whether it
// ends. With it: whether the strikes are cleared.
func clears(u *store.Update) bool { return u.Isolate == u.EndIsolation }

// addStarts adds the columns of the starts from the ID on.
func (f *flatBatch) addStarts(v *values) {
	r := f.starts
	textsOf(v, r, func(r startRow) string { return r.ID })
	textsOf(v, r, func(r startRow) string { return r.Shard.Group })
	numbersOf(v, r, func(r startRow) int64 { return int64(r.Shard.Slot) })
	textsOf(v, r, func(r startRow) string { return r.Workflow })
	byteasOf(v, r, func(r startRow) []byte { return r.Seed[:] })
	numbersOf(v, r, func(r startRow) int64 { return int64(r.At) })
	numbersOf(v, r, func(r startRow) int64 { return int64(r.After) })
	numbersOf(v, r, func(r startRow) int64 { return int64(r.Parent) })
	bytesOf(v, r, func(r startRow) string { return r.ParentLoc })
	byteasOf(v, r, func(r startRow) []byte { return r.Input })
	byteasOf(v, r, func(r startRow) []byte { return r.Headers })
	boolsOf(v, r, func(r startRow) bool { return r.claim })
	bytesOf(v, r, func(r startRow) string { return r.Build })
}

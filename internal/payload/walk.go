package payload

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stet-run/stet/store"
)

// spot is the place of a value in the contract's types.
type spot struct {
	entry  bool // of a history: equal values must have equal stored values
	run    store.RunNo
	runID  string // if the number is not known yet
	what   what
	inline bool // not to be put into an object
	secret bool // only to be encrypted
}

// group returns the name of the group of the run's objects, which identifies the run;
// see runsOf.
func (s *spot) group() string {
	switch {
	case s.inline:
		return ""
	case s.run != 0:
		return fmt.Sprintf("r%d", s.run)
	}
	return groupOfID(s.runID)
}

// holder returns the run as the place of the value names it.
func (s *spot) holder() holder {
	if s.run != 0 {
		return holder{form: byNo, no: s.run}
	}
	return holder{form: byID, id: s.runID}
}

// is returns the spot of a value of the same run.
func (s spot) is(w what) spot {
	s.what = w
	return s
}

// at returns the place and the group of a value that is written.
func (s *spot) at() at {
	out := at{group: s.group(), secret: s.secret, holder: s.holder(), what: s.what}
	if s.entry && s.run != 0 {
		out.place = fmt.Sprintf("entry %d %d %s", s.run, s.what.no, s.what.loc)
		return out
	}
	var random [16]byte
	rand.Read(random[:])
	out.place = string(random[:])
	return out
}

// visit is called for a value.
type visit func(v *[]byte, s spot)

// textMark begins a text that was sealed. Base64 follows.
const textMark = "\x02"

// text calls f for a text as if it were a value.
func (f visit) text(t *string, s spot) {
	if *t == "" {
		return
	}
	s.inline, s.secret = true, true
	v := []byte(*t)
	if f(&v, s); len(v) > 0 && v[0] == Marker {
		*t = textMark + base64.RawStdEncoding.EncodeToString(v)
	} else {
		*t = string(v)
	}
}

func (f visit) turn(t *store.Turn) {
	here := spot{run: t.Run}
	for _, entries := range [][]store.Entry{t.Rewrites, t.Entries} {
		for i := range entries {
			s := here.is(ofEntry(t.Incarnation, &entries[i]))
			s.entry = true
			f(&entries[i].Value, s)
		}
	}
	f.items(t.Returned, here)
	inline := here
	inline.inline = true
	consumed := func(list []store.Consumption) {
		for i := range list {
			f(&list[i].Verdict, inline.is(ofAnswer(list[i].Item)))
		}
	}
	consumed(t.Consumed)
	consumed(t.Answers)
	for i := range t.Refused {
		f(&t.Refused[i].Reason, inline.is(ofAnswer(t.Refused[i].Item)))
	}
	for i := range t.Values {
		f(&t.Values[i].Value, inline.is(what{sort: settingOf, name: t.Values[i].Name}))
	}
	for i := range t.Appends {
		f(&t.Appends[i].Value, inline.is(what{sort: streamItem, name: t.Appends[i].Name}))
	}
	f.audit(t.Audit, here)
	if u := t.Update; u != nil {
		f(&u.Output, here.is(what{sort: outputOf}))
		f.text(&u.Reason, here.is(what{sort: reasonOf}))
		if u.Continue != nil {
			f(&u.Continue.Input, here.is(what{sort: inputOf, no: int64(t.Incarnation) + 1}))
		}
		consumed(u.Consumed)
		f.audit(u.Audit, here)
		f.commands(u.Sends)
	}
	f.commands(t.Sends)
}

func (f visit) audit(audit []store.Audit, s spot) {
	for i := range audit {
		f.text(&audit[i].Why, s.is(what{sort: whyOf}))
		f.text(&audit[i].Detail, s.is(what{sort: detailOf}))
	}
}

func (f visit) commands(commands []store.Command) {
	for i := range commands {
		c := &commands[i]
		if c.Item != nil {
			f.item(c.Item, spot{runID: c.RunID, run: c.RunNo})
		}
		if c.Start == nil {
			continue
		}
		here := spot{runID: c.Start.ID}
		f(&c.Start.Input, here.is(what{sort: inputOf}))
		f.items(c.Start.Items, here)
		if p := c.Start.Queue; p != nil {
			asks := []store.Command{p.Ask}
			f.commands(asks)
			p.Ask = asks[0]
		}
		if fork := c.Start.Fork; fork != nil {
			for i := range fork.Entries {
				f(&fork.Entries[i].Value, here.is(ofEntry(0, &fork.Entries[i])))
			}
			f.items(fork.Items, here)
			f.audit(fork.Audit, here)
		}
	}
}

func (f visit) items(items []store.Item, s spot) {
	for i := range items {
		f.item(&items[i], s)
	}
}

func (f visit) item(it *store.Item, s spot) {
	f(&it.Value, s.is(ofItem(itemOf, it)))
	s.inline = true
	f(&it.Verdict, s.is(ofItem(verdictOf, it)))
}

// copyTurn returns a copy whose values can be replaced.
func copyTurn(t *store.Turn) *store.Turn {
	c := *t
	c.Rewrites, c.Entries, c.Returned = slices.Clone(t.Rewrites), slices.Clone(t.Entries), slices.Clone(t.Returned)
	c.Consumed, c.Answers = slices.Clone(t.Consumed), slices.Clone(t.Answers)
	c.Refused = slices.Clone(t.Refused)
	c.Values, c.Appends, c.Audit = slices.Clone(t.Values), slices.Clone(t.Appends), slices.Clone(t.Audit)
	c.Sends = copyCommands(t.Sends)
	if t.Update != nil {
		u := *t.Update
		u.Sends, u.Consumed, u.Audit = copyCommands(u.Sends), slices.Clone(u.Consumed), slices.Clone(u.Audit)
		if u.Continue != nil {
			next := *u.Continue
			u.Continue = &next
		}
		c.Update = &u
	}
	return &c
}

func copyCommands(commands []store.Command) []store.Command {
	commands = slices.Clone(commands)
	for i := range commands {
		c := &commands[i]
		if c.Item != nil {
			item := *c.Item
			c.Item = &item
		}
		if c.Start != nil {
			start := *c.Start
			start.Items = slices.Clone(start.Items)
			if start.Queue != nil {
				place := *start.Queue
				place.Ask = copyCommands([]store.Command{place.Ask})[0]
				start.Queue = &place
			}
			if start.Fork != nil {
				fork := *start.Fork
				fork.Entries, fork.Items = slices.Clone(fork.Entries), slices.Clone(fork.Items)
				fork.Audit = slices.Clone(fork.Audit)
				start.Fork = &fork
			}
			c.Start = &start
		}
	}
	return commands
}

// Active reports whether the policy changes values.
func (p *Policy) Active() bool {
	return p != nil && (p.cfg.Compress > 0 || len(p.cfg.Keys) > 0 || p.cfg.Objects != nil)
}

// finds reports whether a walk finds a value that must be sealed even by a policy that
// changes no values.
func finds(walk func(visit)) bool {
	found := false
	walk(func(v *[]byte, _ spot) { found = found || len(*v) > 0 && (*v)[0] == Marker })
	return found
}

// sealer returns a visit that seals, and a pointer to its first error.
func (p *Policy) sealer(ctx context.Context) (visit, *error) {
	failed := new(error)
	return func(v *[]byte, s spot) {
		if *failed != nil || *v == nil {
			return
		}
		if s.secret && (p == nil || len(p.cfg.Keys) == 0) && (*v)[0] != Marker {
			return // a text that is not encrypted stays one
		}
		if s.entry {
			if stored := p.recall(place{s.run, s.what}, *v); stored != nil {
				*v = stored
				return
			}
		}
		sealed, err := p.seal(ctx, s.at(), *v)
		if err != nil {
			*failed = err
			return
		}
		*v = sealed
	}, failed
}

// SealTurn returns the turn as it is stored; t is not changed. An error is that of
// Objects; then nothing of the turn may be stored.
func (p *Policy) SealTurn(ctx context.Context, t *store.Turn) (*store.Turn, error) {
	if !p.Active() && !finds(func(f visit) { f.turn(t) }) {
		return t, nil
	}
	t = copyTurn(t)
	f, failed := p.sealer(ctx)
	f.turn(t)
	return t, *failed
}

// SealCommands returns commands as they are stored; the given ones are not
// changed. Errors are those of SealTurn.
func (p *Policy) SealCommands(ctx context.Context, commands []store.Command) ([]store.Command, error) {
	if !p.Active() && !finds(func(f visit) { f.commands(commands) }) {
		return commands, nil
	}
	commands = copyCommands(commands)
	f, failed := p.sealer(ctx)
	f.commands(commands)
	return commands, *failed
}

// opener opens values of a run where they stand.
type opener struct {
	p   *Policy
	ctx context.Context // of the one call
	of  owner
	err error // the first

	unfound error // the first of the errors that say nothing of the value
}

// fails notes why a value could not be opened.
func (o *opener) fails(w what, err error) {
	err = fmt.Errorf("%s: %w", w, err)
	if o.err == nil {
		o.err = err
	}
	if _, ok := errors.AsType[unfoundError](err); ok && o.unfound == nil {
		o.unfound = err
	}
}

// holding returns an opener of the values of a run.
func (p *Policy) holding(ctx context.Context, run *store.Run) *opener {
	return &opener{p: p, ctx: ctx, of: owner{no: run.No, run: run}}
}

// value opens a value that is one of those of the list, and reports whether it could. A
// value that cannot be opened stays as it is stored, unless it is refused because it is
// not sealed.
func (o *opener) value(v *[]byte, list ...what) bool {
	if len(*v) == 0 || (*v)[0] != Marker && !o.p.requires(RequireEncrypted) {
		return true
	}
	plain, err := o.p.open(o.ctx, *v, &o.of, list...)
	if err == nil {
		*v = plain
		return true
	}
	if (*v)[0] != Marker {
		*v = []byte{Marker, refused}
	}
	o.fails(list[0], err)
	return false
}

// text opens a text. One that cannot be opened becomes the reason.
func (o *opener) text(t *string, w what) {
	rest, sealed := strings.CutPrefix(*t, textMark)
	if !sealed {
		return
	}
	stored, err := base64.RawStdEncoding.DecodeString(rest)
	if err != nil {
		return // never sealed
	}
	s, sealed, err := Look(stored)
	if err != nil || !sealed {
		return
	}
	plain, err := o.p.open(o.ctx, stored, &o.of, w)
	if err == nil {
		*t = string(plain)
		return
	}
	o.fails(w, err)
	*t = "(" + s.String() + ")"
}

func (o *opener) run(r *store.Run) {
	o.value(&r.Input, what{sort: inputOf, no: int64(r.Incarnation)})
	o.value(&r.Output, what{sort: outputOf})
	o.text(&r.Reason, what{sort: reasonOf})
}

func (o *opener) items(items []store.Item) {
	for i := range items {
		o.item(&items[i])
	}
}

func (o *opener) item(it *store.Item) {
	o.value(&it.Value, ofItem(itemOf, it))
	if string(it.Verdict) != store.Unanswered { // which the store has written
		o.value(&it.Verdict, ofAnswer(it.No), ofItem(verdictOf, it))
	}
}

func (o *opener) audit(audit []store.Audit) {
	for i := range audit {
		o.text(&audit[i].Why, what{sort: whyOf})
		o.text(&audit[i].Detail, what{sort: detailOf})
	}
}

// heads opens items as Load and Claim return them: values that are large when they are open
// are left out, as the store leaves out values that are large as stored.
func (o *opener) heads(items []store.Item) {
	for i := range items {
		it := &items[i]
		if s, sealed, err := Look(it.Value); sealed && err == nil && it.Kind.LeavesOut(s.Size) {
			it.Value, it.Size = nil, s.Size
		}
	}
	o.items(items)
}

// entries opens the entries of a run. In a snapshot, values that are large when they are
// open are left out, as the store leaves out values that are large as stored.
func (o *opener) entries(incarnation int, entries []store.Entry, snapshot bool) {
	for i := range entries {
		e := &entries[i]
		s, sealed, err := Look(e.Value)
		if !sealed {
			o.value(&e.Value, ofEntry(incarnation, e)) // to be refused
			continue
		}
		if err == nil && snapshot && s.Size >= store.LargeValue {
			e.Value, e.Size = nil, s.Size
			continue
		}
		stored := e.Value
		if o.value(&e.Value, ofEntry(incarnation, e)) {
			o.p.remember(o.of.no, incarnation, e, stored)
		}
		if len(stored) < store.LargeValue {
			e.Size = s.Size // as in a snapshot
		}
	}
}

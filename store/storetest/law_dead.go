package storetest

import (
	"context"
	"fmt"
	"slices"

	"github.com/stet-run/stet/store"
)

// deadPages lists all pages, or with a cursor one.
func deadPages(ctx context.Context, s store.Store, f store.DeadFilter) ([][]store.DeadLetter, error) {
	var all [][]store.DeadLetter
	given := f.Cursor != ""
	for range mostPages {
		page, err := s.DeadLetters(ctx, f)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Letters)
		if f.Cursor = page.Next; page.Next == "" || given {
			return all, nil
		}
	}
	return nil, fmt.Errorf("a list of dead letters has no end after %d pages", mostPages)
}

// dead returns numbers of dead letters, and now and then of other items.
func (g *generator) dead() []store.ItemNo {
	nos := []store.ItemNo{}
	for _, items := range g.w.spec.now.Items {
		for _, it := range items {
			if it.State == store.Dead && g.chance(2) || g.chance(20) {
				nos = append(nos, it.No)
			}
		}
	}
	slices.Sort(nos) // the order of a map is of no seed
	return nos
}

func (g *generator) deadFilter() store.DeadFilter {
	f := store.DeadFilter{Values: g.chance(2), Limit: g.IntN(3)}
	if g.chance(3) {
		f.RunIDs = some(g, genIDs, 2)
	}
	if g.chance(4) {
		f.Workflows = some(g, []string{"w", "x", "none"}, 2)
	}
	if g.chance(4) {
		f.Names = some(g, []string{"m", "n", ""}, 2)
	}
	if g.chance(10) {
		f.Cursor = "bad"
	}
	return f
}

// letters returns all dead letters with values, newest first.
func (k *kit) letters(f store.DeadFilter) []store.DeadLetter {
	k.Helper()
	f.Values = true
	page, err := k.s.DeadLetters(k.ctx, f)
	k.ok(err)
	return page.Letters
}

// lettersOf returns the IDs of dead letters, newest first.
func (k *kit) lettersOf(f store.DeadFilter) string {
	k.Helper()
	var ids string
	for _, l := range k.letters(f) {
		ids += l.Item.ID
	}
	return ids
}

var law23 = []testCase{
	{"TheEndMakesDeadLettersOfWhatIsLeft", func(k *kit) {
		o := k.owner(k.s, "n")
		for _, status := range []store.Status{store.Succeeded, store.Failed, store.Cancelled} {
			id := status.String()
			r := o.started(id)
			first, seen := k.send(message(id, "a")), k.send(message(id, "b"))
			k.send(item(id, store.Item{Kind: store.ItemResolution, ID: "c", Origin: "o", Loc: "p", Value: []byte("v")}))
			k.send(verb(id, "d", store.ItemResume))
			o.turn(&store.Turn{Run: r.No, Shard: shardA, Consumed: []store.Consumption{{Item: first}},
				Seen:   []store.ItemNo{seen},
				Update: &store.Update{Status: status}}, store.Committed)
			states := func() (s []store.ItemState) {
				for _, it := range k.inbox(r.No, "a", "b", "c", "d") {
					s = append(s, it.State)
				}
				return s
			}
			k.equal("the states of a consumed, a seen, a new item and a verb of a run that is "+id, states(),
				[]store.ItemState{store.Consumed, store.Dead, store.Dead, store.New})
			k.equal("what is pending", len(k.inbox(r.No)), 1)
			snaps, _, err := k.s.Load(k.ctx, []store.RunNo{r.No})
			k.ok(err)
			k.equal("loaded items", len(snaps[0].Items), 1)
			got := k.letters(store.DeadFilter{RunIDs: []string{id}})
			items := k.inbox(r.No, "b", "c")
			ended := k.get(r.No)
			want := []store.DeadLetter{}
			for _, it := range []store.Item{items[1], items[0]} {
				want = append(want, store.DeadLetter{Run: r.No, RunID: id, Workflow: "w", Status: ended.Status, Item: it,
					Size: len(it.Value)})
			}
			k.equal("the dead letters of a run that is "+id, got, want)
		}
	}},
	{"ADiscardingEndConsumesWhatIsLeft", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		k.send(message("r", "a"))
		o.turn(update(r, store.Update{Status: store.Succeeded, Discard: true}), store.Committed)
		it := k.inbox(r.No, "a")
		if len(it) != 1 || it[0].State != store.Consumed || it[0].Value != nil {
			k.Errorf("the item that was discarded: %+v", it)
		}
		k.equal("the dead letters", k.lettersOf(store.DeadFilter{}), "")
	}},
	{"AnEndDiscardsMessagesByName", func(k *kit) {
		o := k.owner(k.s, "n")
		names := []string{"m", "1:m", "ö;", ""}
		for _, discards := range []bool{true, false} {
			r := o.started(fmt.Sprint("r", discards))
			for i, name := range append(names, "m;", "kept") {
				k.send(item(r.ID, store.Item{Kind: store.ItemMessage, ID: fmt.Sprint(i), Origin: "o", Name: name,
					Value: []byte("v")}))
			}
			k.send(item(r.ID, store.Item{Kind: store.ItemResolution, ID: "p", Origin: "o", Name: "m", Loc: "p"}))
			u := store.Update{Status: store.Succeeded}
			seen := k.inbox(r.No, "0", "1")
			if discards {
				u.DiscardNames = names
			}
			turn := update(r, u)
			turn.Seen = []store.ItemNo{seen[0].No} // examined or not
			o.turn(turn, store.Committed)
			want := "p54"
			if !discards {
				want = "p543210"
			}
			k.equal(fmt.Sprintf("the dead letters of an end that discards by name (%v)", discards),
				k.lettersOf(store.DeadFilter{RunIDs: []string{r.ID}}), want)
			if it := k.inbox(r.No, "2")[0]; discards && (it.State != store.Consumed || it.Value != nil) {
				k.Errorf("the message that was discarded: %+v", it)
			}
		}
	}},
	{"AnEndThatIsHeldBackLeavesItemsAlone", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		k.send(message("r", "a"))
		k.send(verb("r", "c", store.ItemCancel))
		o.turn(update(r, store.Update{Status: store.Succeeded}), store.StillReady)
		k.equal("what is pending", len(k.inbox(r.No)), 2)
	}},
	{"ARunThatGoesOnFindsItsItemsAgain", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		k.send(message("r", "a"))
		o.become(r, store.Failed)
		k.equal("the dead letters", k.lettersOf(store.DeadFilter{}), "a")
		k.send(verb("r", "v", store.ItemResume))
		claims := o.claim(10, "w")
		if len(claims.Runs) != 1 || len(claims.Runs[0].Items) != 1 {
			k.Fatalf("the claim of an ended run for a verb: %+v", claims.Runs)
		}
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Consumed: []store.Consumption{{Item: claims.Runs[0].Items[0].No}},
			Update: &store.Update{Status: store.Running}}, store.Committed)
		k.equal("the dead letters of a run that goes on", k.lettersOf(store.DeadFilter{}), "")
		claims = o.claim(10, "w")
		if len(claims.Runs) != 1 || len(claims.Runs[0].Items) != 1 || claims.Runs[0].Items[0].ID != "a" {
			k.Errorf("its items: %+v", claims.Runs)
		}
		o.turn(update(r, store.Update{Status: store.Suspended}), store.StillReady)
	}},
	{"ATurnMakesADeadLetter", func(k *kit) {
		o := k.owner(k.s, "n")
		r, other := o.started("r"), o.started("other")
		no, consumed := k.send(message("r", "a")), k.send(message("r", "b"))
		request := k.send(verb("r", "v", store.ItemResume))
		foreign := k.send(message("other", "f"))
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Dead: []store.ItemNo{no},
			Consumed: []store.Consumption{{Item: consumed}}}, store.Committed)
		k.equal("the dead letters", k.lettersOf(store.DeadFilter{}), "a")
		k.equal("what is pending", len(k.inbox(r.No)), 1)
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Seen: []store.ItemNo{request}}, store.Committed)
		o.turn(update(r, store.Update{Status: store.Suspended}), store.Committed)
		o.turn(update(other, store.Update{Status: store.Running}), store.Committed)
		k.send(message("r", "wake"))
		o.claim(10, "w")
		for what, bad := range map[string]store.Turn{
			"dead again":               {Dead: []store.ItemNo{no}},
			"consumed":                 {Dead: []store.ItemNo{consumed}},
			"of another run":           {Dead: []store.ItemNo{foreign}},
			"a verb":                   {Dead: []store.ItemNo{request}},
			"dead, and to be consumed": {Consumed: []store.Consumption{{Item: no}}},
		} {
			bad.Run, bad.Shard = r.No, shardA
			k.unchanged("a dead letter of an item that is "+what, func() { o.turn(&bad, store.Refused) })
		}
	}},
	{"ARefusedItemIsADeadLetterWithAReason", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		resolution := item("r", store.Item{Kind: store.ItemResolution, ID: "p", Origin: "o1", Loc: "p", Value: []byte("v")})
		delivery := item("r", store.Item{Kind: store.ItemDelivery, ID: "e", Origin: "o", Name: "key", Value: []byte("v")})
		m, p, e := k.send(message("r", "m")), k.send(resolution), k.send(delivery)
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Seen: []store.ItemNo{m}, Refused: []store.Refusal{
			{Item: m, Reason: []byte("no number")}, {Item: p, Reason: []byte("no text")}, {Item: e, Reason: []byte("no map")},
		}}, store.Committed)
		var got []string
		for _, l := range k.letters(store.DeadFilter{}) {
			got = append(got, l.Item.ID+": "+string(l.Item.Verdict)+", "+string(l.Item.Value))
		}
		k.equal("the letters", got, []string{"e: no map, v", store.RefusedID(p) + ": no text, v", "m: no number, value of m"})
		k.equal("what is pending", len(k.inbox(r.No)), 0)
		k.equal("the former ID of a resolution", len(k.inbox(r.No, "p")), 0)
		k.unchanged("the repeat of a message that was refused", func() {
			if a := k.apply(message("r", "m")); a.Outcome != store.Applied || a.Item != m {
				k.Errorf("the repeat: %+v", a)
			}
		})
		resolution.Item.Origin = "o2"
		again := k.apply(resolution)
		if again.Outcome != store.Applied || again.Item == p || again.Repeated {
			k.Errorf("another resolution: %+v", again)
		}
		k.equal("what is pending then", len(k.inbox(r.No)), 1)
		request, foreign := k.send(verb("r", "v", store.ItemResume)), k.send(message(o.started("other").ID, "f"))
		for what, no := range map[string]store.ItemNo{"refused": m, "a verb": request, "of another run": foreign} {
			bad := store.Turn{Run: r.No, Shard: shardA, Refused: []store.Refusal{{Item: no, Reason: []byte("why")}}}
			k.unchanged("the refusal of an item that is "+what, func() { o.turn(&bad, store.Refused) })
		}
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Consumed: []store.Consumption{{Item: again.Item}, {Item: request}},
			Update: &store.Update{Status: store.Failed}}, store.Committed)
		k.send(verb("r", "w", store.ItemResume))
		o.claim(10, "w")
		o.turn(update(r, store.Update{Status: store.Running}), store.Committed)
		k.equal("the letters of a run that goes on after its end", len(k.letters(store.DeadFilter{})), 3)
		were, err := k.s.Discard(k.ctx, []store.ItemNo{m, p, e})
		k.ok(err)
		k.equal("those that were discarded", were, []bool{true, true, true})
	}},
	{"ADeadLetterIsKnownByItsID", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		no := k.send(message("r", "a"))
		o.become(r, store.Succeeded)
		k.unchanged("the repeat of its sending", func() {
			if a := k.apply(message("r", "a")); a.Outcome != store.Applied || a.Item != no {
				k.Errorf("the repeat: %+v", a)
			}
		})
	}},
	{"DiscardingMakesThemConsumed", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		a, b := k.send(message("r", "a")), k.send(message("r", "b"))
		taken := k.send(message("r", "c"))
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Consumed: []store.Consumption{{Item: taken}},
			Update: &store.Update{Status: store.Failed}}, store.Committed)
		live := k.start("live")
		pending := k.send(message("live", "p"))
		were, err := k.s.Discard(k.ctx, []store.ItemNo{pending, a, taken, a, 9999})
		k.ok(err)
		k.equal("items that were dead letters", were, []bool{false, true, false, true, false})
		k.equal("the dead letters that are left", k.lettersOf(store.DeadFilter{}), "b")
		k.equal("the inbox of a live run", len(k.inbox(live.No)), 1)
		if it := k.inbox(r.No, "a")[0]; it.State != store.Consumed || it.Value != nil {
			k.Errorf("a discarded item: %+v", it)
		}
		were, err = k.s.Discard(k.ctx, []store.ItemNo{a, b})
		k.ok(err)
		k.equal("items that were dead letters the second time", were, []bool{false, true})
		were, err = k.s.Discard(k.ctx, nil)
		k.ok(err)
		k.equal("none", len(were), 0)
	}},
	{"ListingSelects", func(k *kit) {
		o := k.owner(k.s, "n")
		a, b := o.started("a"), o.started("b", func(s *store.Start) { s.Workflow = "x" })
		var nos []store.ItemNo
		for i, id := range []string{"1", "2", "3", "4"} {
			c := message([]string{"a", "b"}[i%2], id)
			if i > 1 {
				c.Item.Name = "other"
			}
			nos = append(nos, k.send(c))
		}
		o.become(a, store.Failed)
		o.become(b, store.Succeeded)
		for _, row := range []struct {
			f    store.DeadFilter
			want string
		}{
			{store.DeadFilter{}, "4321"},
			{store.DeadFilter{RunIDs: []string{"a", "none"}}, "31"},
			{store.DeadFilter{Workflows: []string{"x"}}, "42"},
			{store.DeadFilter{Names: []string{"other"}}, "43"},
			{store.DeadFilter{Nos: []store.ItemNo{nos[0], nos[3], 9999}}, "41"},
			{store.DeadFilter{Names: []string{"other"}, RunIDs: []string{"a"}}, "3"},
		} {
			k.equal(fmt.Sprintf("%+v", row.f), k.lettersOf(row.f), row.want)
		}
		pages, err := deadPages(k.ctx, k.s, store.DeadFilter{Limit: 3})
		k.ok(err)
		k.equal("the pages", []int{len(pages), len(pages[0]), len(pages[1])}, []int{2, 3, 1})
		if l := pages[0][0]; l.Item.Value != nil || l.Size != len("value of 4") {
			k.Errorf("a listing without values: %+v", l)
		}
		_, err = k.s.DeadLetters(k.ctx, store.DeadFilter{Cursor: "bad"})
		k.fails("a bad cursor", err, store.ErrBadCursor)
		_, err = k.s.DeadLetters(k.ctx, store.DeadFilter{Limit: -1})
		k.fails("a bad limit", err, store.ErrInvalid)
	}},
}

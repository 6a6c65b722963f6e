package storetest

import (
	"math"
	"strings"

	"github.com/stet-run/stet/store"
)

var law11 = []testCase{
	{"MalformedCommands", func(k *kit) {
		k.start("r")
		good := func(change func(*store.Start)) store.Command { return store.Command{Start: k.startOf("s", change)} }
		long := strings.Repeat("x", store.MaxRunID+1)
		commands := map[string]store.Command{
			"neither start nor item":    {RunID: "r"},
			"both start and item":       {Start: k.startOf("s"), Item: message("r", "m").Item, RunID: "r"},
			"a start without an ID":     good(func(s *store.Start) { s.ID = "" }),
			"a start with a long ID":    good(func(s *store.Start) { s.ID = long }),
			"an ID with a newline":      good(func(s *store.Start) { s.ID = "a\nb" }),
			"an ID with a NUL":          good(func(s *store.Start) { s.ID = "a\x00" }),
			"an ID that is not UTF-8":   good(func(s *store.Start) { s.ID = "a\xff" }),
			"no workflow":               good(func(s *store.Start) { s.Workflow = "" }),
			"a long workflow":           good(func(s *store.Start) { s.Workflow = long }),
			"a workflow not in UTF-8":   good(func(s *store.Start) { s.Workflow = "\xc3(" }),
			"no group":                  good(func(s *store.Start) { s.Shard.Group = "" }),
			"a slot below 0":            good(func(s *store.Start) { s.Shard.Slot = -1 }),
			"a time below 0":            good(func(s *store.Start) { s.At = -1 }),
			"a delay below 0":           good(func(s *store.Start) { s.After = -1 }),
			"a delay without end":       good(func(s *store.Start) { s.After = math.MaxInt64 }),
			"an unknown policy":         good(func(s *store.Start) { s.Existing = 9 }),
			"an item without an ID":     good(func(s *store.Start) { s.Items = []store.Item{{Kind: store.ItemMessage}} }),
			"an item of no kind":        good(func(s *store.Start) { s.Items = []store.Item{{ID: "i"}} }),
			"two items with one ID":     good(func(s *store.Start) { s.Items = []store.Item{*message("", "i").Item, *message("", "i").Item} }),
			"a message without an ID":   message("r", ""),
			"a message with a long ID":  message("r", long),
			"a message for no ID":       message("", "m"),
			"a message for a long ID":   message(long, "m"),
			"an unknown kind":           verb("r", "m", 99),
			"a long name":               item("r", store.Item{Kind: store.ItemMessage, ID: "i", Name: long}),
			"a name not in UTF-8":       item("r", store.Item{Kind: store.ItemMessage, ID: "i", Name: "\xff"}),
			"a location that is longer": item("r", store.Item{Kind: store.ItemResolution, ID: "i", Loc: strings.Repeat("x", store.MaxLocation+1)}),
		}
		o := k.owner(k.s, "n")
		sender := o.started("sender")
		k.unchanged("a malformed command", func() {
			for what, c := range commands {
				_, _, err := k.s.Apply(k.ctx, []store.Command{{Start: k.startOf("before")}, c})
				k.fails(what, err, store.ErrInvalid)
				_, err = k.s.Commit(k.ctx, store.Batch{Node: "n", Boot: "n-1", No: o.no + 1, Leases: o.leases,
					Commands: []store.Command{c}})
				k.fails(what+" in a batch", err, store.ErrInvalid)
				_, err = k.s.Commit(k.ctx, store.Batch{Node: "n", Boot: "n-1", No: o.no + 1, Leases: o.leases,
					Turns: []*store.Turn{{Run: sender.No, Shard: shardA, Sends: []store.Command{c}}}})
				k.fails(what+" sent by a turn", err, store.ErrInvalid)
			}
		})
	}},
	{"TheLongestNamesAreGood", func(k *kit) {
		long := strings.Repeat("ü", store.MaxRunID/2) + "x"
		r := k.start(long, func(s *store.Start) {
			s.Workflow = long
			s.Items = []store.Item{{Kind: store.ItemResolution, ID: long, Name: long,
				Loc: strings.Repeat("\xff", store.MaxLocation)}}
		})
		page, err := k.s.List(k.ctx, store.Filter{IDs: []string{long, "other"}, Workflows: []string{long}})
		k.ok(err)
		if len(page.Runs) != 1 || page.Runs[0].ID != long {
			k.Errorf("the run with the longest ID is listed as %+v", page.Runs)
		}
		if items := k.inbox(r.No, long, "other"); len(items) != 1 || len(items[0].Loc) != store.MaxLocation {
			k.Errorf("the item with the longest names: %+v", items)
		}
		k.pass(1)
		o := k.owner(k.s, "n")
		if c := o.claim(1, "other", long); len(c.Runs) != 1 {
			k.Error("the run with the longest workflow name is not claimed")
		}
	}},
	{"MalformedBatches", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		turn := func(change func(*store.Turn)) func(*store.Batch) {
			return func(b *store.Batch) {
				t := &store.Turn{Run: r.No, Shard: shardA, Entries: []store.Entry{entry("a", store.Done)}}
				change(t)
				b.Turns = []*store.Turn{t}
			}
		}
		batches := map[string]func(*store.Batch){
			"no node":                 func(b *store.Batch) { b.Node = "" },
			"no boot":                 func(b *store.Batch) { b.Boot = "" },
			"number 0":                func(b *store.Batch) { b.No = 0 },
			"two leases of one shard": func(b *store.Batch) { b.Leases = append(b.Leases, b.Leases[0]) },
			"two turns of one run": func(b *store.Batch) {
				b.Turns = []*store.Turn{update(r, store.Update{Status: store.Running}), {Run: r.No, Shard: shardA}}
			},
			"a nil turn":             func(b *store.Batch) { b.Turns = []*store.Turn{nil} },
			"a turn without a lease": turn(func(t *store.Turn) { t.Shard = shardB }),
			"no location":            turn(func(t *store.Turn) { t.Entries[0].Loc = "" }),
			"a long location":        turn(func(t *store.Turn) { t.Entries[0].Loc = strings.Repeat("x", store.MaxLocation+1) }),
			"no kind":                turn(func(t *store.Turn) { t.Entries[0].Kind = 0 }),
			"no state":               turn(func(t *store.Turn) { t.Entries[0].State = 0 }),
			"an unknown state":       turn(func(t *store.Turn) { t.Entries[0].State = 5 }),
			"a number below 0":       turn(func(t *store.Turn) { t.Entries[0].Seq = -1 }),
			"an empty span":          turn(func(t *store.Turn) { t.Prune = []store.Span{{From: "a", To: "a"}} }),
			"a span backwards":       turn(func(t *store.Turn) { t.Prune = []store.Span{{From: "b", To: "a"}} }),
			"a span from the root":   turn(func(t *store.Turn) { t.Prune = []store.Span{{To: "a"}} }),
			"a long span": turn(func(t *store.Turn) {
				t.Prune = []store.Span{{From: "a", To: strings.Repeat("x", store.MaxLocation+1)}}
			}),
			"no status": turn(func(t *store.Turn) { t.Update = &store.Update{} }),
			"a continuation without a workflow": turn(func(t *store.Turn) {
				t.Update = &store.Update{Status: store.Running, Continue: &store.Continuation{}}
			}),
			"a continuation of an ended run": turn(func(t *store.Turn) {
				t.Update = &store.Update{Status: store.Failed, Continue: &store.Continuation{Workflow: "w"}}
			}),
			"a continuation before time": turn(func(t *store.Turn) {
				t.Update = &store.Update{Status: store.Running, Continue: &store.Continuation{Workflow: "w", At: -1}}
			}),
			"a long name of messages to discard": turn(func(t *store.Turn) {
				t.Update = &store.Update{Status: store.Failed, DiscardNames: []string{strings.Repeat("x", store.MaxName+1)}}
			}),
			"too many names of messages to discard": turn(func(t *store.Turn) {
				t.Update = &store.Update{Status: store.Failed, DiscardNames: make([]string, store.MaxDiscardNames+1)}
			}),
			"an unknown status": turn(func(t *store.Turn) { t.Update = &store.Update{Status: 8} }),
		}
		k.unchanged("a malformed batch", func() {
			for what, change := range batches {
				b := store.Batch{Node: "n", Boot: "n-1", No: o.no + 1, Leases: []store.Lease{o.leases[0]},
					Commands: []store.Command{{Start: k.startOf("new")}}}
				change(&b)
				_, err := k.s.Commit(k.ctx, b)
				k.fails(what, err, store.ErrInvalid)
			}
		})
		o.turn(&store.Turn{Run: r.No + 1000, Shard: shardA, Entries: []store.Entry{entry("a", store.Done)}}, store.Refused)
		o.turn(&store.Turn{Run: -1, Shard: shardA, Entries: []store.Entry{entry("a", store.Done)}}, store.Refused)
		o.turn(&store.Turn{Run: r.No, Shard: shardA,
			Entries: []store.Entry{entry(strings.Repeat("\x00", store.MaxLocation), store.Done)}}, store.Committed)
	}},
	{"MalformedNodesAndLeases", func(k *kit) {
		good := store.Node{ID: "n", Boot: "b"}
		long := strings.Repeat("x", store.MaxRunID+1)
		nodes := map[string]store.Node{
			"no ID": {Boot: "b"}, "no boot": {ID: "n"}, "a long ID": {ID: long, Boot: "b"}, "a long boot": {ID: "n", Boot: long},
			"a workflow without a name": {ID: "n", Boot: "b", Workflows: []string{"w", ""}}, "an ID not in UTF-8": {ID: "\xff", Boot: "b"},
		}
		k.unchanged("a malformed node or lease", func() {
			for what, n := range nodes {
				_, err := k.s.Register(k.ctx, n)
				k.fails("register "+what, err, store.ErrInvalid)
				_, _, err = k.s.Acquire(k.ctx, n, []store.Shard{shardA}, ttl)
				k.fails("acquire for "+what, err, store.ErrInvalid)
			}
			for _, d := range []store.Delay{0, -1, math.MaxInt64} {
				_, _, err := k.s.Acquire(k.ctx, good, []store.Shard{shardA}, d)
				k.fails("acquire for a bad time", err, store.ErrInvalid)
				_, _, err = k.s.Renew(k.ctx, []store.Lease{{Shard: shardA, Epoch: 1}}, d)
				k.fails("renew for a bad time", err, store.ErrInvalid)
			}
			for _, shard := range []store.Shard{{}, {Slot: -1, Group: "g"}, {Group: long}} {
				_, _, err := k.s.Acquire(k.ctx, good, []store.Shard{shardA, shard}, ttl)
				k.fails("acquire a bad shard", err, store.ErrInvalid)
			}
			renewed, _, err := k.s.Renew(k.ctx, []store.Lease{{}, {Shard: shardB, Epoch: -5}}, ttl)
			k.ok(err)
			k.equal("unknown leases that are renewed", renewed, []store.Acquired{{}, {}})
			k.ok(k.s.Release(k.ctx, []store.Lease{{}, {Shard: shardB, Epoch: -5}}))
		})
	}},
	{"MalformedClaims", func(k *kit) {
		o := k.owner(k.s, "n")
		k.start("r")
		k.unchanged("a malformed claim", func() {
			for what, req := range map[string]store.ClaimRequest{
				"a limit below 0":         {Leases: o.leases, Limit: -1},
				"two leases of one shard": {Leases: []store.Lease{o.leases[0], o.leases[0]}, Limit: 1},
			} {
				req.Node, req.Boot, req.Workflows = "n", "n-1", []string{"w"}
				_, err := k.s.Claim(k.ctx, req)
				k.fails(what, err, store.ErrInvalid)
			}
		})
	}},
	{"MalformedFilters", func(k *kit) {
		k.start("a")
		k.start("b")
		page, err := k.s.List(k.ctx, store.Filter{Limit: 1})
		k.ok(err)
		good := page.Next
		for what, f := range map[string]store.Filter{
			"a limit below 0":      {Limit: -1},
			"a limit that is more": {Limit: store.MaxPage + 1},
			"a bound below 0":      {Most: -1},
			"a bound too high":     {Most: store.MaxMost + 1},
			"an unknown status":    {Statuses: []store.Status{store.Running, 9}},
		} {
			_, err := k.s.List(k.ctx, f)
			k.fails("list with "+what, err, store.ErrInvalid)
			_, err = k.s.Count(k.ctx, f)
			k.fails("count with "+what, err, store.ErrInvalid)
		}
		for _, cursor := range []string{"x", "AAAA", good + "A", good[1:], good + "=", strings.ToUpper(good) + "!",
			" " + good, "../..", "\x00"} {
			_, err := k.s.List(k.ctx, store.Filter{Cursor: cursor})
			k.fails("the cursor "+cursor, err, store.ErrBadCursor)
		}
	}},
	{"UnknownNumbersFindNothing", func(k *kit) {
		k.start("r")
		for _, no := range []store.RunNo{0, -1, 1 << 40} {
			snaps, _, err := k.s.Load(k.ctx, []store.RunNo{no})
			k.ok(err)
			entries, err := k.s.History(k.ctx, store.HistoryQuery{Run: no, Values: true})
			k.ok(err)
			items, err := k.s.Inbox(k.ctx, no)
			k.ok(err)
			named, err := k.s.Inbox(k.ctx, no, "m")
			k.ok(err)
			page, err := k.s.List(k.ctx, store.Filter{Nos: []store.RunNo{no}})
			k.ok(err)
			if n := len(snaps) + len(entries) + len(items) + len(named) + len(page.Runs); n != 0 {
				k.Errorf("run number %d: found %d things", no, n)
			}
		}
	}},
}

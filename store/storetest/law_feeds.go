package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/stet-run/stet/store"
)

// shows is a turn that shows something to readers.
func shows(r store.Run, change func(*store.Turn)) *store.Turn {
	t := &store.Turn{Run: r.No, Shard: r.Shard}
	change(t)
	return t
}

// feeds returns the feeds of a run, with values.
func (k *kit) feeds(no store.RunNo) []store.Feed {
	k.Helper()
	feeds, err := k.s.Feeds(k.ctx, store.FeedQuery{Runs: []store.RunNo{no}, Values: true})
	k.ok(err)
	return feeds
}

// stream returns the items of a stream after a position.
func (k *kit) stream(no store.RunNo, name string, after int64, limit int) []store.StreamItem {
	k.Helper()
	items, err := k.s.Stream(k.ctx, store.StreamQuery{Run: no, Name: name, After: after, Limit: limit})
	k.ok(err)
	return items
}

// texts returns the positions and values of items.
func texts(items []store.StreamItem) string {
	var parts []string
	for _, it := range items {
		text := string(it.Value)
		if it.Rewound {
			text = "rewound"
		}
		parts = append(parts, fmt.Sprint(it.Pos, "=", text))
	}
	return strings.Join(parts, " ")
}

func appends(name string, values ...string) []store.Append {
	var list []store.Append
	for _, v := range values {
		list = append(list, store.Append{Name: name, Value: []byte(v)})
	}
	return list
}

var law16 = []testCase{
	{"PositionsFollowEachOther", func(k *kit) {
		o := k.owner(k.s, "n")
		r, other := o.started("r"), o.started("other")
		o.batch(nil,
			shows(r, func(t *store.Turn) { t.Appends = append(appends("log", "a", "b"), appends("other", "x")...) }),
			shows(other, func(t *store.Turn) { t.Appends = appends("log", "of the other") }))
		first := k.now()
		k.pass(second)
		o.batch(nil, shows(r, func(t *store.Turn) { t.Appends = append(appends("log", "c"), store.Append{Name: "log"}) }))
		k.equal("the stream", k.stream(r.No, "log", 0, 0), []store.StreamItem{
			{Pos: 1, At: first, Value: []byte("a")}, {Pos: 2, At: first, Value: []byte("b")},
			{Pos: 3, At: k.now(), Value: []byte("c")}, {Pos: 4, At: k.now()},
		})
		k.equal("the other stream", texts(k.stream(r.No, "other", 0, 0)), "1=x")
		k.equal("the other run's stream", texts(k.stream(other.No, "log", 0, 0)), "1=of the other")
		k.equal("from a position", texts(k.stream(r.No, "log", 1, 2)), "2=b 3=c")
		k.equal("after the last", k.stream(r.No, "log", 4, 0), []store.StreamItem(nil))
		k.equal("of no stream", k.stream(r.No, "none", 0, 0), []store.StreamItem(nil))
		k.equal("of no run", k.stream(999, "log", 0, 0), []store.StreamItem(nil))
		k.equal("the feeds", k.feeds(r.No), []store.Feed{
			{Run: r.No, Stream: true, Name: "log", Last: 4, At: k.now()}, {Run: r.No, Stream: true, Name: "other", Last: 1, At: first},
		})
	}},
	{"AStreamKeepsItsNewestItems", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		keep := func(n int64, name string, values ...string) []store.Append {
			list := appends(name, values...)
			for i := range list {
				list[i].Keep = n
			}
			return list
		}
		show := func(list ...store.Append) {
			o.batch(nil, shows(r, func(t *store.Turn) { t.Appends = list }))
		}
		dropped := func() (of []int64) {
			for _, f := range k.feeds(r.No) {
				of = append(of, f.Dropped)
			}
			return of
		}
		show(append(keep(3, "log", "a", "b", "c"), appends("other", "x")...)...)
		k.equal("as many as are kept", texts(k.stream(r.No, "log", 0, 0)), "1=a 2=b 3=c")
		show(keep(3, "log", "d", "e")...)
		k.equal("more than are kept", texts(k.stream(r.No, "log", 0, 0)), "3=c 4=d 5=e")
		k.equal("after what is gone", texts(k.stream(r.No, "log", 1, 2)), "3=c 4=d")
		k.equal("after what is there", texts(k.stream(r.No, "log", 3, 0)), "4=d 5=e")
		k.equal("what was dropped", dropped(), []int64{2, 0})
		show(appends("log", "f", "g")...)
		k.equal("without a bound", texts(k.stream(r.No, "log", 0, 0)), "3=c 4=d 5=e 6=f 7=g")
		o.batch(nil, shows(r, func(t *store.Turn) { t.Rewound = true }))
		k.equal("a mark is an item", texts(k.stream(r.No, "log", 6, 0)), "7=g 8=rewound")
		show(append(append(keep(2, "log", "i"), keep(100, "log", "j")...), appends("log", "k")...)...)
		k.equal("several bounds", texts(k.stream(r.No, "log", 0, 0)), "8=rewound 9=i 10=j 11=k")
		k.unchanged("the repeat", func() { o.again() })
		show(keep(1, "log", "l", "m")...)
		k.equal("one", texts(k.stream(r.No, "log", 0, 0)), "13=m")
		show(keep(1<<62, "log", "n")...)
		k.equal("many", texts(k.stream(r.No, "log", 0, 0)), "13=m 14=n")
		k.equal("the other stream", texts(k.stream(r.No, "other", 0, 0)), "1=x 2=rewound")
		k.equal("what was dropped at the end", dropped(), []int64{12, 0})
		feeds := k.feeds(r.No)
		k.equal("the last position", feeds[0].Last, int64(14))
	}},
	{"ARepeatedBatchShowsNothingTwice", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		o.batch(nil, shows(r, func(t *store.Turn) {
			t.Appends, t.Values = appends("log", "a"), []store.Setting{{Name: "v", Value: []byte("1")}}
		}))
		k.unchanged("the repeat", func() { o.again() })
	}},
	{"AFencedOrRefusedTurnShowsNothing", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		show := func(t *store.Turn) {
			t.Appends, t.Values, t.Tags = appends("log", "a"), []store.Setting{{Name: "v"}}, []store.Pair{{Key: "k", Value: "v"}}
		}
		k.unchanged("a refused turn", func() {
			o.turn(shows(r, func(t *store.Turn) { show(t); t.Incarnation = 7 }), store.Refused)
			o.turn(shows(r, func(t *store.Turn) { show(t); t.Seen = []store.ItemNo{999} }), store.Refused)
		})
		o.leases[0].Epoch--
		k.unchanged("a fenced turn", func() { o.turn(shows(r, show), store.Fenced) })
	}},
	{"WhatIsHeldBackShowsAllTheSame", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		k.send(message("r", "m"))
		o.turn(shows(r, func(t *store.Turn) {
			t.Appends, t.Update = appends("log", "a"), &store.Update{Status: store.Suspended}
		}), store.StillReady)
		k.equal("the stream", texts(k.stream(r.No, "log", 0, 0)), "1=a")
	}},
	{"AValueCountsHowOftenItWasSet", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		large := []byte(strings.Repeat("l", 100_000))
		for i, v := range [][]byte{[]byte("1"), nil, {}, large} {
			k.pass(second)
			o.batch(nil, shows(r, func(t *store.Turn) {
				t.Values = []store.Setting{{Name: "v", Value: v}}
				if i == 0 {
					t.Values = append(t.Values, store.Setting{Name: "u", Value: []byte("x")})
				}
			}))
			feeds := k.feeds(r.No)
			k.equal("the value", feeds[1], store.Feed{Run: r.No, Name: "v", Last: int64(i + 1), At: k.now(), Size: len(v),
				Value: v})
		}
		k.equal("the value that was set once", k.feeds(r.No)[0].Last, int64(1))
		without, err := k.s.Feeds(k.ctx, store.FeedQuery{Runs: []store.RunNo{r.No}, Name: "v"})
		k.ok(err)
		k.equal("without values", without, []store.Feed{{Run: r.No, Name: "v", Last: 4, At: k.now(), Size: len(large)}})
	}},
	{"FeedsComeInOrder", func(k *kit) {
		o := k.owner(k.s, "n")
		a, b := o.started("a"), o.started("b")
		for _, r := range []store.Run{b, a} {
			o.batch(nil, shows(r, func(t *store.Turn) {
				t.Appends = append(appends("b", "1"), appends("a", "1")...)
				t.Values = []store.Setting{{Name: "z"}, {Name: "b"}}
			}))
		}
		feeds, err := k.s.Feeds(k.ctx, store.FeedQuery{Runs: []store.RunNo{b.No, 999, a.No, b.No}})
		k.ok(err)
		var got string
		for _, f := range feeds {
			got += fmt.Sprintf("%t %t %s ", f.Run == b.No, f.Stream, f.Name)
		}
		k.equal("the order", got,
			"false false b false false z false true a false true b true false b true false z true true a true true b ")
	}},
	{"ARewindMarksEveryStream", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		o.batch(nil, shows(r, func(t *store.Turn) { t.Appends = append(appends("a", "1"), appends("b", "1")...) }))
		o.batch(nil, shows(r, func(t *store.Turn) {
			t.Rewound, t.Appends = true,
				append(appends("a", "2"), appends("c", "1")...)
		}))
		k.equal("stream a", texts(k.stream(r.No, "a", 0, 0)), "1=1 2=rewound 3=2")
		k.equal("stream b", texts(k.stream(r.No, "b", 0, 0)), "1=1 2=rewound")
		k.equal("the new stream", texts(k.stream(r.No, "c", 0, 0)), "1=1")
	}},
	{"ManyItems", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		for i := range 30 {
			o.batch(nil, shows(r, func(t *store.Turn) {
				for j := range 10 {
					t.Appends = append(t.Appends, appends("log", fmt.Sprint(10*i+j+1))...)
				}
			}))
		}
		next := int64(1)
		for {
			items := k.stream(r.No, "log", next-1, 70)
			if len(items) == 0 {
				break
			}
			for _, it := range items {
				if it.Pos != next || string(it.Value) != fmt.Sprint(next) {
					k.Fatalf("at position %d stands %d=%s", next, it.Pos, it.Value)
				}
				next++
			}
		}
		k.equal("the position after the last", next, int64(301))
		k.equal("a page without a limit", len(k.stream(r.No, "log", 0, 0)), store.DefaultPage)
	}},
	{"AReadingIsBounded", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		huge := strings.Repeat("h", store.MaxStreamRead+1)
		half := strings.Repeat("h", store.MaxStreamRead/2)
		o.batch(nil, shows(r, func(t *store.Turn) { t.Appends = appends("log", huge, half, half, "x") }))
		for _, row := range []struct {
			after int64
			want  int
		}{{0, 1}, {1, 2}, {2, 2}, {3, 1}, {4, 0}} {
			if got := len(k.stream(r.No, "log", row.after, 0)); got != row.want {
				k.Errorf("after %d: %d items; want %d", row.after, got, row.want)
			}
		}
	}},
	{"FeedsStayWhenTheRunHasEnded", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		o.turn(shows(r, func(t *store.Turn) {
			t.Appends, t.Values, t.Update = appends("log", "last words"), []store.Setting{{Name: "v", Value: []byte("1")}},
				&store.Update{Status: store.Succeeded}
		}), store.Committed)
		k.equal("the number of feeds", len(k.feeds(r.No)), 2)
	}},
	{"TagsAndHeaders", func(k *kit) {
		o := k.owner(k.s, "n")
		start := k.startOf("r", func(s *store.Start) {
			s.Tags, s.Headers = []store.Pair{{Key: "tenant", Value: "acme"}, {Key: "area", Value: "ö b"}}, []byte("h\x00")
		})
		a := o.batch([]store.Command{{Claim: true, Start: start}}).Commands[0]
		want := []store.Pair{{Key: "area", Value: "ö b"}, {Key: "tenant", Value: "acme"}}
		k.equal("the tags that were answered", a.Run.Tags, want)
		k.equal("the headers that were answered", a.Run.Headers, []byte("h\x00"))
		r := k.get(a.Run.No)
		k.equal("the tags", r.Tags, want)
		k.equal("the headers", r.Headers, []byte("h\x00"))
		o.turn(shows(r, func(t *store.Turn) {
			t.Tags = []store.Pair{{Key: "tenant", Value: "ibm"}, {Key: "area"}, {Key: "none"}, {Key: "b", Value: "2"}}
		}), store.Committed)
		want = []store.Pair{{Key: "b", Value: "2"}, {Key: "tenant", Value: "ibm"}}
		k.equal("the changed tags", k.get(r.No).Tags, want)
		k.equal("the tags of the snapshot", load(k, r.No).Run.Tags, want)
		o.become(r, store.Suspended)
		k.send(message("r", "m"))
		claimed := o.claim(1, "w").Runs[0].Run
		k.equal("the tags of the claimed run", claimed.Tags, want)
		k.equal("the headers of the claimed run", claimed.Headers, []byte("h\x00"))
		o.turn(shows(r, func(t *store.Turn) { t.Tags = []store.Pair{{Key: "tenant"}, {Key: "b"}} }), store.Committed)
		k.equal("no tags", k.get(r.No).Tags, []store.Pair(nil))
	}},
	{"RunsAreFoundByTheirTags", func(k *kit) {
		tags := func(pairs ...string) func(*store.Start) {
			return func(s *store.Start) {
				for i := 0; i < len(pairs); i += 2 {
					s.Tags = append(s.Tags, store.Pair{Key: pairs[i], Value: pairs[i+1]})
				}
			}
		}
		parent := k.start("a", tags("t", "1", "u", "1"))
		k.start("b", tags("t", "2", "u", "1"))
		k.start("c", tags("t", "1"), func(s *store.Start) { s.Parent = parent.No })
		k.start("d", func(s *store.Start) { s.Workflow = "x" }, tags("t", "3", "u", "2"))
		k.start("e")
		one := func(key, value string) store.Pair { return store.Pair{Key: key, Value: value} }
		for _, row := range []struct {
			filter store.Filter
			want   string
		}{
			{store.Filter{Tags: []store.Pair{one("t", "1")}}, "ca"},
			{store.Filter{Tags: []store.Pair{one("t", "1"), one("t", "3")}}, "dca"},
			{store.Filter{Tags: []store.Pair{one("t", "1"), one("u", "1")}}, "a"},
			{store.Filter{Tags: []store.Pair{one("u", "1"), one("t", "1"), one("t", "2")}}, "ba"},
			{store.Filter{Tags: []store.Pair{one("t", "4")}}, ""},
			{store.Filter{Tags: []store.Pair{one("v", "1")}}, ""},
			{store.Filter{Tags: []store.Pair{one("t", "1")}, IDs: []string{"a", "b"}}, "a"},
			{store.Filter{Tags: []store.Pair{one("t", "1")}, Parent: parent.No}, "c"},
			{store.Filter{Tags: []store.Pair{one("u", "2")}, Workflows: []string{"x"}}, "d"},
			{store.Filter{Tags: []store.Pair{one("u", "2")}, Workflows: []string{"w"}}, ""},
			{store.Filter{Tags: []store.Pair{one("t", "1")}, Statuses: []store.Status{store.Queued}, Limit: 1}, "ca"},
		} {
			all, err := pages(k.ctx, k.s, row.filter)
			k.ok(err)
			got := ""
			for _, page := range all {
				for _, r := range page {
					got += r.ID
				}
			}
			k.equal(fmt.Sprintf("the runs with %+v", row.filter), got, row.want)
			tallies, err := k.s.Count(k.ctx, row.filter)
			k.ok(err)
			total := 0
			for _, t := range tallies {
				total += int(t.Runs)
			}
			k.equal(fmt.Sprintf("how many have %+v", row.filter), total, len(row.want))
		}
	}},
	{"ItemsKeepHeadersUntilTheyAreConsumed", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		c := message("r", "m")
		c.Item.Headers = []byte("h")
		no := k.send(c)
		k.equal("the headers of the item", k.inbox(r.No)[0].Headers, []byte("h"))
		k.equal("the headers of the claimed item", o.claim(1, "w").Runs[0].Items[0].Headers, []byte("h"))
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Consumed: []store.Consumption{{Item: no}}}, store.Committed)
		k.equal("the headers of the consumed item", k.inbox(r.No, "m")[0].Headers, []byte(nil))
	}},
	{"MalformedFeedsChangeNothing", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		long := strings.Repeat("x", store.MaxName+1)
		var many []store.Pair
		for i := range store.MaxTags + 1 {
			many = append(many, store.Pair{Key: fmt.Sprint(i), Value: "v"})
		}
		k.unchanged("malformed input", func() {
			for what, change := range map[string]func(*store.Turn){
				"a value without a name": func(t *store.Turn) { t.Values = []store.Setting{{}} },
				"two values of one name": func(t *store.Turn) { t.Values = []store.Setting{{Name: "v"}, {Name: "v"}} },
				"a long name":            func(t *store.Turn) { t.Appends = appends(long, "x") },
				"a bound below 0": func(t *store.Turn) {
					t.Appends = []store.Append{{Name: "log", Keep: -1}}
				},
				"a stream without a name":  func(t *store.Turn) { t.Appends = appends("", "x") },
				"a tag without a key":      func(t *store.Turn) { t.Tags = []store.Pair{{Value: "v"}} },
				"a key with a space":       func(t *store.Turn) { t.Tags = []store.Pair{{Key: "a b", Value: "v"}} },
				"a key with an equal sign": func(t *store.Turn) { t.Tags = []store.Pair{{Key: "a=b", Value: "v"}} },
				"two tags of one key":      func(t *store.Turn) { t.Tags = []store.Pair{{Key: "a", Value: "v"}, {Key: "a"}} },
				"a long tag":               func(t *store.Turn) { t.Tags = []store.Pair{{Key: "a", Value: long}} },
				"too many tags":            func(t *store.Turn) { t.Tags = many },
			} {
				_, err := o.s.Commit(k.ctx, store.Batch{Node: o.node.ID, Boot: o.node.Boot, No: o.no + 1, Leases: o.leases,
					Turns: []*store.Turn{shows(r, change)}})
				k.fails(what, err, store.ErrInvalid)
			}
			for what, change := range map[string]func(*store.Start){
				"a start with an empty tag":  func(s *store.Start) { s.Tags = []store.Pair{{Key: "a"}} },
				"a start with two tags":      func(s *store.Start) { s.Tags = []store.Pair{{Key: "a", Value: "1"}, {Key: "a", Value: "2"}} },
				"a start with large headers": func(s *store.Start) { s.Headers = make([]byte, store.MaxHeaders+1) },
				"a message with large headers": func(s *store.Start) {
					s.Items = []store.Item{{Kind: store.ItemMessage, ID: "i", Headers: make([]byte, store.MaxHeaders+1)}}
				},
				"a start with a malformed item": func(s *store.Start) { s.Items = []store.Item{{Kind: store.ItemUpdate + 1, ID: "i"}} },
			} {
				_, _, err := k.s.Apply(k.ctx, []store.Command{{Start: k.startOf("new", change)}})
				k.fails(what, err, store.ErrInvalid)
			}
			_, err := k.s.List(k.ctx, store.Filter{Tags: []store.Pair{{Key: "a"}}})
			k.fails("a filter with an empty tag", err, store.ErrInvalid)
			for _, q := range []store.StreamQuery{{Run: r.No, Name: "f", Limit: -1},
				{Run: r.No, Name: "f", Limit: store.MaxPage + 1}, {Run: r.No, Name: "f", After: -1}} {
				_, err := k.s.Stream(k.ctx, q)
				k.fails(fmt.Sprintf("%+v", q), err, store.ErrInvalid)
			}
		})
	}},
}

// load returns the snapshot of a run.
func load(k *kit, no store.RunNo) store.Snapshot {
	k.Helper()
	snapshots, _, err := k.s.Load(k.ctx, []store.RunNo{no})
	k.ok(err)
	if len(snapshots) != 1 {
		k.Fatalf("run number %d: %d snapshots", no, len(snapshots))
	}
	return snapshots[0]
}

// updateItem is a command that sends an update.
func updateItem(run, id string) store.Command {
	return item(run, store.Item{Kind: store.ItemUpdate, Name: "u", ID: id, Origin: "o", Value: []byte("v")})
}

var law17 = []testCase{
	{"AnAnswerStands", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		a, b := k.send(updateItem("r", "a")), k.send(updateItem("r", "b"))
		answer := func(no store.ItemNo, text string) func(*store.Turn) {
			return func(t *store.Turn) { t.Answers = []store.Consumption{{Item: no, Verdict: []byte(text)}} }
		}
		o.turn(shows(r, answer(a, "before it was received")), store.Refused)
		o.turn(shows(r, func(t *store.Turn) {
			answer(a, "at once")(t)
			t.Consumed = []store.Consumption{{Item: a}, {Item: b}}
		}), store.Committed)
		k.equal("the answered update", k.inbox(r.No, "a")[0].Verdict, []byte("at once"))
		k.equal("the received update", k.inbox(r.No, "b")[0].Verdict, []byte(nil))
		o.turn(shows(r, answer(b, "later")), store.Committed)
		k.equal("the update answered later", k.inbox(r.No, "b")[0].Verdict, []byte("later"))
		for _, no := range []store.ItemNo{a, b} {
			o.turn(shows(r, answer(no, "again")), store.Refused)
		}
		k.equal("the answer", k.inbox(r.No, "a")[0].Verdict, []byte("at once"))
	}},
	{"OnlyUpdatesOfTheRunAreAnswered", func(k *kit) {
		o := k.owner(k.s, "n")
		r, other := o.started("r"), o.started("other")
		m := k.send(message("r", "m"))
		u := k.send(updateItem("other", "u"))
		o.turn(&store.Turn{Run: other.No, Shard: shardA, Consumed: []store.Consumption{{Item: u}}}, store.Committed)
		k.unchanged("a wrong answer", func() {
			o.turn(shows(r, func(t *store.Turn) {
				t.Consumed, t.Answers = []store.Consumption{{Item: m}}, []store.Consumption{{Item: m, Verdict: []byte("x")}}
			}), store.Refused)
			o.turn(shows(r, func(t *store.Turn) { t.Answers = []store.Consumption{{Item: u, Verdict: []byte("x")}} }),
				store.Refused)
			o.turn(shows(other, func(t *store.Turn) { t.Answers = []store.Consumption{{Item: u}} }), store.Refused)
			o.turn(shows(other, func(t *store.Turn) {
				t.Answers = []store.Consumption{{Item: u, Verdict: []byte("x")}, {Item: u, Verdict: []byte("y")}}
			}), store.Refused)
		})
	}},
	{"TheEndAnswersWhatIsOpen", func(k *kit) {
		o := k.owner(k.s, "n")
		for _, status := range []store.Status{store.Succeeded, store.Failed, store.Cancelled} {
			r := o.started(status.String())
			received, answered, seen := k.send(updateItem(r.ID, "received")), k.send(updateItem(r.ID, "answered")),
				k.send(updateItem(r.ID, "seen"))
			k.send(updateItem(r.ID, "new"))
			k.send(message(r.ID, "message"))
			o.turn(shows(r, func(t *store.Turn) {
				t.Seen = []store.ItemNo{seen}
				t.Consumed = []store.Consumption{{Item: received}, {Item: answered}}
				t.Answers = []store.Consumption{{Item: answered, Verdict: []byte("y")}}
			}), store.Committed)
			o.become(r, status)
			got := ""
			for _, it := range k.inbox(r.No, "received", "answered", "seen", "new", "message") {
				got += fmt.Sprintf("%s%d%s%s ", it.ID, it.State, it.Verdict, it.Value)
			}
			k.equal("the items", got, "received3x answered3y seen3x new3x message4value of message ")
		}
	}},
	{"ContinuingAsNewAnswersWhatIsOpen", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		received, late, seen := k.send(updateItem("r", "received")), k.send(updateItem("r", "late")),
			k.send(updateItem("r", "seen"))
		fresh := k.send(updateItem("r", "new"))
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Consumed: []store.Consumption{{Item: received}},
			Seen: []store.ItemNo{seen}}, store.Committed)
		o.turn(shows(r, func(t *store.Turn) {
			t.Appends, t.Values, t.Tags = appends("log", "a"), []store.Setting{{Name: "v", Value: []byte("1")}},
				[]store.Pair{{Key: "k", Value: "v"}}
		}), store.Committed)
		next := continued(r, store.Continuation{Workflow: "w", Seed: seedOf(99), At: 7})
		next.Consumed = []store.Consumption{{Item: late}}
		o.turn(next, store.Committed)
		got := ""
		for _, it := range k.inbox(r.No, "received", "late", "seen", "new") {
			got += fmt.Sprintf("%s%d%s ", it.ID, it.State, it.Verdict)
		}
		k.equal("the updates", got, "received3x late3x seen2 new1 ")
		r = k.get(r.No)
		o.turn(&store.Turn{Run: r.No, Shard: r.Shard, Incarnation: r.Incarnation,
			Consumed: []store.Consumption{{Item: seen}, {Item: fresh}}}, store.Committed)
		o.turn(shows(r, func(t *store.Turn) {
			t.Incarnation = r.Incarnation
			t.Answers = []store.Consumption{{Item: seen, Verdict: []byte("y")}, {Item: fresh, Verdict: []byte("z")}}
		}), store.Committed)
		for _, it := range k.inbox(r.No, "seen", "new") {
			want := map[string]string{"seen": "y", "new": "z"}[it.ID]
			k.equal("the answer of the next incarnation to "+it.ID, string(it.Verdict), want)
		}
		o.turn(shows(r, func(t *store.Turn) { t.Incarnation, t.Appends = r.Incarnation, appends("log", "b") }),
			store.Committed)
		k.equal("the stream of both incarnations", texts(k.stream(r.No, "log", 0, 0)), "1=a 2=b")
		k.equal("what it shows", len(k.feeds(r.No)), 2)
		k.equal("its tags", k.get(r.No).Tags, []store.Pair{{Key: "k", Value: "v"}})
	}},
	{"WhatIsHeldBackAnswersNothing", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		k.send(updateItem("r", "u"))
		k.send(verb("r", "c", store.ItemCancel))
		o.turn(update(r, store.Update{Status: store.Succeeded}), store.StillReady)
		k.equal("the update", k.inbox(r.No, "u")[0].State, store.New)
	}},
	{"AnEndedRunTakesNoUpdate", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		o.become(r, store.Succeeded)
		k.unchanged("an update", func() {
			if a := k.apply(updateItem("r", "u")); a.Outcome != store.Ended {
				k.Errorf("the outcome is %d", a.Outcome)
			}
		})
	}},
	{"ASnapshotHasWhatIsNotAnswered", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		a, b, m := k.send(updateItem("r", "a")), k.send(updateItem("r", "b")), k.send(message("r", "m"))
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Consumed: []store.Consumption{{Item: a}, {Item: b}},
			Answers: []store.Consumption{{Item: b, Verdict: []byte("y")}}}, store.Committed)
		items := load(k, r.No).Items
		if len(items) != 2 || items[0].No != a || items[0].State != store.Consumed || items[0].Value != nil ||
			items[1].No != m {
			k.Errorf("the items are %+v", items)
		}
		k.equal("the inbox", len(k.inbox(r.No)), 1)
	}},
	{"AnUpdateMakesReady", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		o.turn(update(r, store.Update{Status: store.Suspended, WakeAt: k.now().Add(time.Hour)}), store.Committed)
		no := k.send(updateItem("r", "u"))
		if c := o.claim(10, "w"); len(c.Runs) != 1 || !c.Runs[0].New || c.Runs[0].Items[0].No != no {
			k.Errorf("claimed is %+v", c.Runs)
		}
	}},
}

package storetest

import "github.com/stet-run/stet/store"

var law14 = []testCase{
	{"WhatATurnSendsIsAnswered", func(k *kit) {
		o := k.owner(k.s, "n")
		sender, receiver := o.started("sender"), o.started("receiver")
		byNumber := message("", "by number")
		byNumber.RunID, byNumber.RunNo = "", receiver.No
		nobody := message("nobody", "m")
		got := o.batch(nil, &store.Turn{Run: sender.No, Shard: shardA,
			Sends:  []store.Command{{Start: k.startOf("child")}, byNumber, nobody},
			Update: &store.Update{Status: store.Succeeded, Sends: []store.Command{message("receiver", "last")}},
		}).Turns[0].Sends
		if len(got) != 4 {
			k.Fatalf("four sends got %d answers", len(got))
		}
		for i, want := range []store.Outcome{store.Applied, store.Applied, store.NotFound, store.Applied} {
			if got[i].Outcome != want {
				k.Errorf("send %d: outcome %d; want %d", i, got[i].Outcome, want)
			}
		}
		k.equal("the child in the answer", got[0].Run, k.get(got[0].Run.No))
		items := k.inbox(receiver.No)
		if len(items) != 2 || items[0].ID != "by number" || items[1].ID != "last" || items[0].No != got[1].Item ||
			items[1].No != got[3].Item {
			k.Errorf("the receiver has %+v", items)
		}
	}},
	{"ATurnThatIsStillReadySendsNoLastWords", func(k *kit) {
		o := k.owner(k.s, "n")
		sender, receiver := o.started("sender"), o.started("receiver")
		k.send(verb("sender", "cancel", store.ItemCancel))
		last := &store.Turn{Run: sender.No, Shard: shardA, Sends: []store.Command{message("receiver", "sent")},
			Update: &store.Update{Status: store.Succeeded, Sends: []store.Command{message("receiver", "last")}}}
		if got := o.batch(nil, last).Turns[0]; got.Verdict != store.StillReady || len(got.Sends) != 1 {
			k.Errorf("a turn that cannot end its run: %+v", got)
		}
		o.again()
		if items := k.inbox(receiver.No); len(items) != 1 || items[0].ID != "sent" {
			k.Errorf("the receiver has %+v; want what the turn sends and not what its end does", items)
		}
	}},
	{"WhatIsFencedOrRefusedSendsNothing", func(k *kit) {
		o := k.owner(k.s, "n")
		sender, receiver := o.started("sender"), o.started("receiver")
		update := &store.Update{Status: store.Queued, Sends: []store.Command{message("receiver", "last")}}
		k.unchanged("a refused turn", func() {
			o.turn(&store.Turn{Run: sender.No, Shard: shardA, Update: update,
				Sends: []store.Command{message("receiver", "sent")}}, store.Refused)
		})
		o.leases[0].Epoch--
		update.Status = store.Succeeded
		o.turn(&store.Turn{Run: sender.No, Shard: shardA, Update: update,
			Sends: []store.Command{message("receiver", "sent")}}, store.Fenced)
		if items := k.inbox(receiver.No); len(items) != 0 {
			k.Errorf("the receiver has %+v", items)
		}
	}},
	{"ATurnAdopts", func(k *kit) {
		o := k.owner(k.s, "n")
		sender, suspended := o.started("sender"), o.started("suspended")
		o.become(suspended, store.Suspended)
		c := message("suspended", "m")
		c.Claim = true
		turn := &store.Turn{Run: sender.No, Shard: shardA,
			Sends: []store.Command{c, {Claim: true, Start: k.startOf("a")}, {Start: k.startOf("b")}}}
		for _, which := range []string{"batch", "repeat"} {
			var got []store.Answer
			if which == "batch" {
				got = o.batch(nil, turn).Turns[0].Sends
			} else {
				got = o.again().Turns[0].Sends
			}
			if len(got) != 3 {
				k.Fatalf("%s: three sends got %d answers", which, len(got))
			}
			for i, want := range []bool{true, true, false} {
				if got[i].Outcome != store.Applied || got[i].Claimed != want || got[i].Run.Claimed != want {
					k.Errorf("%s, send %d: %+v; want it claimed %t", which, i, got[i], want)
				}
			}
		}
		if c := o.claim(10, "w"); len(c.Runs) != 2 || !c.Runs[0].New || c.Runs[1].New {
			k.Errorf("after the turn are claimed %+v; want the start that was not claimed with it, and the item again", c.Runs)
		}
	}},
	{"WhatIsSuspendedInTheBatchIsAdopted", func(k *kit) {
		o := k.owner(k.s, "n")
		parent, child := o.started("parent"), o.started("child")
		end := message("parent", "end")
		end.Claim = true
		got := o.batch(nil, update(parent, store.Update{Status: store.Suspended}),
			update(child, store.Update{Status: store.Succeeded, Sends: []store.Command{end}})).Turns
		if got[0].Verdict != store.Committed || len(got[1].Sends) != 1 || !got[1].Sends[0].Claimed ||
			!k.get(parent.No).Claimed {
			k.Errorf("a run that suspends before another's end wakes it: %+v", got)
		}
	}},
}

// watch is a command that requests a notice of a run's end.
func watch(run string) store.Command {
	return item(run, store.Item{Kind: store.ItemWatch, ID: "w", Origin: "o", Name: "name", Incarnation: 3, Loc: "loc",
		Value: []byte("to")})
}

var law15 = []testCase{
	{"AWatchThatNoRunGetsIsAnswered", func(k *kit) {
		o := k.owner(k.s, "n")
		sender := o.started("sender")
		turn := &store.Turn{Run: sender.No, Shard: shardA, Sends: []store.Command{watch("nobody"), message("nobody", "m")},
			Update: &store.Update{Status: store.Suspended}}
		o.turn(turn, store.Committed)
		o.again()
		want := []store.Item{{Kind: store.ItemEnd, State: store.New, ID: "w", Origin: "o", Name: "name", Incarnation: 3,
			Loc: "loc", Failed: true}}
		got := k.inbox(sender.No)
		for i := range got {
			got[i].No, got[i].Sent = 0, 0
		}
		k.equal("the sender's inbox", got, want)
		if c := o.claim(10, "w"); len(c.Runs) != 1 || !c.Runs[0].New {
			k.Errorf("the sender was suspended in that turn; claimed are %+v", c.Runs)
		}
	}},
	{"ARunThatHasEndedGetsNoAnswer", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Sends: []store.Command{watch("nobody")},
			Update: &store.Update{Status: store.Failed}}, store.Committed)
		if got := k.inbox(r.No, "w"); len(got) != 0 {
			k.Errorf("it has %+v", got)
		}
	}},
	{"AWatchThatARunGetsIsNot", func(k *kit) {
		o := k.owner(k.s, "n")
		sender, other := o.started("sender"), o.started("other")
		o.turn(&store.Turn{Run: sender.No, Shard: shardA, Sends: []store.Command{watch("other")}}, store.Committed)
		if got, there := k.inbox(sender.No), k.inbox(other.No); len(got) != 0 || len(there) != 1 ||
			there[0].Kind != store.ItemWatch {
			k.Errorf("the sender has %+v, the other %+v", got, there)
		}
	}},
	{"FromElsewhereItIsNotFound", func(k *kit) {
		if a := k.apply(watch("nobody")); a.Outcome != store.NotFound {
			k.Errorf("a watch of nobody: %+v", a)
		}
	}},
	{"ATerminalRunIsClaimedForAWatch", func(k *kit) {
		o := k.owner(k.s, "n")
		for _, status := range []store.Status{store.Succeeded, store.Failed, store.Cancelled, store.Stalled} {
			r := o.started(status.String())
			o.become(r, status)
			k.send(watch(r.ID))
			if c := o.claim(1); len(c.Runs) == 0 || !c.Runs[0].New || c.Runs[0].Run.No != r.No ||
				c.Runs[0].Run.Status != status {
				k.Errorf("a %s run with a watch, by a node without its code: claimed are %+v", status, c.Runs)
			}
		}
	}},
	{"AWatchDoesNotHoldBackAnEnd", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		k.send(watch("r"))
		o.turn(update(r, store.Update{Status: store.Suspended}), store.StillReady)
		o.become(r, store.Succeeded)
	}},
}

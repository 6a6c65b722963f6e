package judge

import (
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/sim/plan"
	"github.com/stet-run/stet/store"
)

// senders is a world in which r0 sends two messages and a request to r1.
func senders() plan.Plan {
	return plan.Plan{Runs: []plan.Run{
		{ID: "r0", Program: plan.Program{
			{Kind: plan.Send, Name: "se1", To: "r1", Key: "box"}, {Kind: plan.Send, Name: "se2", To: "r1", Key: "box"},
			{Kind: plan.Ask, Name: "as3", To: "r1", Key: "update"},
		}},
		{ID: "r1", Program: plan.Program{
			{Kind: plan.Receive, Name: "re1", To: "box"}, {Kind: plan.Receive, Name: "re2", To: "box"},
			{Kind: plan.Update, Name: "up3", To: "update"},
		}},
	}}
}

// TestWhatCodeSends is received where it was sent to, once, in its order, and has its own answer.
func TestWhatCodeSends(t *testing.T) {
	for _, c := range []struct{ r0, r1, said string }{
		{"sent sent answer to from r0 as3", "from r0 se1,from r0 se2,from r0 as3", ""},
		{"sent sent refused", "timed out,timed out,timed out", ""},
		{"sent sent pending", "from r0 se1,from r2/a se1,timed out", ""}, // of a run that is not in the plan
		{"sent sent answer to from r0 as4", "timed out,timed out,timed out", "that of another request"},
		{"sent sent refused", "from r0 se2,from r0 se1,timed out", "19: "},
		{"sent sent refused", "from r0 se1,from r0 se1,timed out", "17: "},
		{"sent sent refused", "from r0 as3,timed out,timed out", "no operation of r0 has sent there"},
		{"sent sent refused", "from r0 se7,timed out,timed out", "no operation of r0 has sent there"},
		{"sent sent refused", "timed out,timed out,from r0 se1", "no operation of r0 has sent there"},
	} {
		p := senders()
		o := newOracle(p, func() time.Duration { return 0 })
		answer := strings.TrimPrefix(c.r0, "sent sent ")
		o.dumps["r0"] = &plan.Dump{ID: "r0", Status: "succeeded", Lines: []string{
			plan.Line("se1", "sent"), plan.Line("se2", "sent"), plan.Line("as3", answer),
		}}
		got := &plan.Dump{ID: "r1", Status: "succeeded"}
		for i, value := range strings.Split(c.r1, ",") {
			op := p.Runs[1].Program[i]
			got.Lines = append(got.Lines, plan.Line(op.Name, value))
			got.Entries = append(got.Entries, plan.Entry{At: op.Name, Kind: "receive", Order: int64(i), Value: value})
		}
		o.dumps["r1"] = got
		for _, r := range p.Runs {
			o.ended(r, o.dumps[r.ID])
		}
		o.messages()
		said := strings.Join(o.violations, "; ")
		if (said == "") != (c.said == "") || !strings.Contains(said, c.said) {
			t.Errorf("%s and %s: expected %q, found %q", c.r0, c.r1, c.said, said)
		}
	}
}

// TestFirstMessages: a fork has that which its origin has received (seed 751). That of another run a run has only if an
// operator has sent a dead letter again (seed 1776).
func TestFirstMessages(t *testing.T) {
	again := senders()
	again.Acts = []plan.Act{{Kind: plan.Replay, Run: "r1"}}
	o := newOracle(again, nil)
	o.acts[0] = &plan.Note{}
	x := &expected{oracle: o, run: "r1", lines: []string{plan.Line("re1", "first of r0")}}
	if x.received(plan.Op{Kind: plan.Receive, Name: "re1", To: "box"}, "re1"); x.wrong != "" {
		t.Errorf("of a dead letter: %s", x.wrong)
	}
	for _, value := range []string{"first of r1", "first of r0"} {
		x := &expected{oracle: newOracle(senders(), nil), run: "r1-fork-2", lines: []string{plan.Line("re1", value)}}
		x.received(plan.Op{Kind: plan.Receive, Name: "re1", To: "box"}, "re1")
		if (x.wrong == "") != (value == "first of r1") {
			t.Errorf("%s: %q", value, x.wrong)
		}
	}
}

// TestWhatIsSentElsewhere is not what a run receives.
func TestWhatIsSentElsewhere(t *testing.T) {
	p := senders()
	p.Runs[0].Program[0].To = "r2"
	o := newOracle(p, func() time.Duration { return 0 })
	if wrong := o.fromCode("r1", p.Runs[1].Program[0], "from r0 se1"); !strings.Contains(wrong, "sent to r2") {
		t.Errorf("expected that it was sent to r2, found %q", wrong)
	}
}

// TestCodeThatWaitsInVain: what code has sent to another run of the scene was lost.
func TestCodeThatWaitsInVain(t *testing.T) {
	p := senders()
	p.Scene, p.Cast = plan.CodeToCode, []string{"r1", "r0"}
	for _, value := range []string{"from r0 se1", plan.TimedOut} {
		o := newOracle(p, func() time.Duration { return 0 })
		o.dumps["r0"] = &plan.Dump{ID: "r0", Status: "succeeded"}
		o.dumps["r1"] = &plan.Dump{ID: "r1", Status: "succeeded", Lines: []string{plan.Line("re1", value)}}
		o.scene()
		if said := len(o.violations) > 0; said != (value == plan.TimedOut) {
			t.Errorf("%q: %q", value, o.violations)
		}
	}
	// The receiver was not there yet when the messages came (seed 7669).
	o := newOracle(p, func() time.Duration { return 0 })
	m := newMonitor(o, func(string, ...any) {}, func(int) string { return "" })
	m.sent(5, []store.Command{{RunID: "r1", Item: &store.Item{}}}, []store.Answer{{Outcome: store.NotFound}})
	o.dumps["r0"] = &plan.Dump{ID: "r0", Status: "succeeded"}
	o.dumps["r1"] = &plan.Dump{ID: "r1", Status: "succeeded", Lines: []string{plan.Line("re1", plan.TimedOut)}}
	if o.scene(); len(o.violations) > 0 {
		t.Errorf("before its receiver was started: %q", o.violations)
	}
}

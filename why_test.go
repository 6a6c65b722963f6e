package stet

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/shape"
	"github.com/stet-run/stet/store"
)

// TestTheGuideListsEachWhy: the table of the guide has a row for each code, with what it means, whether it ends by
// itself and what the time is spent on, and no other row.
func TestTheGuideListsEachWhy(t *testing.T) {
	page, err := os.ReadFile("docs/guide/repair.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "| code | it means | it ends by itself | spent on |\n|---|---|---|---|\n")
	if !found {
		t.Fatal("the guide has no such table")
	}
	listed := map[string][]string{}
	for _, line := range strings.Split(table, "\n") {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		listed[cells[0]] = cells[1:]
	}
	_, stalls, _ := strings.Cut(string(page), "| cause | because | do |\n")
	stalls, _, _ = strings.Cut(stalls, "\n\n")
	causes := map[string]bool{}
	for _, line := range strings.Split(stalls, "\n") {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, cause := range strings.Split(name, ",") {
			causes[strings.TrimSpace(cause)] = true
		}
	}
	expected := []string{stalledBy + "CAUSE"}
	for i := range whyRows {
		r := &whyRows[i]
		w := Why{Code: r.code}
		if cause, ok := strings.CutPrefix(r.code, stalledBy); ok {
			if !causes[cause] || r.term != shape.Stalled || r.help == "" || r.verbs[0] != "resume" || r.goes {
				t.Errorf("%s: %+v, in the guide: %t", r.code, r, causes[cause])
			}
			continue
		}
		expected = append(expected, r.code)
		row := listed[r.code]
		if len(row) != 3 {
			t.Errorf("the guide has no row %q, or a bad one: %q", r.code, row)
			continue
		}
		ends := map[string]bool{"yes": true, "no": false}
		if goes, ok := ends[row[1]]; row[0] != w.Means() || !ok || goes != w.GoesOn() ||
			!slices.Contains(strings.Split(row[2], ", "), string(r.term)) {
			t.Errorf("%s: the guide says %q; the code says %+v", r.code, row, r)
		}
	}
	for code := range listed {
		if !slices.Contains(expected, code) {
			t.Errorf("the guide lists %q, which no run says", code)
		}
	}
}

// TestWhyByItsFacts: causes that are hard to make follow from the facts of a run and of the nodes.
func TestWhyByItsFacts(t *testing.T) {
	now := store.TimeOf(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	shard := store.Shard{Group: "default", Slot: 3}
	nodes := &NodesInfo{store.Description{Slots: 16, Now: now,
		Nodes: []store.Node{{ID: "f", Boot: "1", PID: 7, Host: "h", Workflows: []string{"w"}, Groups: []string{"default"},
			SeenAt: now - 1e6, TTL: 3e6}},
		Leases: []store.Lease{{Shard: shard, Node: "f", Boot: "1", Until: now - 1}}}}
	at := now.Time()
	for name, c := range map[string]struct {
		run   RunInfo
		codes string
		text  string
		since time.Time
	}{
		"lost": {RunInfo{ID: "r", Workflow: "w", Shard: shard, Status: store.Running}, "lost",
			"its process is silent (node f, process 7 on h)", at.Add(-time.Second)},
		"claim": {RunInfo{Status: store.Queued, Created: at}, "claim", "is to begin", at},
		"lost wake": {RunInfo{Status: store.Suspended, WaitsFor: []WaitInfo{
			{Location: "z", Kind: "sleep", Since: at, Until: at.Add(time.Hour)}}}, "lost-wake timer",
			"waits until a time, and no time is set at which it wakes", time.Time{}},
		"expiring": {RunInfo{Status: store.Succeeded, Marks: store.Expiring}, "expiring", "is being deleted", time.Time{}},
		"of a later engine": {RunInfo{Status: store.Suspended, WaitsFor: []WaitInfo{{Location: "x", Kind: "new"}}}, "wait",
			"waits for new x", time.Time{}},
		"stalled somehow": {RunInfo{Status: store.Stalled, Reason: "so"}, "stalled", "stalled", time.Time{}},
		"paused, and nobody has its code": {RunInfo{Status: store.Suspended, Marks: store.Paused,
			Unserved: &UnservedError{Workflow: "w"}, WaitsFor: []WaitInfo{{Location: "z", Kind: "sleep", Until: at}}},
			"paused code timer", "paused", time.Time{}},
		"group": {RunInfo{Status: store.Running, Unserved: &UnservedError{Workflow: "w", Group: "g"}}, "group",
			"no process with the workflow w works for the group g", time.Time{}},
		"build": {RunInfo{Status: store.Running, Unserved: &UnservedError{Workflow: "w", Group: "g", Build: "b"}},
			"build", (&UnservedError{Build: "b"}).Error(), time.Time{}},
		"failing, one of two": {RunInfo{Status: store.Suspended, Wake: at, WaitsFor: []WaitInfo{
			{Location: "m", Kind: "receive", Names: []string{"a", "b"}}, {Location: "s", Kind: "step", Failed: 3, Until: at}}},
			"retry message", "step s has failed 3 times", time.Time{}},
	} {
		list := whyOf(&c.run, nodes)
		var codes []string
		for i := range list {
			codes = append(codes, list[i].Code)
			if list[i].Means() == "" {
				t.Errorf("%s: nobody knows what %q means", name, list[i].Code)
			}
		}
		if got := strings.Join(codes, " "); got != c.codes || list[0].Text != c.text || !list[0].Since.Equal(c.since) {
			t.Errorf("%s: %s: %+v; want %s: %s since %s", name, got, list, c.codes, c.text, c.since)
		}
	}
}

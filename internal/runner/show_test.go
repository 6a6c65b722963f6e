package runner

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stet-run/stet/store"
)

// shownAll makes sure that all that the code has said is there.
func (d *driver) shownAll(t *testing.T, program int) {
	t.Helper()
	terminated := strings.HasPrefix(d.j.run.Reason, "terminated")
	upTo := int64(math.MaxInt64)
	if terminated {
		upTo = d.j.seq() // what a replay says behind it was never committed
	}
	if d.checkShown(upTo); len(d.j.broken) > 0 {
		t.Fatalf("program %d: %s\n%s", program, d.j.broken[0], strings.Join(d.j.streams["log"], "\n"))
	}
	if terminated {
		return
	}
	if last := d.shown[len(d.shown)-1].text; d.j.values["last"] != last {
		t.Fatalf("program %d: the value is %q, the last one set is %q", program, d.j.values["last"], last)
	}
}

// TestNothingIsShownTwiceOrLost cuts random programs that show all that they see
// at random points. The stream holds what the code has said, in that order, nothing
// is missing and nothing is there twice, also if the history is pruned; the value is
// the last one; each update that was received is answered once.
func TestNothingIsShownTwiceOrLost(t *testing.T) {
	seed := seedOf(t)
	items, answers, cuts := 0, 0, 0
	for i := range count(1000) {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		d := newDriver(t, generate(random, 4+random.IntN(25)), random)
		d.shows = true
		d.cruel = random.IntN(4) == 0
		often := 3 + random.IntN(40)
		over := d.run(func() bool { return random.IntN(often) == 0 })
		cuts += d.cuts
		d.shownAll(t, i)
		if problem := d.verify(over); problem != "" {
			t.Fatalf("program %d: %s", i, problem)
		}
		d.shownAll(t, i) // by a replay too
		items += len(d.j.streams["log"])
		for _, it := range d.j.items {
			if it.Kind != store.ItemUpdate {
				continue
			}
			text, given := d.answers[it.No]
			if given && it.Verdict == nil || it.Verdict != nil && string(it.Verdict) != "to "+string(it.Value) || given && text != string(it.Verdict) {
				t.Fatalf("program %d: the update %d is %+v, and the code has answered %q", i, it.No, it, d.answers[it.No])
			}
			if it.Verdict != nil {
				answers++
			}
		}
	}
	t.Logf("%d items and %d answers, %d cuts", items, answers, cuts)
	if items == 0 || answers == 0 || cuts == 0 {
		t.Error("something of this never happened")
	}
}

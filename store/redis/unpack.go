package redis

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stet-run/stet/store"
)

// reader reads what a script has answered. The first thing that is not as it should
// be is kept as the error.
type reader struct{ err error }

func (r *reader) bad(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", store.ErrDamaged, what)
	}
}

func (r *reader) list(m reply) []reply {
	if m.IsNil() {
		return nil
	}
	list, err := m.ToArray()
	if err != nil {
		r.bad("expected a list: " + err.Error())
	}
	return list
}

// tuple is a list of so many at least.
func (r *reader) tuple(m reply, n int) []reply {
	list := r.list(m)
	if len(list) < n {
		r.bad(fmt.Sprintf("expected %d values, found %d", n, len(list)))
		return make([]reply, n)
	}
	return list
}

// text is ” for nothing.
func (r *reader) text(m reply) string {
	if m.IsNil() || r.err != nil {
		return ""
	}
	s, err := m.ToString()
	if err != nil {
		r.bad("expected text: " + err.Error())
	}
	return s
}

func (r *reader) int(m reply) int64 {
	if m.IsInt64() {
		n, _ := m.ToInt64() // it is one
		return n
	}
	return r.number(r.text(m))
}

func (r *reader) number(s string) int64 {
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		r.bad(fmt.Sprintf("expected a number, found %.40q", s))
	}
	return n
}

func (r *reader) time(m reply) store.Time { return store.Time(r.int(m)) }

// rowWidth is the number of ROW in base.lua.
const rowWidth = 28

// run reads what snapshot has answered, with as many further fields: waits, input,
// output. Input and output that are left out keep their size.
func (r *reader) run(m reply, slots int) store.Run {
	f := r.tuple(m, rowWidth+1)
	if r.err != nil {
		return store.Run{}
	}
	no := r.int(f[len(f)-1])
	status := store.Status(r.int(f[3]))
	run := store.Run{
		No: store.RunNo(no), ID: r.text(f[0]), Shard: store.Shard{Group: r.text(f[1]), Slot: int(no % int64(slots))}, Workflow: r.text(f[2]),
		Status: status, Marks: store.Marks(r.int(f[4])), Claimed: r.text(f[5]) == "2",
		Incarnation: int(r.int(f[6])), Generation: int(r.int(f[7])), Build: r.text(f[10]),
		Parent: store.RunNo(r.int(f[11])), ParentLoc: r.text(f[12]), First: originOf(r.text(f[13])), Began: r.time(f[14]),
		Created: r.time(f[15]), Started: r.time(f[16]), Ended: r.time(f[17]), WakeAt: r.time(f[18]),
		Suspect: int(r.int(f[19])), Strikes: int(r.int(f[20])), Alone: r.text(f[21]) == "1",
		Headers: bytesOf(r.text(f[23])), Reason: r.text(f[24]), InputSize: int(r.int(f[25])), OutputSize: int(r.int(f[26])),
		Queue: bytesOf(r.text(f[27])),
	}
	copy(run.Seed[:], r.text(f[8]))
	copy(run.Random[:], r.text(f[9]))
	if tags := r.text(f[22]); tags != "" {
		for tag := range strings.SplitSeq(tags, "\n") {
			key, value, _ := strings.Cut(tag, "=")
			run.Tags = append(run.Tags, store.Pair{Key: key, Value: value})
		}
	}
	for i, field := range [...]*[]byte{&run.Waits, &run.Input, &run.Output} {
		if rowWidth+i < len(f)-1 {
			*field = bytesOf(r.text(f[rowWidth+i]))
		}
	}
	if !status.Valid() {
		r.bad(fmt.Sprintf("run number %d has the status %d", no, status))
	}
	return run
}

// item reads what item of inbox.lua has answered.
func (r *reader) item(m reply) store.Item {
	f := r.tuple(m, 14)
	return store.Item{
		Kind: store.ItemKind(r.int(f[0])), State: store.ItemState(r.int(f[1])), ID: r.text(f[2]), Sent: r.time(f[3]), Name: r.text(f[4]),
		Origin: r.text(f[5]), Incarnation: int(r.int(f[6])), Generation: int(r.int(f[7])), Loc: r.text(f[8]), Failed: r.text(f[9]) == "1",
		Value: bytesOf(r.text(f[10])), Headers: bytesOf(r.text(f[11])), Verdict: bytesOf(r.text(f[12])), No: store.ItemNo(r.int(f[13])),
	}
}

// answer reads what became of a command.
func (r *reader) answer(m reply, slots int) store.Answer {
	f := r.list(m)
	if len(f) == 0 {
		r.bad("expected an answer")
		return store.Answer{}
	}
	a := store.Answer{Outcome: store.Outcome(r.int(f[0]))}
	if len(f) >= 5 && a.Outcome != 0 {
		a.Item, a.Claimed, a.Run, a.Again = store.ItemNo(r.int(f[1])), r.text(f[2]) == "1", r.run(f[3], slots), r.text(f[4]) == "1"
	}
	return a
}

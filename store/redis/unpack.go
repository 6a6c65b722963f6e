package redis

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/stet-run/stet/store"
)

// reader reads the answers of scripts. It keeps the first violation of their form as the
// error.
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

// text returns "" for nothing.
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

// rowWidth is the number of fields of ROW in base.lua, mainWidth that of the parts of MAIN.
const rowWidth, mainWidth = 12, 19

// run reads the answer of snapshot, with up to three further fields: waits, input,
// output. Input and output that are left out keep their size. What cannot be read is damage
// of that run: the others are read as they are.
func (of *reader) run(m reply, slots int) (run store.Run) {
	f := of.tuple(m, rowWidth+1)
	no := of.int(f[len(f)-1])
	if of.err != nil {
		return store.Run{}
	}
	var r reader
	defer func() {
		if r.err != nil {
			run.Damage = fmt.Sprintf("its row cannot be read: %v", r.err)
		}
	}()
	run.No = store.RunNo(no)
	r.main(&run, r.text(f[0])) // first: a reader reads nothing more after a violation
	run.Parent, run.ParentLoc, run.First = store.RunNo(r.int(f[3])), r.text(f[4]), originOf(r.text(f[5]))
	run.Began, run.Headers, run.Reason = r.time(f[6]), bytesOf(r.text(f[8])), r.text(f[9])
	run.Queue, run.Expires = bytesOf(r.text(f[10])), r.time(f[11])
	run.Shard.Slot = int(no % int64(slots))
	copy(run.Seed[:], r.text(f[1]))
	copy(run.Random[:], r.text(f[2]))
	if tags := r.text(f[7]); tags != "" {
		for tag := range strings.SplitSeq(tags, "\n") {
			key, value, ok := strings.Cut(tag, "=")
			if !ok {
				r.bad(fmt.Sprintf("expected tags, found %.100q", tags))
				run.Tags = nil
				break
			}
			run.Tags = append(run.Tags, store.Pair{Key: key, Value: value})
		}
	}
	for i, field := range [...]*[]byte{&run.Waits, &run.Input, &run.Output} {
		if rowWidth+i < len(f)-1 {
			*field = bytesOf(r.text(f[rowWidth+i]))
		}
	}
	return run
}

// main reads the field m of a row, see MAIN in base.lua.
func (r *reader) main(run *store.Run, kept string) {
	f := strings.SplitN(kept, ";", mainWidth)
	if len(f) < mainWidth {
		r.bad(fmt.Sprintf("run number %d cannot be read", run.No))
		return
	}
	run.Status, run.Claimed, run.Marks, run.WakeAt = store.Status(r.number(f[0])), f[1] == "2",
		store.Marks(r.number(f[2])), store.Time(r.number(f[3]))
	run.Incarnation, run.Generation = int(r.number(f[4])), int(r.number(f[5]))
	run.Started, run.Ended = store.Time(r.number(f[6])), store.Time(r.number(f[7]))
	run.Suspect, run.Strikes, run.Alone = int(r.number(f[8])), int(r.number(f[9])), f[10] == "1"
	run.InputSize, run.OutputSize, run.Created = int(r.number(f[11])), int(r.number(f[12])), store.Time(r.number(f[13]))
	rest := f[18]
	for i, field := range [...]*string{&run.Shard.Group, &run.Workflow, &run.Build} {
		n := int(r.number(f[15+i]))
		if n < 0 || n > len(rest) {
			r.bad(fmt.Sprintf("run number %d cannot be read", run.No))
			return
		}
		*field, rest = rest[:n], rest[n:]
	}
	run.ID = rest
	if !run.Status.Valid() {
		r.bad(fmt.Sprintf("run number %d has the status %d", run.No, run.Status))
	}
}

// item reads the answer of item in inbox.lua.
func (r *reader) item(m reply) store.Item {
	f := r.tuple(m, 15)
	return store.Item{
		Kind: store.ItemKind(r.int(f[0])), State: store.ItemState(r.int(f[1])), ID: r.text(f[2]), Sent: r.time(f[3]),
		Name:   r.text(f[4]),
		Origin: r.text(f[5]), Incarnation: int(r.int(f[6])), Generation: int(r.int(f[7])), Loc: r.text(f[8]),
		Failed: r.text(f[9]) == "1",
		Value:  bytesOf(r.text(f[10])), Headers: bytesOf(r.text(f[11])), Verdict: bytesOf(r.text(f[12])),
		No: store.ItemNo(r.int(f[13])), Size: int(r.int(f[14])),
	}
}

// answer reads the answer to a command.
func (r *reader) answer(m reply, slots int, c *store.Command) store.Answer {
	f := r.list(m)
	if len(f) == 0 {
		r.bad("expected an answer")
		return store.Answer{}
	}
	a := store.Answer{Outcome: store.Outcome(r.int(f[0]))}
	if len(f) < 5 || a.Outcome == 0 {
		return a
	}
	a.Item, a.Claimed, a.Repeated = store.ItemNo(r.int(f[1])), r.text(f[2]) == "1", r.text(f[4]) == "1"
	if row := r.list(f[3]); len(row) == newWidth && c != nil && c.Start != nil {
		a.Run = r.started(row, c.Start)
	} else {
		a.Run = r.run(f[3], slots)
	}
	return a
}

// newWidth is the number of fields of a run that a start has made.
const newWidth = 7

// started reads a run that a start has made: number, status, condition, marks, wake time,
// when it was made, when it was started. The rest is as the start has it.
func (r *reader) started(f []reply, st *store.Start) store.Run {
	run := store.Run{
		No: store.RunNo(r.int(f[0])), ID: st.ID, Shard: st.Shard, Workflow: st.Workflow,
		Status: store.Status(r.int(f[1])), Claimed: r.text(f[2]) == "2", Marks: store.Marks(r.int(f[3])),
		WakeAt: r.time(f[4]), Created: r.time(f[5]), Started: r.time(f[6]),
		Seed: st.Seed, Parent: st.Parent, ParentLoc: st.ParentLoc, Headers: bytes.Clone(st.Headers),
		Input: bytes.Clone(st.Input), InputSize: len(st.Input),
	}
	if len(st.Tags) > 0 {
		run.Tags = store.MergeTags(nil, st.Tags)
	}
	if st.Fork != nil {
		run.Random = st.Fork.Random
	}
	if st.Queue != nil {
		run.Queue = bytes.Clone(st.Queue.Data)
	}
	if run.Claimed {
		run.Build = st.Build
	}
	if !run.Status.Valid() {
		r.bad(fmt.Sprintf("run number %d has the status %d", run.No, run.Status))
	}
	return run
}

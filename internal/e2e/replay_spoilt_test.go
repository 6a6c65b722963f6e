package e2e_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// object is a part of an exported run, as JSON.
type object = map[string]any

// spoiler changes exported runs into ones that no engine has written.
type spoiler struct {
	*rand.Rand
	files []object // exported runs
	kinds []string // of entries, and some that are none
}

// exportedRun is one of the exported runs of this package.
type exportedRun struct {
	name string
	data []byte
}

func exportedRuns(t testing.TB) (runs []exportedRun) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(compatFolder, "*", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, exportedRun{filepath.Base(file), data})
	}
	return runs
}

func newSpoiler(t testing.TB, runs []exportedRun, random *rand.Rand) *spoiler {
	t.Helper()
	s := &spoiler{Rand: random, kinds: []string{"0", "200"}}
	for _, run := range runs {
		s.files = append(s.files, parsed(t, run.data))
	}
	for k := store.Kind(1); !strings.HasPrefix(k.String(), "kind("); k++ {
		s.kinds = append(s.kinds, k.String())
	}
	return s
}

func parsed(t testing.TB, data []byte) (file object) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	return file
}

// entriesOf returns the entries of a file.
func entriesOf(file object) []any {
	entries, _ := file["entries"].([]any)
	return entries
}

// any returns one of the entries, or nil if there is none.
func (s *spoiler) any(file object) object {
	entries := entriesOf(file)
	if len(entries) == 0 {
		return nil
	}
	return entries[s.IntN(len(entries))].(object)
}

// spoil changes a file in some places, and returns what it has done.
func (s *spoiler) spoil(file object) (done []string) {
	for range 1 + s.IntN(3) {
		done = append(done, s.once(file))
	}
	return done
}

// once changes a file in one place.
func (s *spoiler) once(file object) string {
	e := s.any(file)
	if e == nil || s.IntN(8) == 0 {
		return s.run(file)
	}
	at := fmt.Sprint(e["location"])
	switch s.IntN(8) {
	case 0:
		i := slices.IndexFunc(entriesOf(file), func(x any) bool { return x.(object)["location"] == e["location"] })
		file["entries"] = slices.Delete(slices.Clone(entriesOf(file)), i, i+1)
		return "drop " + at
	case 1:
		double := maps.Clone(e)
		double["location"] = s.location(file, at)
		file["entries"] = append(entriesOf(file), double)
		return fmt.Sprintf("double %s as %s", at, double["location"])
	case 2:
		other := s.any(s.files[s.IntN(len(s.files))])
		if other == nil {
			return "nothing"
		}
		other = maps.Clone(other)
		other["location"] = s.location(file, at)
		file["entries"] = append(entriesOf(file), other)
		return fmt.Sprintf("add a %s as %s", other["kind"], other["location"])
	case 3:
		other := s.any(file)
		field := s.one("location", "kind", "state", "number", "born", "value", "at")
		was, is := e[field], other[field]
		set(e, field, is)
		set(other, field, was)
		return fmt.Sprintf("exchange %s of %s and %s", field, at, other["location"])
	case 4:
		kind := s.one(s.kinds...)
		e["kind"] = kind
		return fmt.Sprintf("kind %s at %s", kind, at)
	case 5:
		state := s.one("open", "done", "failed", "0", "9")
		e["state"] = state
		return fmt.Sprintf("state %s at %s", state, at)
	case 6:
		field := s.one("number", "number", "born", "attempts", "generation", "at", "wake", "started", "ended", "owes")
		value := s.fieldValue(file, field)
		set(e, field, value)
		return fmt.Sprintf("%s %v at %s", field, value, at)
	default:
		e["value"] = s.value(e["value"])
		if e["value"] == nil {
			delete(e, "value")
		}
		return fmt.Sprintf("value %v at %s", e["value"], at)
	}
}

// run changes what a file says of the run itself.
func (s *spoiler) run(file object) string {
	run := file["run"].(object)
	field := s.one("input", "output", "status", "incarnation", "generation", "workflow", "seed", "headers", "marks",
		"waits")
	switch field {
	case "input", "output", "headers", "waits":
		set(run, field, s.value(run[field]))
	case "status":
		run[field] = s.one("queued", "running", "suspended", "succeeded", "failed", "cancelled", "stalled")
	case "workflow":
		run[field] = s.files[s.IntN(len(s.files))]["run"].(object)["workflow"]
	case "seed":
		seed := make([]byte, 16)
		for i := range seed {
			seed[i] = byte(s.Uint32())
		}
		run[field] = base64.StdEncoding.EncodeToString(seed)
	default:
		run[field] = s.number(file)
	}
	return fmt.Sprintf("%s %v of the run", field, run[field])
}

// location returns one beside another, one from elsewhere, or the same.
func (s *spoiler) location(file object, at string) string {
	switch s.IntN(6) {
	case 0:
		return at
	case 1:
		if e := s.any(s.files[s.IntN(len(s.files))]); e != nil {
			return fmt.Sprint(e["location"])
		}
	case 2:
		return at + " undo"
	case 3:
		return at + "/inner"
	case 4:
		return at + "~2"
	}
	return "nowhere " + strconv.Itoa(s.IntN(9))
}

func (s *spoiler) fieldValue(file object, field string) any {
	switch field {
	case "owes":
		return s.IntN(2) == 0
	case "at", "wake", "started", "ended":
		return s.one("0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "2100-01-01T00:00:00Z", "1970-01-01T00:00:00Z")
	}
	return s.number(file)
}

// number returns one that may be another entry's, or is odd.
func (s *spoiler) number(file object) any {
	switch s.IntN(4) {
	case 0:
		return int64(0)
	case 1:
		return []int64{-1, math.MinInt64, math.MaxInt64, math.MaxInt32, 1 << 40}[s.IntN(5)]
	case 2:
		return int64(1 + s.IntN(5))
	}
	if e := s.any(file); e != nil && e["number"] != nil {
		return e["number"]
	}
	return int64(1)
}

// value returns a stored value that is not the one given; nil is none.
func (s *spoiler) value(was any) any {
	var data []byte
	if form, ok := was.(object); ok {
		if text, ok := form["base64"].(string); ok {
			data, _ = base64.StdEncoding.DecodeString(text)
		} else if is, err := json.Marshal(form["json"]); err == nil {
			data = append([]byte{1}, is...)
		}
	}
	switch n := len(data); s.IntN(6) {
	case 0:
		return nil
	case 1:
		data = []byte{}
	case 2:
		if n > 0 {
			data[s.IntN(n)] ^= 1 << s.IntN(8)
		}
	case 3:
		data = data[:n/2]
	case 4:
		other := s.any(s.files[s.IntN(len(s.files))])
		if other == nil {
			return nil
		}
		return other["value"]
	default:
		data = make([]byte, s.IntN(40))
		for i := range data {
			data[i] = byte(s.Uint32())
		}
	}
	return object{"base64": base64.StdEncoding.EncodeToString(data)}
}

func (s *spoiler) one(of ...string) string { return of[s.IntN(len(of))] }

// set gives a field a value; nil removes it.
func set(to object, field string, value any) {
	if value == nil {
		delete(to, field)
		return
	}
	to[field] = value
}

// maxReplayBytes bounds the memory that a replay of one of the files takes: it is the
// measure of its work.
const maxReplayBytes = 16 << 20

// TestReplayOfSpoiltExports replays exported runs in which entries are missing, doubled,
// exchanged, and of other kinds, numbers and values. The answer is that the code fits,
// that it does not, or that this is no exported run. It is the same each time, costs what a
// replay costs, and none is a panic.
func TestReplayOfSpoiltExports(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("STET_SEED"), 10, 64); err == nil {
		seed = s
	}
	// A panic of another goroutine ends the process, and with it what t.Log has kept.
	fmt.Fprintf(os.Stderr, "TestReplayOfSpoiltExports: repeat with STET_SEED=%d\n", seed)
	runs := exportedRuns(t)
	cfg := compatConfig(false)
	cfg.Store, cfg.Logger = memory.New(), discard
	e, err := stet.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]int{}
	for i := range soak.Cases(t, 1500) {
		s := newSpoiler(t, runs, rand.New(rand.NewPCG(seed, uint64(i))))
		run := runs[s.IntN(len(runs))]
		file := parsed(t, run.data)
		done := s.spoil(file)
		data, err := json.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		answer := e.Replay(t.Context(), bytes.NewReader(data))
		runtime.ReadMemStats(&after)
		kind, problem := judge(answer)
		if used := after.TotalAlloc - before.TotalAlloc; problem == "" && used > maxReplayBytes {
			problem = fmt.Sprintf("the replay takes %d bytes", used)
		}
		if again := e.Replay(t.Context(), bytes.NewReader(data)); problem == "" &&
			fmt.Sprint(again) != fmt.Sprint(answer) {
			problem = fmt.Sprintf("the second replay gives another answer: %v", again)
		}
		if problem != "" {
			t.Errorf("STET_SEED=%d, case %d, %s\n\t%s\n%s\nthe answer: %v\n%s",
				seed, i, run.name, strings.Join(done, "\n\t"), problem, answer, data)
			if answers["a fault"]++; answers["a fault"] > 3 {
				break
			}
		}
		answers[kind]++
	}
	t.Logf("STET_SEED=%d: %v", seed, answers)
	for _, kind := range []string{"fits", "mismatch", "damaged", "no exported run"} {
		if answers[kind] == 0 {
			t.Errorf("no case has the answer %q: the cases are too tame: %v", kind, answers)
		}
	}
}

// judge returns what an answer of Replay is, and what is wrong with it.
func judge(err error) (kind, problem string) {
	var mismatch *stet.ReplayError
	switch {
	case err == nil:
		return "fits", ""
	case errors.Is(err, stet.ErrInvalid):
		return "no exported run", ""
	case !errors.As(err, &mismatch):
		return "another error", "expected a *ReplayError"
	case strings.Contains(mismatch.Reason, "it is left running"):
		return "hangs", "the replay does not end"
	case strings.Contains(mismatch.Reason, "broken invariant"):
		return "a panic", "the interpreter has panicked"
	case strings.HasPrefix(mismatch.Reason, "damaged"):
		return "damaged", ""
	case mismatch.Cause == "":
		return "another end", ""
	}
	return string(mismatch.Cause), ""
}

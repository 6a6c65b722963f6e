package sqlstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stet-run/stet/store"
)

// script plays a database: each query and each delete finds its answer by a part of its
// text. It implements SweepRows.
type script struct {
	leases  map[store.Shard]bool
	claimed []int64            // meanwhile
	queries map[string][][]any // rows
	deletes map[string]int64   // rows that there are
	log     []string
	// together: DeleteRuns deletes runs, of three rows each
	together bool
}

func (s *script) Exec(text string, args ...any) (int64, error) {
	table, _, _ := strings.Cut(strings.TrimPrefix(text, "DELETE FROM "), " ")
	if !strings.HasPrefix(text, "DELETE") {
		s.log = append(s.log, strings.Join(strings.Fields(text)[:4], " "))
		return 1, nil
	}
	n := s.deletes[table]
	if limit, limited := args[len(args)-1].(int); limited {
		n = min(n, int64(limit))
	}
	s.deletes[table] -= n
	s.log = append(s.log, fmt.Sprint("delete ", table, " ", n))
	return n, nil
}

func (s *script) Row(text string, _ []any, dest ...any) (bool, error) {
	if strings.Contains(text, "FROM stet.entries") {
		return s.deletes["stet.entries"] > 0, nil
	}
	return true, nil
}

func (s *script) Each(text string, _ []any, fn func(scan func(dest ...any) error) error) error {
	for part, rows := range s.queries {
		if !strings.Contains(text, part) {
			continue
		}
		for _, row := range rows {
			err := fn(func(dest ...any) error {
				for i, d := range dest {
					switch p := d.(type) {
					case *int64:
						*p = int64(row[i].(int))
					case *string:
						*p = row[i].(string)
					case *[]byte:
						*p = []byte(row[i].(string))
					case *bool:
						*p = row[i].(bool)
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		s.queries[part] = nil // they are looked at once
	}
	return nil
}

func (s *script) Lock(run int64) (bool, error) { return !slices.Contains(s.claimed, run), nil }

func (s *script) Current([]store.Lease) (map[store.Shard]bool, error) { return s.leases, nil }

func (s *script) BeforeDelete() error {
	s.log = append(s.log, "before")
	return nil
}

// Each run that is deleted together with others has three rows.
func (s *script) DeleteRuns(runs []int64, limit int) (gone []int64, rows int64, full bool, err error) {
	for _, no := range runs {
		if s.together && !slices.Contains(s.claimed, no) {
			if full = full || rows+3 > int64(limit); !full {
				gone, rows = append(gone, no), rows+3
			}
		}
	}
	return gone, rows, full, nil
}

func (s *script) DeleteItems(nos []int64) (int64, error) {
	s.log = append(s.log, fmt.Sprint("delete items ", nos))
	return int64(len(nos)), nil
}

// The queries of the three stages, by a part of their text.
const (
	endedQuery    = "stet.runs_ended"
	formerQuery   = "stet.runs_former"
	consumedQuery = "LEFT JOIN stet.runs"
)

var (
	ours   = store.Shard{Group: "ours"}
	rule   = []store.Retention{{Workflow: "w", Status: store.Succeeded}}
	leases = []store.Lease{{Shard: ours}, {Shard: store.Shard{Group: "lost"}}}
)

func act(t *testing.T, s *script, req store.SweepRequest) store.Swept {
	t.Helper()
	s.leases = map[store.Shard]bool{ours: true}
	if s.deletes == nil {
		s.deletes = map[string]int64{}
	}
	req.Leases, req.Rules = leases, rule
	w := Sweep{Rows: s, Now: now, EntryTables: []string{"blobs"}, RunTables: []string{"payloads"}}
	if err := w.Act(&req); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(w.Result.Fenced, []store.Shard{{Group: "lost"}}) {
		t.Errorf("expected the lost lease to be reported, got %v", w.Result.Fenced)
	}
	return w.Result
}

func TestASweepDeletesARunWithAllItsRows(t *testing.T) {
	s := &script{
		queries: map[string][][]any{endedQuery: {
			{7, 10, "ours", 0, true}, {8, 11, "ours", 0, false}, {9, 12, "other", 0, true},
		}},
		deletes: map[string]int64{"stet.entries": 3, "stet.blobs": 1, "stet.inbox": 2, "stet.runs": 1, "stet.payloads": 1},
	}
	got := act(t, s, store.SweepRequest{})
	want := store.Swept{Rows: 6, Runs: 1, Fenced: got.Fenced, Done: true, Next: store.SweepPlace{Stage: 2, Rule: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wantLog := []string{
		"delete stet.blobs 1", "before", "delete stet.entries 3", "delete stet.inbox 2", "delete stet.streams 0",
		"delete stet.feeds 0", "delete stet.audit 0", "delete stet.payloads 1", "delete stet.runs 1",
	}
	if diff := cmp.Diff(wantLog, s.log); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestASweepDeletesRunsTogether: the one that was claimed meanwhile stays.
func TestASweepDeletesRunsTogether(t *testing.T) {
	s := &script{together: true, claimed: []int64{8}, queries: map[string][][]any{endedQuery: {
		{7, 10, "ours", 0, true}, {8, 11, "ours", 0, true}, {9, 12, "ours", 0, true}, {10, 12, "other", 0, true}}}}
	if got := act(t, s, store.SweepRequest{}); got.Rows != 6 || got.Runs != 2 || !got.Done {
		t.Errorf("got %+v", got)
	}
	if want := []string{"before"}; !slices.Equal(s.log, want) {
		t.Errorf("expected %q, got %q", want, s.log)
	}
}

// TestAFullActEnds: what does not go together with the others is left whole for the next act, which begins with it.
func TestAFullActEnds(t *testing.T) {
	runs := [][]any{{7, 10, "ours", 0, true}, {8, 11, "ours", 0, true}, {9, 12, "ours", 0, true}}
	s := &script{together: true, queries: map[string][][]any{endedQuery: runs}}
	got := act(t, s, store.SweepRequest{Most: 7})
	if got.Rows != 6 || got.Runs != 2 || got.Done || got.Next != (store.SweepPlace{Ended: 11, No: 8}) {
		t.Errorf("got %+v", got)
	}
	if want := []string{"before"}; !slices.Equal(s.log, want) {
		t.Errorf("expected %q, got %q", want, s.log)
	}
}

// TestASweepLeavesWhatIsClaimedMeanwhile: a run may be claimed between the query and the deletion.
func TestASweepLeavesWhatIsClaimedMeanwhile(t *testing.T) {
	s := &script{queries: map[string][][]any{endedQuery: {{7, 10, "ours", 0, true}}}, claimed: []int64{7},
		deletes: map[string]int64{"stet.runs": 1}}
	if got := act(t, s, store.SweepRequest{}); got.Rows != 0 || !got.Done {
		t.Errorf("got %+v", got)
	}
}

func TestASweepStopsWithinALargeRun(t *testing.T) {
	s := &script{
		queries: map[string][][]any{endedQuery: {{7, 10, "ours", 0, true}}},
		deletes: map[string]int64{"stet.entries": store.SweepRows + 1},
	}
	got := act(t, s, store.SweepRequest{})
	if got.Rows != store.SweepRows || got.Runs != 0 || got.Done || got.Next != (store.SweepPlace{}) {
		t.Errorf("expected an act that has to go on, got %+v", got)
	}
	if last := s.log[len(s.log)-1]; last != "UPDATE stet.runs SET marks=marks|{expiring}" {
		t.Errorf("expected the run to be marked, got %q", last)
	}
}

func TestASweepDeletesFormerIncarnations(t *testing.T) {
	s := &script{
		queries: map[string][][]any{formerQuery: {{7, 2, "ours", 0}, {8, 1, "other", 0}}},
		deletes: map[string]int64{"stet.entries": 3},
	}
	got := act(t, s, store.SweepRequest{From: store.SweepPlace{Stage: 1, Rule: 1}})
	if got.Rows != 3 || !got.Done {
		t.Errorf("got %+v", got)
	}
	want := []string{"delete stet.blobs 0", "before", "delete stet.entries 3", "UPDATE stet.runs SET swept=$1"}
	if !slices.Equal(s.log, want) {
		t.Errorf("expected %q, got %q", want, s.log)
	}
}

func TestASweepDeletesItemsThatAreDoneWith(t *testing.T) {
	const kind = int(store.ItemMessage)
	sent := func(before store.Delay) int { return int(now) - int(before) }
	old, young := sent(store.DedupWindow), sent(store.RepeatWindow)
	s := &script{queries: map[string][][]any{consumedQuery: {
		{1, old, kind, "key", "", true, false, "ours", 0},     // done with
		{2, old, kind, "key", "", false, false, "ours", 0},    // not consumed
		{3, old, kind, "key", "", true, false, "other", 0},    // of a run of another shard
		{4, old, kind, "key", "", true, true, "", 0},          // its run is gone
		{5, young, kind, "key", "", true, false, "ours", 0},   // its sender may repeat it
		{6, young, kind, "id", "id", true, false, "ours", 0},  // without a key only its act is repeated
		{7, int(now), kind, "x", "x", true, false, "ours", 0}, // and that may still come
	}}}
	got := act(t, s, store.SweepRequest{Items: true, From: store.SweepPlace{Stage: 2, Rule: 1}})
	if got.Rows != 3 || !got.Done || got.Next.No != 7 {
		t.Errorf("got %+v", got)
	}
	if want := []string{"before", "delete items [1 4 6]"}; !slices.Equal(s.log, want) {
		t.Errorf("expected %q, got %q", want, s.log)
	}
}

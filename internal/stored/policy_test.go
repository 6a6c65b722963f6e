package stored_test

import (
	"testing"
	"time"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// The stored form of a policy is pinned, and headers come back as they were.
func TestPolicy(t *testing.T) {
	p := stored.Policy{MaxRun: time.Hour, MaxSuspended: -1, OnFailure: 2, OnBug: 1,
		KeepSucceeded: time.Minute, KeepFailed: -1, KeepCancelled: stored.KeepAtOnce}
	for given, want := range map[string]string{
		"": `{"stet-policy":"{\"max_run_ns\":3600000000000,\"max_suspended_ns\":-1,\"on_failure\":2,\"on_bug\":1,` +
			`\"keep_succeeded_ns\":60000000000,\"keep_failed_ns\":-1,\"keep_cancelled_ns\":-2}"}`,
		`{"a":"b"}`: `{"a":"b","stet-policy":` +
			`"{\"max_run_ns\":3600000000000,\"max_suspended_ns\":-1,\"on_failure\":2,\"on_bug\":1,` +
			`\"keep_succeeded_ns\":60000000000,\"keep_failed_ns\":-1,\"keep_cancelled_ns\":-2}"}`,
	} {
		data, err := p.Put([]byte(given))
		if err != nil || string(data) != want {
			t.Errorf("got %s, %v; want %s", data, err, want)
		}
		if rest, again := stored.SplitPolicy(data); string(rest) != given || again != p {
			t.Errorf("got %s and %+v of %s", rest, again, data)
		}
	}
	for _, other := range []string{"", `{"a":"stet-policy"}`, `no JSON "stet-policy"`, `{"stet-policy":"no JSON"}`} {
		if rest, none := stored.SplitPolicy([]byte(other)); string(rest) != other || none != (stored.Policy{}) {
			t.Errorf("got %s and %+v of %s", rest, none, other)
		}
	}
	data, _ := p.Put(nil)
	for status, want := range map[store.Status]store.Delay{store.Succeeded: 60_000_000, store.Failed: store.KeepForever,
		store.Cancelled: 1, store.Stalled: 0} {
		if got := stored.Keep(data, status); got != want {
			t.Errorf("a run that is %s is kept for %d; want %d", status, got, want)
		}
	}
	most, wait, stall, fail := 2*time.Hour, time.Minute, false, true
	if p.Over(&most, &wait, &stall, &fail); most != time.Hour || wait != 0 || !stall || fail {
		t.Errorf("got %s, %s, %v, %v", most, wait, stall, fail)
	}
	most, stall = 2*time.Hour, true
	if (stored.Policy{}).Over(&most, &wait, &stall, &fail); most != 2*time.Hour || !stall {
		t.Errorf("no policy makes it %s, %v", most, stall)
	}
}

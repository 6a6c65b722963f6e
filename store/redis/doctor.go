package redis

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/stet-run/stet/store"
)

// Finding is the result of one check.
type Finding struct {
	What   string
	OK     bool
	Detail string
}

// checks are those of doctor.lua, in its order.
var checks = []string{
	"indexes name runs by ID, status and workflow",
	"indexes name runs by condition",
	"claimed runs have an owner",
	"runs with unexamined items are known",
	"live runs can be reached",
	"ended runs have an end",
	"inboxes have their items",
}

// doctorWindow is how many runs one script checks.
const doctorWindow = 200

// Doctor looks for broken invariants, in windows of runs. It changes nothing, and is not
// disturbed by acts that happen meanwhile. An error says that the store could not be read.
func (s *Store) Doctor(ctx context.Context) ([]Finding, error) {
	k := &s.known
	findings := []Finding{{"the settings of the server keep what was acknowledged", k.aof && k.fsync == "always" &&
		!k.replicas, k.durable()}}
	bad := make([]int64, len(checks))
	for part := range s.parts {
		for after := "0"; after != ""; {
			m, err := s.one(ctx, doctorScript, "doctor", part, after, strconv.Itoa(doctorWindow))
			if err != nil {
				return nil, err
			}
			var r reader
			f := r.tuple(m, len(checks)+1)
			for i := range checks {
				bad[i] += r.int(f[i])
			}
			if after = r.text(f[len(checks)]); r.err != nil {
				return nil, r.err
			}
		}
	}
	for i, what := range checks {
		findings = append(findings, Finding{what, bad[i] == 0, fmt.Sprintf("%d exceptions", bad[i])})
	}
	return findings, nil
}

// SchemaStatus says which schema a store has and which this binary brings.
type SchemaStatus struct {
	Store  int // 0: there is no store
	Latest int
}

// ReadSchema returns the schema of the store that Open would open, and changes
// nothing. Errors are those of Open.
func ReadSchema(ctx context.Context, url string, opts ...Option) (SchemaStatus, error) {
	status := SchemaStatus{Latest: thisSchema}
	cfg, option, err := configure(url, opts)
	if err != nil {
		return status, err
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return status, fmt.Errorf("open %s: %w: %w", redact(url), store.ErrUnavailable, err)
	}
	defer client.Close()
	s := &Store{cfg: cfg}
	text, err := client.Do(ctx, client.B().Hget().Key(s.tag(0)+"M").Field("schema").Build()).ToString()
	switch {
	case rueidis.IsRedisNil(err):
		return status, nil
	case err != nil:
		return status, classify(ctx, "read the schema", err, false)
	}
	if status.Store, err = strconv.Atoi(text); err != nil {
		return status, fmt.Errorf("read the schema: %w: found %.40q", store.ErrDamaged, text)
	}
	return status, nil
}

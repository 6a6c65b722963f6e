package postgres_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// TestDamagedTags: tags that cannot be read are damage of their run. Claims, lists, loads and acts
// on all others go on.
func TestDamagedTags(t *testing.T) {
	t.Parallel()
	s, dsn, schema := fresh(t, postgres.Patient())
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	n := takeAll(t, s, "n")
	for i, tags := range []string{`["k"]`, `{"k`, "\xff"} {
		whole, damaged := fmt.Sprint("whole", i), fmt.Sprint("damaged", i)
		starts := []store.Command{start(whole), start(damaged)}
		starts[1].Start.Tags = []store.Pair{{Key: "k", Value: "v"}}
		result, err := s.Commit(t.Context(), n.batch(nil, starts...))
		if err != nil {
			t.Fatal(err)
		}
		no := result.Commands[1].Run.No
		tamper := "UPDATE " + schema + ".runs SET tags=$1 WHERE run_no=$2"
		if _, err := conn.Exec(t.Context(), tamper, []byte(tags), no); err != nil {
			t.Fatal(err)
		}
		check := func(what string, damage map[string]string) {
			t.Helper()
			if reason, ok := damage[whole]; !ok || reason != "" {
				t.Errorf("%s: of the whole run: %v, %q", what, ok, reason)
			}
			if reason := damage[damaged]; reason == "" {
				t.Errorf("%s: the run with tags %q is not damaged", what, tags)
			}
		}
		found := map[string]string{}
		claims, err := s.Claim(t.Context(), store.ClaimRequest{Node: n.node.ID, Boot: n.node.Boot, Leases: n.leases,
			Workflows: []string{"w"}, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for i := range claims.Runs {
			found[claims.Runs[i].Run.ID] = claims.Runs[i].Run.Damage
		}
		check("claimed", found)
		clear(found)
		snaps, _, err := s.Load(t.Context(), []store.RunNo{result.Commands[0].Run.No, no})
		if err != nil {
			t.Fatal(err)
		}
		for i := range snaps {
			found[snaps[i].Run.ID] = snaps[i].Run.Damage
		}
		check("loaded", found)
		clear(found)
		page, err := s.List(t.Context(), store.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Runs {
			found[page.Runs[i].ID] = page.Runs[i].Damage
		}
		check("listed", found)
		clear(found)
		answers, _, err := s.Apply(t.Context(), []store.Command{message(whole, "m"), message(damaged, "m")})
		if err != nil {
			t.Fatal(err)
		}
		for i := range answers {
			found[answers[i].Run.ID] = answers[i].Run.Damage
		}
		check("applied", found)
		if _, err := s.Doctor(t.Context()); err != nil {
			t.Errorf("Doctor: %v", err)
		}
	}
}

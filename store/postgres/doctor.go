package postgres

import (
	"context"
	"fmt"
	"time"
)

// Finding is the result of one check.
type Finding struct {
	What   string
	OK     bool
	Detail string
}

// check is a query for the number of rows that break a rule.
type check struct{ what, query string }

var checks = []check{
	{"entries belong to a run", `SELECT count(*) FROM stet.entries e
		WHERE NOT EXISTS (SELECT 1 FROM stet.runs r WHERE r.run_no=e.run_no)`},
	{"new runs and items get new numbers", "SELECT count(*) FROM (" + behindText + ") behind"},
	{"values have their length", `SELECT count(*) FROM stet.entries e WHERE e.size<>coalesce(length(e.val), 0)`},
	{"completion numbers are unique in a run", `SELECT count(*) FROM
		(SELECT 1 FROM stet.entries WHERE seq>0 GROUP BY run_no, incarnation, seq HAVING count(*)>1) twice`},
	{"only ended runs expire", `SELECT count(*) FROM stet.runs WHERE expires IS NOT NULL AND status NOT IN {ended}`},
	{"ended runs have an end", `SELECT count(*) FROM stet.runs WHERE (status IN {ended}) <> (ended>0)`},
	{"claimed runs have an owner", `SELECT count(*) FROM stet.runs r WHERE ready={claimed} AND NOT EXISTS
		(SELECT 1 FROM stet.leases l WHERE l.grp=r.grp AND l.slot=r.slot AND l.node<>'')`},
	{"consumed items have no value, pending ones no verdict", `SELECT count(*) FROM stet.inbox
		WHERE state NOT IN ({new},{seen},{consumed},{dead}) OR state={consumed} AND val IS NOT NULL
			OR state<{consumed} AND verdict IS NOT NULL`},
	{"no letter that was examined is pending in a run that has ended", `SELECT count(*)
		FROM stet.inbox i JOIN stet.runs r ON r.run_no=i.run_no
		WHERE i.state={seen} AND r.status IN {ended} AND i.kind NOT IN {answered}`},
	{"live runs can be reached", `SELECT count(*) FROM stet.runs r
		WHERE status IN ({queued},{running}) AND ready={idle} AND wake_at IS NULL AND NOT EXISTS
			(SELECT 1 FROM stet.inbox i WHERE i.run_no=r.run_no AND i.state={new})`},
	{"only runs that rest have a wake time", `SELECT count(*) FROM stet.runs
		WHERE wake_at IS NOT NULL AND ready<>{idle} AND (ready<>{claimed} OR status NOT IN ({queued},{suspended}))`},
	{"acts of operators belong to a run", `SELECT count(*) FROM stet.audit a
		WHERE NOT EXISTS (SELECT 1 FROM stet.runs r WHERE r.run_no=a.run_no)`},
	{"tags are those of the runs", `WITH k AS (SELECT r.run_no, a.v->>(2*n)::int AS key, a.v->>(2*n+1)::int AS value
			FROM stet.runs r, LATERAL (SELECT convert_from(r.tags, 'UTF8')::jsonb AS v) a,
				generate_series(0, jsonb_array_length(a.v)/2-1) n WHERE r.tags IS NOT NULL)
		SELECT (SELECT count(*) FROM stet.tags t WHERE NOT EXISTS (
				SELECT 1 FROM k WHERE k.run_no=t.tagged AND k.key=t.key AND k.value=t.value))
			+ (SELECT count(*) FROM k WHERE NOT EXISTS (
				SELECT 1 FROM stet.tags t WHERE k.run_no=t.tagged AND k.key=t.key AND k.value=t.value))`},
	{"values and streams belong to a run", `SELECT count(*) FROM stet.feeds f
		WHERE NOT EXISTS (SELECT 1 FROM stet.runs r WHERE r.run_no=f.run_no)`},
	{"streams have no gap", `SELECT (SELECT count(*) FROM stet.feeds f WHERE stream AND f.last-f.dropped<>
		(SELECT count(*) FROM stet.streams s
			WHERE s.run_no=f.run_no AND s.name=f.name AND s.pos>f.dropped AND s.pos<=f.last))
		+ (SELECT count(*) FROM stet.streams s WHERE NOT EXISTS (
			SELECT 1 FROM stet.feeds f
			WHERE f.run_no=s.run_no AND f.stream AND f.name=s.name AND s.pos>f.dropped AND s.pos<=f.last))`},
}

// snapshotLimit is how long somebody's transaction may be open before Doctor names it. Claims
// pass by what has become of runs and items since then, because the server must keep it.
const snapshotLimit = 5 * time.Minute

// openForLong names the transaction that keeps dead rows from being removed for the longest
// time, if that is long. Of replication slots and standbys the server does not say how long.
func openForLong(t *tx) (Finding, error) {
	f := Finding{What: "no transaction is open for so long that the store becomes slow", Detail: "none"}
	var sees bool
	var seconds int64
	var who string
	_, err := t.row(`SELECT pg_has_role('pg_read_all_stats', 'USAGE'), coalesce(o.seconds::bigint, 0), coalesce(o.who, '')
		FROM (SELECT 1) one LEFT JOIN LATERAL (
			SELECT o.* FROM (
				SELECT extract(epoch FROM clock_timestamp()-xact_start) AS seconds, format(
					'process %s of %s (role %s, application "%s")', pid, coalesce(host(client_addr), 'the same machine'), usename,
					application_name) AS who
					FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid<>pg_backend_pid()
				UNION ALL SELECT extract(epoch FROM clock_timestamp()-prepared), format('the prepared transaction "%s"', gid)
					FROM pg_prepared_xacts) o
			WHERE o.seconds>$1::float8 ORDER BY o.seconds DESC LIMIT 1) o ON true`,
		[]any{t.s.cfg.snapshot.Seconds()}, &sees, &seconds, &who)
	switch f.OK = who == ""; {
	case err != nil:
		return f, err
	case !f.OK:
		f.Detail = fmt.Sprintf("%s has had a transaction open for %v: end it; long reports and dumps are better read from a "+
			"standby without hot_standby_feedback", who, time.Duration(seconds)*time.Second)
	case !sees:
		f.Detail = "none of this role; with the rights of pg_read_all_stats those of others would be seen"
	}
	return f, nil
}

// Doctor looks for broken invariants. It changes nothing, and reads all of the store in one
// transaction. What damage keeps from being checked is a finding too. An error says that the store could not be read.
func (s *Store) Doctor(ctx context.Context) ([]Finding, error) {
	findings := []Finding{{"the settings of the server keep what was acknowledged", !s.cfg.lossy, s.durable}}
	err := s.read(ctx, "doctor", func(t *tx) error {
		if _, err := t.exec(freeText); err != nil {
			return err
		}
		for _, check := range checks {
			if _, err := t.exec("SAVEPOINT a_check"); err != nil {
				return err
			}
			var bad int64
			_, err := t.row(strided(check.query, s.seat), nil, &bad)
			finding := Finding{check.what, err == nil && bad == 0, fmt.Sprintf("%d exceptions", bad)}
			if err != nil {
				if _, gone := t.exec("ROLLBACK TO SAVEPOINT a_check"); gone != nil {
					return fmt.Errorf("%s: %w", check.what, err)
				}
				finding.Detail = fmt.Sprintf("cannot be checked: %v", err)
			}
			findings = append(findings, finding)
		}
		finding, err := openForLong(t)
		findings = append(findings, finding)
		return err
	})
	return findings, err
}

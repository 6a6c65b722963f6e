package sqlite

import (
	"context"
	"fmt"
)

// Finding is the result of one check of Doctor.
type Finding struct {
	What   string
	OK     bool
	Detail string
}

// check is a question whose answer is a number of bad rows.
type check struct{ what, query string }

var checks = []check{
	{"entries belong to a run", `SELECT count(*) FROM stet_entries e
		WHERE NOT EXISTS (SELECT 1 FROM stet_runs r WHERE r.run_no=e.run_no)`},
	{"items belong to a run", `SELECT count(*) FROM stet_inbox i
		WHERE NOT EXISTS (SELECT 1 FROM stet_runs r WHERE r.run_no=i.run_no)`},
	{"large values belong to an entry", `SELECT count(*) FROM stet_blobs b WHERE NOT EXISTS
		(SELECT 1 FROM stet_entries e WHERE e.run_no=b.run_no AND e.incarnation=b.incarnation AND e.loc=b.loc
		AND e.size=length(b.val))`},
	{"large values of entries are there", `SELECT count(*) FROM stet_entries e WHERE e.size>4096 AND NOT EXISTS
		(SELECT 1 FROM stet_blobs b WHERE b.run_no=e.run_no AND b.incarnation=e.incarnation AND b.loc=e.loc)`},
	{"inputs and outputs are there", `SELECT count(*) FROM stet_runs r
		WHERE (r.input_size>512 AND NOT EXISTS (SELECT 1 FROM stet_payloads p
		WHERE p.run_no=r.run_no AND p.what=1 AND length(p.val)=r.input_size))
		OR (r.output_size>512 AND NOT EXISTS (SELECT 1 FROM stet_payloads p
		WHERE p.run_no=r.run_no AND p.what=2 AND length(p.val)=r.output_size))`},
	{"completion numbers are unique in a run", `SELECT count(*) FROM
		(SELECT 1 FROM stet_entries WHERE seq>0 GROUP BY run_no, incarnation, seq HAVING count(*)>1)`},
	{"only ended runs expire", `SELECT count(*) FROM stet_runs WHERE expires IS NOT NULL AND status NOT IN {ended}`},
	{"ended runs have an end", `SELECT count(*) FROM stet_runs WHERE (status IN {ended}) <> (ended>0)`},
	{"claimed runs have an owner", `SELECT count(*) FROM stet_runs r WHERE ready={claimed} AND NOT EXISTS
		(SELECT 1 FROM stet_leases l WHERE l.grp=r.grp AND l.slot=r.slot AND l.node<>'')`},
	{"no letter is pending in a run that has ended", `SELECT count(*) FROM stet_inbox i JOIN stet_runs r ON r.run_no=i.run_no
		WHERE i.state<{consumed} AND r.status IN {ended} AND i.kind NOT IN {answered}`},
	{"consumed items have no value, pending ones no verdict", `SELECT count(*) FROM stet_inbox
		WHERE state NOT IN ({new},{seen},{consumed},{dead}) OR state={consumed} AND val IS NOT NULL OR state<{consumed}
		AND verdict IS NOT NULL`},
	{"only runs in a line are admitted", `SELECT count(*) FROM stet_runs WHERE marks & {admitted} <> 0
		AND (q IS NULL OR marks & {held} <> 0 OR status IN {ended})`},
	{"live runs can be reached", `SELECT count(*) FROM stet_runs r
		WHERE status IN ({queued},{running}) AND ready={idle} AND wake_at IS NULL AND NOT EXISTS
		(SELECT 1 FROM stet_inbox i WHERE i.run_no=r.run_no AND i.state={new} AND i.state<{consumed})`},
	{"only runs that rest have a wake time", `SELECT count(*) FROM stet_runs
		WHERE wake_at IS NOT NULL AND ready<>{idle} AND (ready<>{claimed} OR status NOT IN ({queued},{suspended}))`},
	{"acts of operators belong to a run", `SELECT count(*) FROM stet_audit a
		WHERE NOT EXISTS (SELECT 1 FROM stet_runs r WHERE r.run_no=a.run_no)`},
	{"tags are those of the runs", `SELECT (SELECT count(*) FROM stet_tags t WHERE NOT EXISTS
		(SELECT 1 FROM stet_runs r, json_each(r.tags) k WHERE r.run_no=t.tagged AND k.key%2=0 AND k.value=t.key
		AND json_extract(r.tags, '$['||(k.key+1)||']')=t.value))
		+ (SELECT count(*) FROM stet_runs r, json_each(r.tags) k WHERE k.key%2=0 AND NOT EXISTS (SELECT 1 FROM stet_tags t
		WHERE t.key=k.value AND t.value=json_extract(r.tags, '$['||(k.key+1)||']') AND t.tagged=r.run_no))`},
	{"values and streams belong to a run", `SELECT count(*) FROM stet_feeds f
		WHERE NOT EXISTS (SELECT 1 FROM stet_runs r WHERE r.run_no=f.run_no)`},
	{"streams have no gap", `SELECT (SELECT count(*) FROM stet_feeds f WHERE stream=1 AND f.last-f.dropped<>
		(SELECT count(*) FROM stet_streams s WHERE s.run_no=f.run_no AND s.name=f.name AND s.pos>f.dropped AND s.pos<=f.last))
		+ (SELECT count(*) FROM stet_streams s WHERE NOT EXISTS (SELECT 1 FROM stet_feeds f
		WHERE f.run_no=s.run_no AND f.stream=1 AND f.name=s.name AND s.pos>f.dropped AND s.pos<=f.last))`},
	{"ended runs owe no answer", `SELECT count(*) FROM stet_inbox i INDEXED BY stet_inbox_unanswered
		JOIN stet_runs r ON r.run_no=i.run_no WHERE i.kind={update} AND i.verdict IS NULL AND r.status IN {ended}`},
}

// Doctor looks for damage and broken invariants. It changes nothing. What damage keeps from
// being checked is a finding too. It reads the whole
// file in one transaction: while others write to a large file, the WAL grows until it
// ends. An error means that it could not look.
func (s *Store) Doctor(ctx context.Context) ([]Finding, error) {
	var findings []Finding
	add := func(what string, ok bool, detail string) { findings = append(findings, Finding{what, ok, detail}) }
	err := s.read.sorting(ctx, "doctor", func(c *conn) error {
		var result, mode string
		var sync int64
		if _, err := c.row("PRAGMA integrity_check(1)", nil, &result); err != nil {
			return err
		}
		add("SQLite's integrity check", result == "ok", result)
		if _, err := c.row("PRAGMA journal_mode", nil, &mode); err != nil {
			return err
		}
		add("journal mode is WAL", mode == "wal", mode)
		if _, err := c.row("PRAGMA synchronous", nil, &sync); err != nil {
			return err
		}
		add("synchronous is FULL", sync == 2 || s.cfg.normal, fmt.Sprint(sync))
		for _, check := range checks {
			var bad int64
			if _, err := c.row(check.query, nil, &bad); ctx.Err() != nil {
				return context.Cause(ctx)
			} else if err != nil {
				add(check.what, false, fmt.Sprintf("cannot be checked: %v", err))
			} else {
				add(check.what, bad == 0, fmt.Sprintf("%d exceptions", bad))
			}
		}
		return nil
	})
	if err != nil {
		return findings, err
	}
	size := s.walSize()
	add("the WAL is small", size <= walWarning, fmt.Sprintf("%d bytes", size))
	return findings, nil
}

-- oldest: 2

-- Runs with a mark for which people look: paused, cancelling, undoing, expiring or, since this migration, failing.
DROP INDEX stet_runs_marked;
CREATE INDEX stet_runs_marked ON stet_runs (run_no) WHERE marks & 47 <> 0;

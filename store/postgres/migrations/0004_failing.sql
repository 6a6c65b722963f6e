-- oldest: 1

-- Runs with a mark for which people look: paused, cancelling, undoing, expiring or, since this migration, failing. Earlier
-- builds, whose lists ask for the former index, read the table.
DROP INDEX stet.runs_marked;
CREATE INDEX runs_marked ON stet.runs (run_no) WHERE marks & 47 <> 0;

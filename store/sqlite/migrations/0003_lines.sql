-- oldest: 3

-- A run in the line of a queue: q is the ID of the queue's entity, qline its priority and when it is due, see sqlstore.LineKey.
-- Below, marks & 17 = 16: held and not paused; status < 4: neither ended nor stalled; marks & 128: admitted.
ALTER TABLE stet_runs ADD COLUMN q TEXT;
ALTER TABLE stet_runs ADD COLUMN qkey TEXT;
ALTER TABLE stet_runs ADD COLUMN qline BLOB;
CREATE INDEX stet_runs_waiting ON stet_runs (q, qline, run_no) WHERE q IS NOT NULL AND marks & 17 = 16 AND status < 4;
CREATE INDEX stet_runs_admitted ON stet_runs (q, run_no) WHERE marks & 128 <> 0;

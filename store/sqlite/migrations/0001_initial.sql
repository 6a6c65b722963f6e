-- oldest: 1

-- Numbers of runs and items are never used twice: before rows are swept the
-- highest numbers are noted in stet_floor, what: 1 runs, 2 items.
CREATE TABLE stet_floor (
	what INTEGER PRIMARY KEY,
	no   INTEGER NOT NULL
);

CREATE TABLE stet_meta (
	key   TEXT PRIMARY KEY,
	value TEXT NOT NULL
) WITHOUT ROWID;

-- A row is one life (boot) of a node; life tells it from a former row of the boot. verdicts: of the turns of the last batch
-- recorded here, see encodeVerdicts and stamp. listed: registered, and no later boot is. about: see nodeAbout.
CREATE TABLE stet_nodes (
	node      TEXT NOT NULL,
	boot      TEXT NOT NULL,
	listed    INTEGER NOT NULL DEFAULT 0,
	build     TEXT NOT NULL DEFAULT '',
	host      TEXT NOT NULL DEFAULT '',
	pid       INTEGER NOT NULL DEFAULT 0,
	workflows TEXT NOT NULL DEFAULT 'null',
	about     TEXT NOT NULL DEFAULT '{}',
	draining  INTEGER NOT NULL DEFAULT 0,
	seen_at   INTEGER NOT NULL,
	batch_no  INTEGER NOT NULL DEFAULT 0,
	verdicts  BLOB,
	life      INTEGER NOT NULL DEFAULT (random()),
	PRIMARY KEY (node, boot)
) WITHOUT ROWID;

CREATE TABLE stet_workflows (name TEXT PRIMARY KEY) WITHOUT ROWID;

-- node: '' when the shard was given back. locked: the holder had the lock of the
-- operating system when it last wrote the row.
CREATE TABLE stet_leases (
	grp      TEXT NOT NULL,
	slot     INTEGER NOT NULL,
	epoch    INTEGER NOT NULL,
	node     TEXT NOT NULL,
	boot     TEXT NOT NULL,
	until_at INTEGER NOT NULL,
	locked   INTEGER NOT NULL,
	PRIMARY KEY (grp, slot)
) WITHOUT ROWID;

-- tags: as in stet_tags, see encodeTags; NULL: none. random: of forked runs.
-- first: see encodeOrigin; NULL in the first incarnation.
-- ready: 0 idle, 1 ready, 2 claimed. wake_at is set only where ready is 0, or 2 of a
-- run that was claimed at rest. marks & 1: paused, & 16: held.
-- input and output hold values up to 512 bytes; longer ones are in payloads.
-- expires: NULL: as the rules of a sweep say; -1: never.
-- swept: entries of incarnations below this one are gone.
-- stamp: 0, or the batch whose command inserted the row.
CREATE TABLE stet_runs (
	run_no      INTEGER PRIMARY KEY,
	id          TEXT NOT NULL UNIQUE,
	grp         TEXT NOT NULL,
	slot        INTEGER NOT NULL,
	workflow    TEXT NOT NULL,
	status      INTEGER NOT NULL,
	marks       INTEGER NOT NULL DEFAULT 0,
	ready       INTEGER NOT NULL,
	wake_at     INTEGER,
	incarnation INTEGER NOT NULL DEFAULT 0,
	generation  INTEGER NOT NULL DEFAULT 0,
	seed        BLOB NOT NULL,
	random      BLOB,
	first       BLOB,
	began       INTEGER NOT NULL DEFAULT 0,
	build       TEXT NOT NULL DEFAULT '',
	suspect     INTEGER NOT NULL DEFAULT 0,
	strikes     INTEGER NOT NULL DEFAULT 0,
	alone       INTEGER NOT NULL DEFAULT 0,
	parent_no   INTEGER NOT NULL DEFAULT 0,
	parent_loc  BLOB,
	created     INTEGER NOT NULL,
	started     INTEGER NOT NULL DEFAULT 0,
	ended       INTEGER NOT NULL DEFAULT 0,
	expires     INTEGER,
	input_size  INTEGER NOT NULL,
	output_size INTEGER NOT NULL DEFAULT 0,
	reason      TEXT NOT NULL DEFAULT '',
	tags        BLOB,
	headers     BLOB,
	queue       BLOB,
	input       BLOB,
	output      BLOB,
	waits       BLOB,
	stamp       INTEGER NOT NULL DEFAULT 0,
	swept       INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX stet_runs_ended ON stet_runs (workflow, status, ended) WHERE ended > 0 AND expires IS NULL;
CREATE INDEX stet_runs_kept ON stet_runs (workflow, status, ended) WHERE ended > 0 AND expires IS NOT NULL;
CREATE INDEX stet_runs_marked ON stet_runs (run_no) WHERE marks & 15 <> 0;
CREATE INDEX stet_runs_expires ON stet_runs (expires) WHERE expires > 0;
CREATE INDEX stet_runs_former ON stet_runs (run_no) WHERE incarnation > swept;
CREATE INDEX stet_runs_ready ON stet_runs (grp, slot, workflow, build, run_no) WHERE ready = 1 AND marks & 17 = 0;
CREATE INDEX stet_runs_claimed ON stet_runs (grp, slot) WHERE ready = 2;
CREATE INDEX stet_runs_wake ON stet_runs (grp, slot, workflow, wake_at) WHERE wake_at IS NOT NULL AND marks & 17 = 0;
CREATE INDEX stet_runs_listing ON stet_runs (workflow, status, run_no);
CREATE INDEX stet_runs_parent ON stet_runs (parent_no) WHERE parent_no > 0;

-- what: 1 input, 2 output.
CREATE TABLE stet_payloads (
	run_no INTEGER NOT NULL,
	what   INTEGER NOT NULL,
	val    BLOB NOT NULL,
	PRIMARY KEY (run_no, what)
) WITHOUT ROWID;

-- val holds values up to 4 KiB; longer ones are in blobs. stamp: 0, or the batch
-- that inserted the row, see stamp.
CREATE TABLE stet_entries (
	run_no      INTEGER NOT NULL,
	incarnation INTEGER NOT NULL,
	loc         BLOB NOT NULL,
	kind        INTEGER NOT NULL,
	state       INTEGER NOT NULL,
	seq         INTEGER NOT NULL,
	born        INTEGER NOT NULL,
	at          INTEGER NOT NULL,
	wake        INTEGER NOT NULL,
	attempt     INTEGER NOT NULL,
	owes        INTEGER NOT NULL,
	started     INTEGER NOT NULL,
	ended       INTEGER NOT NULL,
	generation  INTEGER NOT NULL,
	size        INTEGER NOT NULL,
	val         BLOB,
	stamp       INTEGER NOT NULL DEFAULT 0,
	PRIMARY KEY (run_no, incarnation, loc)
) WITHOUT ROWID;

CREATE TABLE stet_blobs (
	run_no      INTEGER NOT NULL,
	incarnation INTEGER NOT NULL,
	loc         BLOB NOT NULL,
	val         BLOB NOT NULL,
	PRIMARY KEY (run_no, incarnation, loc)
) WITHOUT ROWID;

-- state: 1 new, 2 seen, 3 consumed, 4 dead letter. stamp: as in runs. rests: a new item
-- that makes its run ready for no node, because the run is paused, held or delayed, and that
-- claims therefore pass over; until the run is claimed, see rest.
CREATE TABLE stet_inbox (
	item_no     INTEGER PRIMARY KEY,
	run_no      INTEGER NOT NULL,
	kind        INTEGER NOT NULL,
	state       INTEGER NOT NULL,
	name        TEXT NOT NULL,
	item_id     TEXT NOT NULL,
	origin      TEXT NOT NULL,
	incarnation INTEGER NOT NULL,
	generation  INTEGER NOT NULL,
	loc         BLOB,
	failed      INTEGER NOT NULL,
	sent_at     INTEGER NOT NULL,
	headers     BLOB,
	verdict     BLOB,
	stamp       INTEGER NOT NULL DEFAULT 0,
	rests       INTEGER NOT NULL DEFAULT 0,
	val         BLOB -- last: to read what stands before it does not touch its pages
);
CREATE UNIQUE INDEX stet_inbox_id ON stet_inbox (run_no, item_id);
CREATE INDEX stet_inbox_open ON stet_inbox (state, run_no, item_no) WHERE state < 3;
CREATE INDEX stet_inbox_new ON stet_inbox (run_no, item_no) WHERE state = 1 AND rests = 0;
CREATE INDEX stet_inbox_resting ON stet_inbox (run_no) WHERE rests;
CREATE INDEX stet_inbox_dead ON stet_inbox (item_no) WHERE state = 4;
CREATE INDEX stet_inbox_unanswered ON stet_inbox (run_no, item_no) WHERE kind = 8 AND verdict IS NULL;

-- The tags of runs for listing; the run's row has them too.
CREATE TABLE stet_tags (
	key    TEXT NOT NULL,
	value  TEXT NOT NULL,
	tagged INTEGER NOT NULL,
	PRIMARY KEY (key, value, tagged)
) WITHOUT ROWID;

-- stream: 0 a value, with val; 1 a stream, whose items are in stet_streams.
-- last: how often the value was set, or the position of the last item; dropped: that of
-- the last item that was dropped, 0: none.
CREATE TABLE stet_feeds (
	run_no INTEGER NOT NULL,
	stream INTEGER NOT NULL,
	name   TEXT NOT NULL,
	last   INTEGER NOT NULL,
	dropped INTEGER NOT NULL DEFAULT 0,
	at     INTEGER NOT NULL,
	val    BLOB,
	PRIMARY KEY (run_no, stream, name)
) WITHOUT ROWID;

CREATE TABLE stet_streams (
	run_no  INTEGER NOT NULL,
	name    TEXT NOT NULL,
	pos     INTEGER NOT NULL,
	at      INTEGER NOT NULL,
	rewound INTEGER NOT NULL,
	val     BLOB,
	PRIMARY KEY (run_no, name, pos)
) WITHOUT ROWID;

-- What operators did to runs; no counts from 1 in each run.
CREATE TABLE stet_audit (
	run_no INTEGER NOT NULL,
	no     INTEGER NOT NULL,
	at     INTEGER NOT NULL,
	who    TEXT NOT NULL,
	verb   TEXT NOT NULL,
	why    TEXT NOT NULL,
	detail TEXT NOT NULL,
	PRIMARY KEY (run_no, no)
) WITHOUT ROWID;

-- oldest: 5

-- A run in the line of a queue: q is the ID of the queue's entity, qline its priority and when it is due, see sqlstore.LineKey.
-- Below, marks & 17 = 16: held and not paused; status < 4: neither ended nor stalled; marks & 128: admitted.
ALTER TABLE stet.runs ADD q text COLLATE "C", ADD qkey text, ADD qline bytea;
CREATE INDEX runs_waiting ON stet.runs (q, qline, run_no) WHERE q IS NOT NULL AND marks & 17 = 16 AND status < 4;
CREATE INDEX runs_admitted ON stet.runs (q, run_no) WHERE marks & 128 <> 0;

-- commit_1 of 0003, in which an update leaves the mark 128 of a run that has it, if the update has it too.
CREATE OR REPLACE FUNCTION stet.commit_1(
	p_node text, p_boot text, p_no bigint, p_fence uuid, p_verdicts bytea, p_floor bigint, p_test bigint, p_answered bigint[],
	l_grp text[], l_slot bigint[],
	t_run bigint[], t_grp text[], t_slot bigint[], t_inc bigint[],
	u_run bigint[], u_status bigint[], u_marks bigint[], u_wake bigint[], u_reason bytea[], u_build bytea[], u_clear boolean[], u_alone boolean[],
	u_output bytea[], u_waits bytea[], u_back boolean[], u_over bigint[], u_discard bigint[],
	u_named bigint[], u_name text[],
	e_new bigint[], e_old bigint[], e_bytes bytea,
	s_run bigint[], s_item bigint[],
	c_run bigint[], c_item bigint[], c_verdict bytea[],
	r_turn bigint[], r_id text[], r_grp text[], r_slot bigint[], r_workflow text[], r_seed bytea[], r_at bigint[], r_after bigint[],
	r_parent bigint[], r_parent_loc bytea[], r_input bytea[], r_headers bytea[], r_adopt boolean[], r_build bytea[],
	i_turn bigint[], i_id text[], i_no bigint[], i_kind bigint[], i_name text[], i_item text[], i_origin bytea[], i_inc bigint[], i_gen bigint[],
	i_loc bytea[], i_failed boolean[], i_val bytea[], i_headers bytea[], i_adopt boolean[], p_last bigint, u_keep bigint[],
	OUT now bigint, OUT runs bigint[], OUT items bigint[], OUT receivers bigint[], OUT claimed bigint[], OUT unusual text
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	n bigint;
	others bigint;
	boot_life uuid;
	last bigint;
BEGIN
	IF t_run IS NOT NULL THEN
		SELECT count(*) INTO n FROM unnest(t_run, t_grp, t_slot, t_inc) AS t(run, grp, slot, inc), LATERAL (
			SELECT FROM stet.runs r WHERE r.run_no=t.run AND r.grp=t.grp AND r.slot+0=t.slot AND r.incarnation=coalesce(t.inc, 0) AND r.ready+0=2 OFFSET 0) r;
		IF n<>cardinality(t_run) THEN unusual := 'a turn to be refused'; RETURN; END IF;
	END IF;
	IF u_run IS NOT NULL THEN
		SELECT count(*) INTO n FROM unnest(u_run, u_status, u_marks) AS u(run, status, marks), LATERAL (
			SELECT FROM stet.runs r WHERE r.run_no=u.run AND r.status+0 IN (1,2,3,7) AND u.marks & ~r.marks & 4 = 0
			AND (r.status=u.status OR r.status=1 AND u.status IN (2,6,7) OR r.status=2 AND u.status IN (3,4,5,6,7) OR r.status=3 AND u.status IN (2,6,7)
				OR r.status=7 AND u.status IN (2,6))
			AND NOT EXISTS (SELECT FROM stet.inbox i WHERE i.run_no=u.run AND i.state=1
				AND (u.status=3 AND u.marks & 1 = 0 OR u.status IN (4,5,6) AND i.kind IN (3,4))
				AND (s_item IS NULL OR i.item_no<>ALL(s_item)) AND (c_item IS NULL OR i.item_no<>ALL(c_item)) OFFSET 0) OFFSET 0) r;
		IF n<>cardinality(u_run) THEN unusual := 'an update to be refused or held back'; RETURN; END IF;
	END IF;
	IF r_id IS NOT NULL THEN
		PERFORM FROM unnest(r_id) AS q(id), LATERAL (SELECT FROM stet.runs r WHERE r.id=q.id OFFSET 0) r LIMIT 1;
		IF FOUND THEN unusual := 'a run that exists'; RETURN; END IF;
	END IF;
	IF i_item IS NOT NULL THEN
		SELECT array_agg(coalesce(r.run_no, 0) ORDER BY i.place),
			count(*) FILTER (WHERE r.status NOT IN (4,5,6) AND (i.turn=0 OR r.run_no<>ALL(coalesce(t_run, '{}')))
				AND NOT EXISTS (SELECT FROM stet.inbox b WHERE b.run_no=r.run_no AND b.item_id=i.item OFFSET 0)), count(DISTINCT r.run_no)
			INTO receivers, n, others
			FROM unnest(i_turn, i_id, i_no, i_item) WITH ORDINALITY AS i(turn, id, no, item, place) LEFT JOIN LATERAL (
				SELECT a.run_no, a.status FROM stet.runs a WHERE i.no=0 AND a.id=i.id UNION ALL SELECT b.run_no, b.status FROM stet.runs b WHERE i.no<>0 AND b.run_no=i.no) r ON true;
		IF n<>cardinality(i_item) OR others<>n THEN
			unusual := 'an item that is there, for no run, for one that has ended, or for one with another item or a turn'; RETURN;
		END IF;
	END IF;

	SELECT b.life, b.settled INTO boot_life, last FROM stet.boots b WHERE b.node=p_node AND b.boot=p_boot AND b.fence=p_fence FOR KEY SHARE;
	last := greatest(last, (SELECT b.no FROM stet.batches b WHERE b.life=boot_life ORDER BY b.no DESC LIMIT 1));
	IF boot_life IS NULL OR last>=p_no OR last<p_last THEN unusual := 'no row of the boot, another fence, a repeated batch, or a lost one'; RETURN; END IF;
	INSERT INTO stet.batches (life, no, verdicts) VALUES (boot_life, p_no, p_verdicts);
	now := greatest(p_floor, coalesce(p_test, (extract(epoch FROM clock_timestamp())*1000000)::bigint));
	claimed := '{}';

	IF e_new IS NOT NULL THEN
		INSERT INTO stet.entries (run_no, incarnation, kind, state, seq, born, at, wake, attempt, started, ended, generation, owes, size, loc, val)
			SELECT e_new[e+1], e_new[e+2], e_new[e+3], e_new[e+4], e_new[e+5], e_new[e+6], e_new[e+7], e_new[e+8], e_new[e+9], e_new[e+10], e_new[e+11],
				e_new[e+12], e_new[e+13]<>0, greatest(e_new[e+16], 0), substring(e_bytes, e_new[e+14]::integer, e_new[e+15]::integer),
				CASE WHEN e_new[e+16]>=0 THEN substring(e_bytes, (e_new[e+14]+e_new[e+15])::integer, e_new[e+16]::integer) END
			FROM generate_series(0, cardinality(e_new)-1, 16) AS e;
	END IF;
	IF e_old IS NOT NULL THEN
		INSERT INTO stet.entries AS old (run_no, incarnation, kind, state, seq, born, at, wake, attempt, started, ended, generation, owes, size, loc, val)
			SELECT e_old[e+1], e_old[e+2], e_old[e+3], e_old[e+4], e_old[e+5], e_old[e+6], e_old[e+7], e_old[e+8], e_old[e+9], e_old[e+10], e_old[e+11],
				e_old[e+12], e_old[e+13]<>0, greatest(e_old[e+16], 0), substring(e_bytes, e_old[e+14]::integer, e_old[e+15]::integer),
				CASE WHEN e_old[e+16]>=0 THEN substring(e_bytes, (e_old[e+14]+e_old[e+15])::integer, e_old[e+16]::integer) END
			FROM generate_series(0, cardinality(e_old)-1, 16) AS e
			ON CONFLICT (run_no, incarnation, loc) DO UPDATE SET kind=excluded.kind, state=excluded.state, seq=excluded.seq, born=excluded.born,
				at=excluded.at, wake=excluded.wake, attempt=excluded.attempt, owes=excluded.owes, started=excluded.started, ended=excluded.ended,
				size=excluded.size, generation=excluded.generation, val=excluded.val
			WHERE old.state IN (1,4) OR old.seq=0 AND excluded.seq>0 AND old.state=excluded.state AND old.kind=excluded.kind AND old.born=excluded.born
				AND old.wake=excluded.wake AND old.attempt=excluded.attempt AND old.owes=excluded.owes AND old.started=excluded.started
				AND old.ended=excluded.ended AND old.generation=excluded.generation AND old.val IS NOT DISTINCT FROM excluded.val;
		GET DIAGNOSTICS n = ROW_COUNT;
		IF n<>cardinality(e_old)/16 THEN RAISE EXCEPTION 'a final entry' USING ERRCODE='ST001'; END IF;
	END IF;
	IF s_item IS NOT NULL THEN
		UPDATE stet.inbox i SET state=2 WHERE i.item_no=ANY(s_item) AND i.run_no+0=s_run[width_bucket(i.item_no, s_item)] AND i.state+0=1;
		GET DIAGNOSTICS n = ROW_COUNT;
		IF n<>cardinality(s_item) THEN RAISE EXCEPTION 'an item that is not new' USING ERRCODE='ST001'; END IF;
	END IF;
	IF c_item IS NOT NULL THEN
		UPDATE stet.inbox i SET state=3, val=NULL, headers=NULL, verdict=c_verdict[width_bucket(i.item_no, c_item)]
			WHERE i.item_no=ANY(c_item) AND i.run_no+0=c_run[width_bucket(i.item_no, c_item)] AND i.state+0<3;
		GET DIAGNOSTICS n = ROW_COUNT;
		IF n<>cardinality(c_item) THEN RAISE EXCEPTION 'an item that is not pending' USING ERRCODE='ST001'; END IF;
	END IF;

	IF u_run IS NOT NULL THEN
		UPDATE stet.runs r SET (suspect, strikes, alone, build, status, marks, reason, waits, output, wake_at, ready, started, ended, expires) = (
			SELECT CASE WHEN u_clear[k] AND NOT u_alone[k] THEN 0 ELSE r.suspect END,
				CASE WHEN u_clear[k] OR NOT u_alone[k] THEN 0 ELSE r.strikes END, u_alone[k],
				greatest(r.build, u_build[k]), u_status[k], u_marks[k] & (r.marks | -129), u_reason[k], u_waits[k], coalesce(u_output[k], r.output),
				CASE WHEN u_status[k]=3 OR u_status[k]=1 AND u_wake[k]>commit_1.now THEN nullif(u_wake[k], 0) END,
				CASE WHEN u_status[k]=2 AND u_marks[k] & 1 = 0 AND NOT u_back[k] THEN 2
					WHEN u_status[k]=2 OR u_status[k]=1 AND u_wake[k]<=commit_1.now THEN 1 ELSE 0 END,
				CASE WHEN r.started=0 AND u_status[k]=2 THEN commit_1.now ELSE r.started END,
				CASE WHEN u_status[k] IN (4,5,6) THEN commit_1.now ELSE 0 END,
				CASE WHEN u_keep[k]>0 THEN commit_1.now+greatest(u_keep[k], 60000000) WHEN u_keep[k]<0 THEN -1 END
			FROM (SELECT width_bucket(r.run_no, u_run) AS k OFFSET 0) u)
			WHERE r.run_no=ANY(u_run);
		GET DIAGNOSTICS n = ROW_COUNT;
		IF n<>cardinality(u_run) THEN RAISE EXCEPTION 'a run that is gone' USING ERRCODE='ST001'; END IF;
	END IF;
	IF u_over IS NOT NULL THEN
		UPDATE stet.inbox i SET state=3, val=NULL, headers=NULL, verdict='x' WHERE i.run_no=ANY(u_over) AND i.kind=8 AND i.verdict IS NULL;
		IF u_named IS NOT NULL THEN
			UPDATE stet.inbox i SET state=3, val=NULL, headers=NULL WHERE i.run_no=ANY(u_named) AND i.state<3 AND i.kind=1
				AND EXISTS (SELECT FROM unnest(u_named, u_name) d(run_no, name) WHERE d.run_no=i.run_no AND d.name=i.name);
		END IF;
		UPDATE stet.inbox i SET state=4 WHERE i.run_no=ANY(u_over) AND i.state<3 AND i.kind<>ALL(p_answered) AND (u_discard IS NULL OR i.run_no<>ALL(u_discard));
		IF u_discard IS NOT NULL THEN
			UPDATE stet.inbox i SET state=3, val=NULL, headers=NULL WHERE i.run_no=ANY(u_discard) AND i.state<3 AND i.kind<>ALL(p_answered);
		END IF;
	END IF;

	IF r_id IS NOT NULL THEN
		WITH made AS (
			INSERT INTO stet.runs (id, grp, slot, workflow, status, ready, wake_at, seed, parent_no, parent_loc, created, started, input, headers, build)
			SELECT r.id, r.grp, r.slot, r.workflow, CASE WHEN r.adopt AND w.at<=commit_1.now THEN 2 ELSE 1 END,
				CASE WHEN w.at>commit_1.now THEN 0 WHEN r.adopt THEN 2 ELSE 1 END, CASE WHEN w.at>commit_1.now THEN w.at END,
				r.seed, r.parent, r.parent_loc, commit_1.now, CASE WHEN r.adopt AND w.at<=commit_1.now THEN commit_1.now ELSE 0 END, r.input, r.headers,
				CASE WHEN r.adopt AND w.at<=commit_1.now THEN r.build ELSE '' END
			FROM unnest(r_id, r_grp, r_slot, r_workflow, r_seed, r_at, r_after, r_parent, r_parent_loc, r_input, r_headers, r_adopt, r_build) WITH ORDINALITY
				AS r(id, grp, slot, workflow, seed, at, after, parent, parent_loc, input, headers, adopt, build, place),
				LATERAL (SELECT greatest(r.at, CASE WHEN r.after>0 THEN commit_1.now+r.after ELSE 0 END) AS at) w
			ORDER BY r.place
			ON CONFLICT (id) DO NOTHING RETURNING run_no)
		SELECT array_agg(run_no ORDER BY run_no) INTO runs FROM made;
		IF cardinality(runs) IS DISTINCT FROM cardinality(r_id) THEN RAISE EXCEPTION 'a run that exists' USING ERRCODE='ST001'; END IF;
	END IF;

	IF i_item IS NOT NULL THEN
		WITH sent AS (
			INSERT INTO stet.inbox (run_no, kind, name, item_id, origin, incarnation, loc, failed, sent_at, val, headers, generation)
			SELECT i.run, i.kind, i.name, i.item, i.origin, i.inc, i.loc, i.failed, commit_1.now, i.val, i.headers, i.gen
			FROM unnest(receivers, i_kind, i_name, i_item, i_origin, i_inc, i_loc, i_failed, i_val, i_headers, i_gen) WITH ORDINALITY
				AS i(run, kind, name, item, origin, inc, loc, failed, val, headers, gen, place)
			ORDER BY i.place
			ON CONFLICT (run_no, item_id) DO NOTHING RETURNING item_no)
		SELECT array_agg(item_no ORDER BY item_no) INTO items FROM sent;
		IF cardinality(items) IS DISTINCT FROM cardinality(i_item) THEN RAISE EXCEPTION 'an item that is there' USING ERRCODE='ST001'; END IF;
		WITH taken AS (
			UPDATE stet.runs r SET ready=2, wake_at=NULL, status=2, started=CASE WHEN r.started=0 THEN commit_1.now ELSE r.started END
				WHERE r.run_no=ANY(ARRAY(SELECT i.run FROM unnest(receivers, i_kind, i_adopt) AS i(run, kind, adopt) WHERE i.adopt AND i.kind<>10))
				AND r.ready+0<>2 AND r.marks & 17 = 0
				AND (r.status+0=3 OR r.status+0=1 AND (r.ready+0=1 OR r.wake_at+0<=commit_1.now))
				AND ((r.grp, r.slot) IN (SELECT l.grp, l.slot FROM unnest(l_grp, l_slot) AS l(grp, slot))) IS TRUE
				RETURNING r.run_no)
		SELECT coalesce(array_agg(t.run_no), '{}') INTO claimed FROM taken t;
		IF cardinality(claimed)>0 THEN
			UPDATE stet.inbox i SET rests=false WHERE i.run_no=ANY(claimed) AND i.rests;
		END IF;
	END IF;
END $$;

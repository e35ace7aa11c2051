-- The journal's functions on PostgreSQL, as they are after all migrations.
--
-- Functions, and not statements that a client prepares, hold what is sent often: they are planned once a
-- session also behind a pooler in transaction mode. Where a plan depends on how full a table is, it is fixed to
-- the indexes: it may have been made when the table was empty.

-- The key of a stream's lock. Two streams may share one: they only wait for each other.
CREATE FUNCTION journal_lock(stream uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(7305, uuid_hash(stream));
END $$;

-- Whether a tenant's runs may go on: `active`, or why not. Whoever has no row is active.
CREATE FUNCTION tenant_state(asked_workspace text, asked_project text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        (SELECT CASE state WHEN 'suspended' THEN 'tenant-suspended' ELSE 'tenant-closing' END
         FROM workspaces WHERE workspace = asked_workspace AND state <> 'active'),
        (SELECT 'project-suspended' FROM projects
         WHERE workspace = asked_workspace AND project = asked_project AND state <> 'active'),
        'active'
    )
$$;

-- Refuse events by a signing key that has ended: SQLSTATE AB001. Each key's lock is held, shared, until the transaction
-- ends. Whoever ends a key takes its lock alone: that waits for appends that run, and those that come later lose here.
CREATE FUNCTION signing_keys_check(states bytea[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    signed bytea;
    checked bytea;
BEGIN
    FOREACH signed IN ARRAY states LOOP
        IF checked IS DISTINCT FROM substring(signed FOR 8) THEN
            checked := substring(signed FOR 8);
            PERFORM pg_advisory_xact_lock_shared(7309, hashtext(encode(checked, 'hex')));
            IF EXISTS (SELECT FROM signing_keys WHERE kid = checked) THEN
                RAISE EXCEPTION 'the signing key has ended' USING ERRCODE = 'AB001';
            END IF;
        END IF;
    END LOOP;
END $$;

-- Write what wins, and return the numbers of the winners (from 1, in their order in `run_ids`).
--
-- The locks come before anything is written: a transaction gets its id at its first write, and one that got it
-- and then waited for a run's row would put version n + 1 before n in the order of commits. They are taken in
-- one order by everybody, so batches can't deadlock. Each statement below sees what was committed before the
-- locks were granted.
--
-- A run of a tenant that isn't active is never begun, and takes nothing that `active_items` names. An idempotency key that is kept already makes its append
-- lose; one that goes in with an append that then loses is taken out again.
CREATE FUNCTION journal_append(
    run_ids uuid[], versions bigint[], heads bytea[], statuses text[], dues bigint[], lease_ids uuid[],
    lease_untils bigint[], definitions bytea[], key_ids bigint[], key_states text[], workspaces text[],
    projects text[], createds bigint[], updateds bigint[],
    expected_versions bigint[], expected_leases uuid[],
    event_items bigint[], event_versions bigint[], topics text[], states bytea[], contents bytea[],
    wait_items bigint[], openeds bigint[], call_keys uuid[], ordinals bigint[], wait_states text[],
    pauseds bigint[], answers bigint[], wait_dues bigint[], closeds bigint[],
    link_items bigint[], digests bytea[], link_openeds bigint[],
    dead_items bigint[], dead_digests bytea[],
    reply_items bigint[], scopes bytea[], requests bytea[], reply_createds bigint[], reply_expireses bigint[],
    active_items bigint[]
) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    won bigint[] := '{}';
    kept boolean;
    key integer;
    asked integer;
BEGIN
    PERFORM signing_keys_check(states);
    IF cardinality(run_ids) = 1 THEN
        PERFORM pg_advisory_xact_lock(7305, uuid_hash(run_ids[1]));
    ELSE
        FOR key IN SELECT DISTINCT uuid_hash(run_id) FROM unnest(run_ids) AS run_id ORDER BY 1 LOOP
            PERFORM pg_advisory_xact_lock(7305, key);
        END LOOP;
    END IF;
    IF cardinality(reply_items) > 0 THEN
        FOR key IN
            SELECT DISTINCT ('x' || encode(substring(scope FOR 4), 'hex'))::bit(32)::integer
            FROM unnest(scopes) AS scope ORDER BY 1
        LOOP
            PERFORM pg_advisory_xact_lock(7307, key);
        END LOOP;
    END IF;

    FOR number IN 1 .. cardinality(run_ids) LOOP
        IF number = ANY (wait_items) AND EXISTS (
            SELECT FROM unnest(wait_items, openeds) AS w (item, opened)
            JOIN waits ON waits.run_id = run_ids[number] AND waits.opened = w.opened
            WHERE w.item = number AND waits.closed IS NOT NULL
        ) THEN
            CONTINUE;
        END IF;
        IF (expected_versions[number] = 0 OR number = ANY (active_items))
           AND tenant_state(workspaces[number], projects[number]) <> 'active' THEN
            CONTINUE;
        END IF;
        asked := array_position(reply_items, number::bigint);
        IF asked IS NOT NULL THEN
            INSERT INTO replies (scope, request, run_id, created, expires)
            VALUES (scopes[asked], requests[asked], run_ids[number], reply_createds[asked], reply_expireses[asked])
            ON CONFLICT (scope) DO UPDATE SET
                request = excluded.request, run_id = excluded.run_id, created = excluded.created,
                expires = excluded.expires, reply = NULL
            WHERE replies.expires <= excluded.created;
            IF NOT FOUND THEN
                CONTINUE;
            END IF;
        END IF;
        IF expected_versions[number] = 0 THEN
            INSERT INTO run_control (
                run_id, version, head, status, due, lease_id, lease_until, definition, key_id, key_state,
                workspace, project, created, updated
            ) VALUES (
                run_ids[number], versions[number], heads[number], statuses[number], dues[number], lease_ids[number],
                lease_untils[number], definitions[number], key_ids[number], key_states[number], workspaces[number],
                projects[number], createds[number], updateds[number]
            ) ON CONFLICT DO NOTHING;
        ELSE
            -- What the holder of a lease has renewed is its own.
            kept := coalesce(expected_leases[number] = lease_ids[number], false);
            UPDATE run_control SET
                version = versions[number], head = heads[number], status = statuses[number],
                due = CASE WHEN kept THEN due ELSE dues[number] END,
                lease_id = lease_ids[number],
                lease_until = CASE WHEN kept THEN lease_until ELSE lease_untils[number] END,
                definition = definitions[number], key_id = key_ids[number], key_state = key_states[number],
                workspace = workspaces[number], project = projects[number], created = createds[number],
                updated = updateds[number]
            WHERE run_id = run_ids[number] AND version = expected_versions[number]
              AND lease_id IS NOT DISTINCT FROM expected_leases[number] AND key_state = 'live';
        END IF;
        IF FOUND THEN
            won := won || number::bigint;
        ELSIF asked IS NOT NULL THEN
            DELETE FROM replies WHERE scope = scopes[asked];
        END IF;
    END LOOP;

    INSERT INTO journal_events (originator_id, originator_version, topic, state, content)
    SELECT run_ids[e.item], e.version, e.topic, e.state, e.content
    FROM unnest(event_items, event_versions, topics, states, contents)
        AS e (item, version, topic, state, content)
    WHERE e.item = ANY (won);
    IF cardinality(wait_items) > 0 THEN
        INSERT INTO waits (run_id, opened, call_key, ordinal, state, paused, answer, due, closed)
        SELECT run_ids[w.item], w.opened, w.call_key, w.ordinal, w.state, w.paused, w.answer, w.due, w.closed
        FROM unnest(wait_items, openeds, call_keys, ordinals, wait_states, pauseds, answers, wait_dues, closeds)
            AS w (item, opened, call_key, ordinal, state, paused, answer, due, closed)
        WHERE w.item = ANY (won)
        ON CONFLICT (run_id, opened) DO UPDATE SET
            call_key = excluded.call_key, ordinal = excluded.ordinal, state = excluded.state,
            paused = excluded.paused, answer = excluded.answer, due = excluded.due, closed = excluded.closed
        WHERE waits.closed IS NULL;
    END IF;
    IF cardinality(dead_items) > 0 THEN
        DELETE FROM links USING unnest(dead_items, dead_digests) AS d (item, digest)
        WHERE links.digest = d.digest AND d.item = ANY (won) AND links.run_id = run_ids[d.item];
    END IF;
    IF cardinality(link_items) > 0 THEN
        INSERT INTO links (digest, run_id, opened)
        SELECT l.digest, run_ids[l.item], l.opened
        FROM unnest(link_items, digests, link_openeds) AS l (item, digest, opened)
        WHERE l.item = ANY (won);
    END IF;
    RETURN won;
END $$;

-- Append to a stream that has no control row: it must end at `expected_version`.
CREATE FUNCTION journal_append_stream(
    stream uuid, expected_version bigint, versions bigint[], topics text[], states bytea[]
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM signing_keys_check(states);
    PERFORM journal_lock(stream);
    IF expected_version <> coalesce(
        (SELECT max(originator_version) FROM journal_events WHERE originator_id = stream), 0
    ) THEN
        RETURN false;
    END IF;
    INSERT INTO journal_events (originator_id, originator_version, topic, state)
    SELECT stream, e.version, e.topic, e.state
    FROM unnest(versions, topics, states) AS e (version, topic, state);
    RETURN true;
END $$;

-- Insert events of any streams, for tools that keep no control rows. Who uses it makes the versions right.
CREATE FUNCTION journal_insert(streams uuid[], versions bigint[], topics text[], states bytea[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    key integer;
BEGIN
    FOR key IN SELECT DISTINCT uuid_hash(stream) FROM unnest(streams) AS stream ORDER BY 1 LOOP
        PERFORM pg_advisory_xact_lock(7305, key);
    END LOOP;
    INSERT INTO journal_events (originator_id, originator_version, topic, state)
    SELECT * FROM unnest(streams, versions, topics, states);
END $$;

-- The control row first, then events in version order, each with its content: one snapshot.
CREATE FUNCTION journal_read_run(run uuid, after bigint, upto bigint) RETURNS TABLE (
    run_id uuid, version bigint, head bytea, status text, due bigint, lease_id uuid, lease_until bigint,
    definition bytea, key_id bigint, key_state text, workspace text, project text, created bigint, updated bigint,
    event_version bigint, topic text, state bytea, blob bytea
) LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT c.*, NULL::bigint, NULL::text, NULL::bytea, NULL::bytea FROM control_rows AS c WHERE c.run_id = run;
    RETURN QUERY
    SELECT NULL::uuid, NULL::bigint, NULL::bytea, NULL::text, NULL::bigint, NULL::uuid, NULL::bigint,
           NULL::bytea, NULL::bigint, NULL::text, NULL::text, NULL::text, NULL::bigint, NULL::bigint,
           e.originator_version, e.topic, e.state, e.content
    FROM journal_events AS e
    WHERE e.originator_id = run AND e.originator_version > after AND e.originator_version <= upto
    ORDER BY e.originator_version;
END $$;

-- A page of a stream.
CREATE FUNCTION journal_read_events(stream uuid, after bigint, most bigint, wanted boolean) RETURNS TABLE (
    event_version bigint, topic text, state bytea, blob bytea
) LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT e.originator_version, e.topic, e.state, CASE WHEN wanted THEN e.content END
    FROM journal_events AS e
    WHERE e.originator_id = stream AND e.originator_version > after
    ORDER BY e.originator_version LIMIT most;
END $$;

-- A run as its view is served: first row the control row with first and newest event and the newest one's
-- content, then a row for each open wait with the event that opened it and the one that paused the run on it.
CREATE FUNCTION journal_read_record(run uuid) RETURNS SETOF journal_view LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
BEGIN
    RETURN QUERY
    SELECT c.*, NULL::bigint, NULL::uuid, NULL::bigint, NULL::text, NULL::bigint, NULL::bigint, NULL::bigint,
           NULL::bigint, f.originator_version, f.topic, f.state, n.originator_version, n.topic, n.state, n.content,
           NULL::text
    FROM control_rows AS c
    LEFT JOIN journal_events AS f ON f.originator_id = run AND f.originator_version = 1
    LEFT JOIN LATERAL (
        SELECT * FROM journal_events AS e WHERE e.originator_id = run ORDER BY e.originator_version DESC LIMIT 1
    ) AS n ON true
    WHERE c.run_id = run;
    RETURN QUERY
    SELECT (NULL::control_rows).*, w.opened, w.call_key, w.ordinal, w.state, w.paused, w.answer, w.due, w.closed,
           o.originator_version, o.topic, o.state, p.originator_version, p.topic, p.state, NULL::bytea, NULL::text
    FROM waits AS w
    LEFT JOIN journal_events AS o ON o.originator_id = run AND o.originator_version = w.opened
    LEFT JOIN journal_events AS p ON p.originator_id = run AND p.originator_version = w.paused
    WHERE w.run_id = run AND w.closed IS NULL
    ORDER BY w.opened;
END $$;

-- What the acceptor of an answer works from: a wait, its run's control row, the event that opened it, the
-- run's newest event, and the answer that it holds or took.
CREATE FUNCTION journal_read_wait(run uuid, opened_at bigint) RETURNS SETOF journal_view
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    SELECT c.*, w.opened, w.call_key, w.ordinal, w.state, w.paused, w.answer, w.due, w.closed,
           o.originator_version, o.topic, o.state, n.originator_version, n.topic, n.state, a.content,
           tenant_state(c.workspace, c.project)
    FROM waits AS w
    JOIN control_rows AS c ON c.run_id = run
    LEFT JOIN journal_events AS o ON o.originator_id = run AND o.originator_version = w.opened
    LEFT JOIN LATERAL (
        SELECT * FROM journal_events AS e WHERE e.originator_id = run ORDER BY e.originator_version DESC LIMIT 1
    ) AS n ON true
    LEFT JOIN journal_events AS a ON a.originator_id = run AND a.originator_version = w.answer
    WHERE w.run_id = run AND w.opened = opened_at;
END $$;

CREATE FUNCTION journal_find_link(link bytea) RETURNS SETOF journal_view LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    found_link links;
BEGIN
    SELECT * INTO found_link FROM links WHERE digest = link;
    RETURN QUERY SELECT * FROM journal_read_wait(found_link.run_id, found_link.opened);
END $$;

CREATE FUNCTION journal_find_wait(run uuid, key uuid, number bigint) RETURNS SETOF journal_view
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    opened_at bigint;
BEGIN
    SELECT opened INTO opened_at FROM waits WHERE run_id = run AND call_key = key AND ordinal = number;
    RETURN QUERY SELECT * FROM journal_read_wait(run, opened_at);
END $$;

-- Lease due runs to the caller: hinted ones first; of the room that is left two thirds for the newest ready
-- and one third for the oldest due. The remainder is drawn (`draw` is 0, 1 or 2), so that who claims one run at
-- a time still looks at the oldest every third time. Runs of the workspaces in `passed` are left out. A lost claim
-- costs a lease time, so its commit doesn't wait for the disk.
--
-- A run that is still leased is one whose worker was lost: that is counted by its version, and returned.
CREATE FUNCTION journal_claim(
    moment bigint, until bigint, room bigint, draw bigint, leases uuid[], loaded bytea[], hinted uuid[],
    grace bigint, passed text[]
) RETURNS TABLE (run_id uuid, lease_id uuid, lost bigint) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    taken uuid[] := '{}';
    more uuid[];
    orphans uuid[];
    rest bigint;
BEGIN
    IF cardinality(passed) > 0 AND NOT EXISTS (SELECT FROM workspaces) THEN
        RETURN; -- nobody but the default workspace has runs
    END IF;
    PERFORM set_config('synchronous_commit', 'off', true);
    IF cardinality(hinted) > 0 THEN
        taken := ARRAY(
            SELECT c.run_id FROM run_control AS c
            WHERE c.run_id = ANY (hinted)
              AND (c.status IN ('pending', 'running') OR c.status = 'suspended' AND c.due <= moment)
              AND (c.lease_id IS NULL OR c.lease_until <= moment)
              AND (c.definition = ANY (loaded) OR c.due <= moment - grace)
              AND c.workspace <> ALL (passed)
              AND tenant_state(c.workspace, c.project) = 'active'
            LIMIT room FOR UPDATE SKIP LOCKED
        );
    END IF;
    rest := room - cardinality(taken);
    more := ARRAY(
        SELECT c.run_id FROM run_control AS c
        WHERE c.status IN ('pending', 'running') AND c.due <= moment AND c.run_id <> ALL (taken)
          AND (c.lease_id IS NULL OR c.lease_until <= moment)
          AND (c.definition = ANY (loaded) OR c.due <= moment - grace)
          AND c.workspace <> ALL (passed)
          AND tenant_state(c.workspace, c.project) = 'active'
        ORDER BY c.due DESC LIMIT rest - rest / 3 - (draw < rest % 3)::integer FOR UPDATE SKIP LOCKED
    );
    taken := taken || more;
    more := ARRAY(
        SELECT c.run_id FROM run_control AS c
        WHERE c.status IN ('pending', 'running', 'suspended') AND c.due <= moment AND c.run_id <> ALL (taken)
          AND (c.lease_id IS NULL OR c.lease_until <= moment)
          AND (c.definition = ANY (loaded) OR c.due <= moment - grace)
          AND c.workspace <> ALL (passed)
          AND tenant_state(c.workspace, c.project) = 'active'
        ORDER BY c.due LIMIT room - cardinality(taken) FOR UPDATE SKIP LOCKED
    );
    taken := taken || more;
    IF cardinality(taken) = 0 THEN
        RETURN;
    END IF;
    orphans := ARRAY(
        SELECT c.run_id FROM run_control AS c WHERE c.run_id = ANY (taken) AND c.lease_id IS NOT NULL
    );
    IF cardinality(orphans) > 0 THEN
        INSERT INTO lost_workers AS l (run_id, version, times, at)
        SELECT c.run_id, c.version, 1, moment FROM run_control AS c WHERE c.run_id = ANY (orphans)
        ON CONFLICT (run_id) DO UPDATE SET
            times = CASE WHEN l.version = excluded.version THEN l.times + 1 ELSE 1 END,
            version = excluded.version, at = excluded.at;
    END IF;
    RETURN QUERY
    UPDATE run_control AS c SET lease_id = t.lease_id, lease_until = until, due = until
    FROM unnest(taken, leases[:cardinality(taken)]) AS t (run_id, lease_id)
    WHERE c.run_id = t.run_id
    RETURNING c.run_id, c.lease_id, CASE WHEN c.run_id = ANY (orphans) THEN (
        SELECT l.times FROM lost_workers AS l WHERE l.run_id = c.run_id
    ) ELSE 0 END;
END $$;

-- Make parked runs due at `wanted`: those that wait for code that fits, or those that are asked for. Counts of
-- lost workers that are 30 days old go then.
CREATE FUNCTION journal_offer(wanted bigint, parked boolean, asked uuid[]) RETURNS bigint LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    chosen uuid[] := asked;
    offered bigint;
BEGIN
    IF parked THEN
        DELETE FROM lost_workers WHERE at < wanted - 2592000000000;
        chosen := ARRAY(
            SELECT w.run_id FROM waits AS w
            JOIN journal_events AS e ON e.originator_id = w.run_id AND e.originator_version = w.opened
            WHERE w.closed IS NULL AND w.call_key IS NULL AND w.due IS NULL AND e.topic = 'code-mismatch'
            LIMIT 10000
        );
    END IF;
    UPDATE run_control AS c SET due = wanted
    FROM (
        SELECT run_id FROM run_control
        WHERE run_id = ANY (chosen) AND lease_id IS NULL AND due > wanted FOR UPDATE SKIP LOCKED
    ) AS found
    WHERE c.run_id = found.run_id;
    GET DIAGNOSTICS offered = ROW_COUNT;
    RETURN offered;
END $$;

-- Prolong leases. A row that somebody is writing to right now is passed, not waited for: waiting would
-- deadlock with batches. It stays leased, and the next renewal finds it.
CREATE FUNCTION journal_renew(leases uuid[], until bigint) RETURNS SETOF uuid LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE run_control AS c SET lease_until = until
    FROM (SELECT run_id FROM run_control WHERE lease_id = ANY (leases) FOR UPDATE SKIP LOCKED) AS free
    WHERE c.run_id = free.run_id;
    RETURN QUERY SELECT lease_id FROM run_control WHERE lease_id = ANY (leases);
END $$;

CREATE FUNCTION journal_release(run uuid, lease uuid, seen_version bigint, wanted bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE run_control SET lease_id = NULL, lease_until = NULL, due = CASE
        WHEN status IN ('completed', 'failed', 'cancelled') THEN NULL
        WHEN version = seen_version THEN wanted
        ELSE (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    END
    WHERE run_id = run AND lease_id = lease;
END $$;

-- What is to be sealed. The first row is the sealer's place: its pair, in `event_version` its size, and whether
-- no event is held back. Then events above that place whose transactions, and all before them, have ended;
-- `follows` says that the event's predecessor in its stream comes before it in this order.
CREATE FUNCTION journal_unsealed(most bigint) RETURNS TABLE (
    tx bigint, id bigint, stream uuid, event_version bigint, follows boolean
) LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    place sealer;
BEGIN
    SELECT * INTO place FROM sealer;
    RETURN QUERY
    SELECT place.last_tx::text::bigint, place.last_id, NULL::uuid, place.size,
           NOT EXISTS (SELECT FROM sealer_held);
    RETURN QUERY
    SELECT e.tx::text::bigint, e.notification_id, e.originator_id, e.originator_version,
           e.originator_version <= 1 OR EXISTS (
               SELECT FROM journal_events AS p
               WHERE p.originator_id = e.originator_id AND p.originator_version = e.originator_version - 1
                 AND (p.tx, p.notification_id) < (e.tx, e.notification_id)
           )
    FROM journal_events AS e
    WHERE e.tx >= place.last_tx AND (e.tx, e.notification_id) > (place.last_tx, place.last_id)
      AND e.tx < pg_snapshot_xmin(pg_current_snapshot())
    ORDER BY e.tx, e.notification_id LIMIT most;
END $$;

-- Write a sealed batch if nobody else has sealed since: the new place, full and last tiles, held events.
CREATE FUNCTION journal_seal(
    seen_size bigint, seen_tx bigint, seen_id bigint, new_size bigint, new_tx bigint, new_id bigint,
    tiles bigint[], first_txs bigint[], first_ids bigint[], entries bytea[],
    held_streams uuid[], held_versions bigint[], freed_streams uuid[], freed_versions bigint[]
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE sealer SET size = new_size, last_tx = new_tx::text::xid8, last_id = new_id
    WHERE size = seen_size AND last_tx = seen_tx::text::xid8 AND last_id = seen_id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO sealed_tiles AS t (tile, first_tx, first_id, entries)
    SELECT s.tile, s.first_tx::text::xid8, s.first_id, s.entries
    FROM unnest(tiles, first_txs, first_ids, entries) AS s (tile, first_tx, first_id, entries)
    ON CONFLICT (tile) DO UPDATE SET entries = t.entries || excluded.entries;
    DELETE FROM sealer_held AS h USING unnest(freed_streams, freed_versions) AS f (stream, event_version)
    WHERE h.originator_id = f.stream AND h.originator_version = f.event_version;
    INSERT INTO sealer_held SELECT * FROM unnest(held_streams, held_versions);
    RETURN true;
END $$;

-- Whether an event was committed, asked after its connection was lost. Its writer may still be at work, with
-- the stream's lock in its hands: so wait for that.
CREATE FUNCTION journal_landed(stream uuid, version bigint, signed bytea) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM journal_lock(stream);
    RETURN EXISTS (
        SELECT FROM journal_events
        WHERE originator_id = stream AND originator_version = version AND state = signed
    );
END $$;

CREATE FUNCTION permits_clock() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

-- The charges of a window that count at a moment. One far ahead was made before the clock was set back.
CREATE FUNCTION permits_charged(held permits, moment bigint)
RETURNS TABLE (at bigint, count bigint, block uuid) LANGUAGE sql STABLE AS $$
    SELECT least(charge.at, moment + 10000000), charge.count, charge.block
    FROM unnest(held.ats, held.counts, held.blocks) AS charge(at, count, block)
    WHERE charge.at + 60000000 > moment
$$;

-- How long until one permit is free, if nobody draws meanwhile. Beyond a limit of 600 charges may still become
-- one with a later one of their slot.
CREATE FUNCTION permits_wait(held permits, most bigint, moment bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN most <= 600 THEN min(at) ELSE (min(at) / 250000 + 1) * 250000 END + 60000000 - moment
    FROM (SELECT at, sum(count) OVER () AS total, sum(count) OVER (ORDER BY at) AS freed
          FROM permits_charged(held, moment)) AS charges
    WHERE total - freed < most
$$;

-- The window at a moment, with a block closed if it has it. More than 600 charges are kept as one for each slot.
CREATE FUNCTION permits_settled(held permits, closed uuid, used bigint, age bigint, moment bigint) RETURNS permits
LANGUAGE sql STABLE AS $$
    WITH known AS (
        SELECT at, count, block FROM permits_charged(held, moment)
    ), settled AS (
        SELECT at, count, block FROM known WHERE block IS DISTINCT FROM closed OR closed IS NULL
        UNION ALL
        SELECT moment - age, used, NULL WHERE used > 0 AND EXISTS (SELECT FROM known WHERE block = closed)
    ), merged AS (
        SELECT max(at) AS at, sum(count)::bigint AS count, block FROM settled
        GROUP BY block, at / CASE WHEN (SELECT count(*) FROM settled) > 600 THEN 250000 ELSE 1 END
    )
    SELECT held.key, coalesce(max(at), moment) / 60000000 + 2, coalesce(array_agg(at ORDER BY at), '{}'),
           coalesce(array_agg(count ORDER BY at), '{}'), coalesce(array_agg(block ORDER BY at), '{}')
    FROM merged
$$;

CREATE FUNCTION permits_total(held permits, moment bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce(sum(count), 0)::bigint FROM permits_charged(held, moment)
$$;

-- Draw `need` permits and up to `extra` more as the block `block`, after closing the block `closed`. Who gets
-- none and closes none is answered from a read: a flood that is refused locks and writes nothing. `given_moment`
-- is for tests; else the moment is read once the row is locked, so that moments are in the order of the draws.
CREATE FUNCTION permits_draw(
    asked bytea, need bigint, extra bigint, most bigint, block uuid, closed uuid, used bigint, age bigint,
    given_moment bigint, OUT granted bigint, OUT granted_extra bigint, OUT valid bigint, OUT wait bigint
) LANGUAGE plpgsql AS $$
DECLARE
    held permits;
    known boolean;
    closes boolean;
    moment bigint;
    room bigint;
BEGIN
    LOOP
        SELECT * INTO held FROM permits WHERE key = asked;
        known := FOUND;
        closes := known AND closed IS NOT NULL AND array_position(held.blocks, closed) IS NOT NULL;
        IF known AND NOT closes THEN
            moment := coalesce(given_moment, permits_clock());
            IF permits_total(held, moment) >= most THEN
                SELECT 0, 0, 0, permits_wait(held, most, moment) INTO granted, granted_extra, valid, wait;
                RETURN;
            END IF;
        END IF;
        IF known THEN
            SELECT * INTO held FROM permits WHERE key = asked FOR UPDATE;
            CONTINUE WHEN NOT FOUND;
        ELSE
            SELECT asked, 0, '{}', '{}', '{}' INTO held;
        END IF;
        moment := coalesce(given_moment, permits_clock());
        held := permits_settled(held, closed, used, age, moment);
        room := most - permits_total(held, moment);
        granted := greatest(0, least(need, room));
        room := room - granted;
        granted_extra := greatest(0, least(extra, room / 8));
        valid := CASE WHEN granted_extra = 0 THEN 0 WHEN 2 * (most - room) <= most THEN 10000000 ELSE 1000000 END;
        IF granted > 0 THEN
            held.ats := held.ats || moment;
            held.counts := held.counts || granted;
            held.blocks := held.blocks || NULL::uuid;
        END IF;
        IF granted_extra > 0 THEN
            held.ats := held.ats || moment + valid;
            held.counts := held.counts || granted_extra;
            held.blocks := held.blocks || block;
        END IF;
        wait := CASE WHEN granted < need THEN permits_wait(held, most, moment) ELSE 0 END;
        IF granted = 0 AND NOT closes THEN
            RETURN;
        END IF;
        held := permits_settled(held, NULL, 0, 0, moment);
        IF known THEN
            UPDATE permits SET minute = held.minute, ats = held.ats, counts = held.counts, blocks = held.blocks
            WHERE key = asked;
            RETURN;
        END IF;
        INSERT INTO permits SELECT (held).* ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN;
        END IF;
    END LOOP;
END $$;

-- Close blocks, and give back what was unused of them. The rows are locked in one order by everybody.
CREATE FUNCTION permits_settle(keys bytea[], closed uuid[], used bigint[], ages bigint[], given_moment bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    held permits;
    done permits;
    moment bigint;
    item record;
BEGIN
    FOR item IN SELECT * FROM unnest(keys, closed, used, ages) AS given(key, block, used, age) ORDER BY 1, 2 LOOP
        SELECT * INTO held FROM permits WHERE key = item.key FOR UPDATE;
        CONTINUE WHEN NOT FOUND OR array_position(held.blocks, item.block) IS NULL;
        moment := coalesce(given_moment, permits_clock());
        done := permits_settled(held, item.block, item.used, item.age, moment);
        UPDATE permits SET minute = done.minute, ats = done.ats, counts = done.counts, blocks = done.blocks
        WHERE key = item.key;
    END LOOP;
END $$;

-- Drop windows in which nothing counts any more, at most 5000 at a time; how many were dropped.
CREATE FUNCTION permits_forget(given_moment bigint) RETURNS bigint LANGUAGE sql AS $$
    WITH dropped AS (
        DELETE FROM permits WHERE key IN (
            SELECT key FROM permits WHERE minute <= coalesce(given_moment, permits_clock()) / 60000000
            ORDER BY minute LIMIT 5000 FOR UPDATE SKIP LOCKED
        ) RETURNING 1
    )
    SELECT count(*) FROM dropped
$$;

-- Put tiles and a checkpoint in place if the newest checkpoint still has this size; whether it had.
CREATE FUNCTION log_grow(
    old_size bigint, new_size bigint, new_note text, levels bigint[], tiles bigint[], hasheses bytea[]
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE log_head SET size = new_size, note = new_note WHERE size = old_size;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO log_tiles (level, tile, hashes)
    SELECT * FROM unnest(levels, tiles, hasheses)
    ON CONFLICT (level, tile) DO UPDATE SET hashes = excluded.hashes;
    RETURN true;
END $$;

-- Count attempts at links, in the order of the arrays, and keep the newest `most` of each wait. Rows of runs that
-- aren't there or were erased are dropped. Waits are locked in one order by everybody.
CREATE FUNCTION link_attempts_add(
    run_ids uuid[], call_keys uuid[], ordinals bigint[], ats bigint[], verdicts text[], sizes bigint[],
    clients bytea[], most bigint
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    wait record;
    last bigint;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR wait IN
        SELECT DISTINCT g.run_id, g.call_key, g.ordinal
        FROM unnest(run_ids, call_keys, ordinals) AS g (run_id, call_key, ordinal)
        JOIN run_control AS c ON c.run_id = g.run_id AND c.key_state = 'live'
        ORDER BY 1, 2, 3
    LOOP
        PERFORM pg_advisory_xact_lock(7308, uuid_hash(wait.call_key) # wait.ordinal::integer);
        INSERT INTO link_counts AS l (run_id, call_key, ordinal, verdict, times)
        SELECT wait.run_id, wait.call_key, wait.ordinal, g.verdict, count(*)
        FROM unnest(run_ids, call_keys, ordinals, verdicts) AS g (run_id, call_key, ordinal, verdict)
        WHERE g.run_id = wait.run_id AND g.call_key = wait.call_key AND g.ordinal = wait.ordinal
        GROUP BY g.verdict
        ON CONFLICT (run_id, call_key, ordinal, verdict) DO UPDATE SET times = l.times + excluded.times;
        SELECT coalesce(max(a.number), 0) INTO last FROM link_attempts AS a
        WHERE a.run_id = wait.run_id AND a.call_key = wait.call_key AND a.ordinal = wait.ordinal;
        INSERT INTO link_attempts (run_id, call_key, ordinal, number, at, verdict, size, client)
        SELECT wait.run_id, wait.call_key, wait.ordinal, last + row_number() OVER (ORDER BY g.place), g.at,
               g.verdict, g.size, g.client
        FROM unnest(run_ids, call_keys, ordinals, ats, verdicts, sizes, clients) WITH ORDINALITY
            AS g (run_id, call_key, ordinal, at, verdict, size, client, place)
        WHERE g.run_id = wait.run_id AND g.call_key = wait.call_key AND g.ordinal = wait.ordinal;
        DELETE FROM link_attempts AS a
        WHERE a.run_id = wait.run_id AND a.call_key = wait.call_key AND a.ordinal = wait.ordinal
          AND a.number <= (
              SELECT max(b.number) FROM link_attempts AS b
              WHERE b.run_id = wait.run_id AND b.call_key = wait.call_key AND b.ordinal = wait.ordinal
          ) - most;
    END LOOP;
END $$;

CREATE FUNCTION link_attempts_erase(erased uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM link_attempts WHERE run_id = ANY (erased);
    DELETE FROM link_counts WHERE run_id = ANY (erased);
END $$;

-- A new API key and its event, if the stream ends at `expected_version`.
CREATE FUNCTION api_key_create(
    stream uuid, expected_version bigint, versions bigint[], topics text[], states bytea[],
    id text, digest bytea, name text, workspace text, project text, grants text[], all_executes boolean,
    executes text[], created bigint, expires bigint, actor text
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF NOT journal_append_stream(stream, expected_version, versions, topics, states) THEN
        RETURN false;
    END IF;
    INSERT INTO api_keys (digest, id, name, workspace, project, grants, executes, created, expires, actor)
    VALUES (digest, id, name, workspace, project, grants, CASE WHEN all_executes THEN NULL ELSE executes END,
            created, expires, actor);
    RETURN true;
END $$;

-- The end of an API key and its event, if the stream ends at `expected_version`.
CREATE FUNCTION api_key_revoke(
    stream uuid, expected_version bigint, versions bigint[], topics text[], states bytea[],
    key_id text, revoked_at bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF NOT journal_append_stream(stream, expected_version, versions, topics, states) THEN
        RETURN false;
    END IF;
    UPDATE api_keys SET revoked = revoked_at WHERE id = key_id AND revoked IS NULL;
    RETURN true;
END $$;

-- Change the state of a workspace (`asked_project` is empty) or project and append the events that say so to the
-- workspace's stream, if the stream and the state are still as they were seen; whether it did. `seen` is NULL
-- where there was no row. `sweeping`: its runs are to be cancelled from now on; else what is left of that is gone.
CREATE FUNCTION tenant_change(
    asked_workspace text, asked_project text, seen text, new_state text, moment bigint, sweeping boolean,
    stream uuid, expected_version bigint, versions bigint[], topics text[], states bytea[]
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM journal_lock(stream);
    IF expected_version <> coalesce(
        (SELECT max(originator_version) FROM journal_events WHERE originator_id = stream), 0
    ) THEN
        RETURN false;
    END IF;
    IF asked_project = '' AND seen IS NULL THEN
        INSERT INTO workspaces VALUES (asked_workspace, new_state, moment, moment) ON CONFLICT DO NOTHING;
    ELSIF asked_project = '' THEN
        UPDATE workspaces SET state = new_state, updated = moment
        WHERE workspace = asked_workspace AND state = seen;
    ELSIF seen IS NULL THEN
        INSERT INTO projects VALUES (asked_workspace, asked_project, new_state, moment, moment)
        ON CONFLICT DO NOTHING;
    ELSE
        UPDATE projects SET state = new_state, updated = moment
        WHERE workspace = asked_workspace AND project = asked_project AND state = seen;
    END IF;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF sweeping THEN
        INSERT INTO sweeps VALUES (asked_workspace, asked_project, moment, moment, NULL)
        ON CONFLICT (workspace, project) DO UPDATE SET
            started = excluded.started, due = excluded.due, passed = NULL;
    ELSIF new_state = 'active' THEN
        DELETE FROM sweeps WHERE workspace = asked_workspace AND project = asked_project;
    END IF;
    RETURN journal_append_stream(stream, expected_version, versions, topics, states);
END $$;

-- End a signing key and append the event that says so to the deployment's stream, if that ends at `expected_version`.
-- The lock comes first: the event's transaction gets its id after those of all appends by the key.
CREATE FUNCTION signing_key_end(
    stream uuid, expected_version bigint, versions bigint[], topics text[], states bytea[],
    ended bytea, new_state text
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(7309, hashtext(encode(ended, 'hex')));
    IF NOT journal_append_stream(stream, expected_version, versions, topics, states) THEN
        RETURN false;
    END IF;
    INSERT INTO signing_keys VALUES (ended, new_state)
    ON CONFLICT (kid) DO UPDATE SET state = excluded.state;
    RETURN true;
END $$;

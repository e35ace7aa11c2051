-- Version 9: the runs of a suspended tenant are cancelled, and take no answer until then.

-- Tenants whose runs are being cancelled; `project` is empty for a whole workspace. Whoever moves `due` on holds the
-- work until then. `passed`: when a search for unfinished runs first found none.
CREATE TABLE sweeps (
    workspace text NOT NULL,
    project text NOT NULL,
    started bigint NOT NULL,
    due bigint NOT NULL,
    passed bigint,
    PRIMARY KEY (workspace, project)
);

DROP FUNCTION journal_append;

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

-- Version 10: signing keys that have ended sign nothing more.

-- Signing keys that have ended, by the first 8 bytes of the events they signed. A missing row counts as active. A row
-- comes with the event of the deployment's stream that says so.
CREATE TABLE signing_keys (
    kid bytea NOT NULL,
    state text NOT NULL,
    PRIMARY KEY (kid)
);

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

DROP FUNCTION journal_append_stream;

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

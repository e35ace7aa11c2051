-- Version 3: workspaces and projects, idempotency keys, links that are killed.

-- What may go on where. A tenant without a row is active, so that a deployment that never made one has none.
CREATE TABLE workspaces (
    workspace text NOT NULL,
    state text NOT NULL CHECK (state IN ('active', 'suspended', 'closing', 'closed')),
    created bigint NOT NULL,
    updated bigint NOT NULL,
    PRIMARY KEY (workspace)
);

CREATE TABLE projects (
    workspace text NOT NULL,
    project text NOT NULL,
    state text NOT NULL CHECK (state IN ('active', 'suspended')),
    created bigint NOT NULL,
    updated bigint NOT NULL,
    PRIMARY KEY (workspace, project)
);

-- Idempotency keys. `scope` is a keyed hash of who asked for what under which key, `request` one of the whole
-- request. `run_id` is the run that came of it, if the effect was a run's. `reply` is sealed.
CREATE TABLE replies (
    scope bytea NOT NULL,
    request bytea NOT NULL,
    run_id uuid,
    created bigint NOT NULL,
    expires bigint NOT NULL,
    reply bytea,
    PRIMARY KEY (scope)
);
ALTER TABLE replies ALTER COLUMN reply SET STORAGE EXTERNAL;
CREATE INDEX replies_expires ON replies (expires);

ALTER TYPE journal_view ADD ATTRIBUTE tenant text;

DROP FUNCTION journal_append;

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

-- Write what wins, and return the numbers of the winners (from 1, in their order in `run_ids`).
--
-- The locks come before anything is written: a transaction gets its id at its first write, and one that got it
-- and then waited for a run's row would put version n + 1 before n in the order of commits. They are taken in
-- one order by everybody, so batches can't deadlock. Each statement below sees what was committed before the
-- locks were granted.
--
-- A run of a tenant that isn't active is never begun. An idempotency key that is kept already makes its append
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
    reply_items bigint[], scopes bytea[], requests bytea[], reply_createds bigint[], reply_expireses bigint[]
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
        IF expected_versions[number] = 0 AND tenant_state(workspaces[number], projects[number]) <> 'active' THEN
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

-- A run as its view is served: first row the control row with first and newest event and the newest one's
-- content, then a row for each open wait with the event that opened it and the one that paused the run on it.
CREATE OR REPLACE FUNCTION journal_read_record(run uuid) RETURNS SETOF journal_view LANGUAGE plpgsql STABLE
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
CREATE OR REPLACE FUNCTION journal_read_wait(run uuid, opened_at bigint) RETURNS SETOF journal_view
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

-- Lease due runs to the caller: hinted ones first; of the room that is left two thirds for the newest ready
-- and one third for the oldest due. The remainder is drawn (`draw` is 0, 1 or 2), so that who claims one run at
-- a time still looks at the oldest every third time. A lost claim costs a lease time, so its commit doesn't wait
-- for the disk.
CREATE OR REPLACE FUNCTION journal_claim(
    moment bigint, until bigint, room bigint, draw bigint, leases uuid[], loaded bytea[], hinted uuid[],
    grace bigint
) RETURNS TABLE (run_id uuid, lease_id uuid) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    taken uuid[] := '{}';
    more uuid[];
    rest bigint;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    IF cardinality(hinted) > 0 THEN
        taken := ARRAY(
            SELECT c.run_id FROM run_control AS c
            WHERE c.run_id = ANY (hinted)
              AND (c.status IN ('pending', 'running') OR c.status = 'suspended' AND c.due <= moment)
              AND (c.lease_id IS NULL OR c.lease_until <= moment)
              AND (c.definition = ANY (loaded) OR c.due <= moment - grace)
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
          AND tenant_state(c.workspace, c.project) = 'active'
        ORDER BY c.due DESC LIMIT rest - rest / 3 - (draw < rest % 3)::integer FOR UPDATE SKIP LOCKED
    );
    taken := taken || more;
    more := ARRAY(
        SELECT c.run_id FROM run_control AS c
        WHERE c.status IN ('pending', 'running', 'suspended') AND c.due <= moment AND c.run_id <> ALL (taken)
          AND (c.lease_id IS NULL OR c.lease_until <= moment)
          AND (c.definition = ANY (loaded) OR c.due <= moment - grace)
          AND tenant_state(c.workspace, c.project) = 'active'
        ORDER BY c.due LIMIT room - cardinality(taken) FOR UPDATE SKIP LOCKED
    );
    taken := taken || more;
    RETURN QUERY
    UPDATE run_control AS c SET lease_id = t.lease_id, lease_until = until, due = until
    FROM unnest(taken, leases[:cardinality(taken)]) AS t (run_id, lease_id)
    WHERE c.run_id = t.run_id
    RETURNING c.run_id, c.lease_id;
END $$;

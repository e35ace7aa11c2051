-- Version 4: workers that are lost again and again, parked runs that are offered, claims that pass workspaces.

-- What has neither a call nor a deadline: parked runs, which are few.
CREATE INDEX waits_parked ON waits (run_id) WHERE closed IS NULL AND call_key IS NULL AND due IS NULL;

-- Scratch: how often a run's worker was lost while the run was at this version. Written only when a lease has run
-- out.
CREATE TABLE lost_workers (
    run_id uuid NOT NULL,
    version bigint NOT NULL,
    times bigint NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (run_id)
);

DROP FUNCTION journal_claim;

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

-- The list of open waits, and events that leave a run's status as it was.

-- A row is there from the event that opens a wait to the one that closes it; a text that isn't there is empty.
-- `since` is when the run came to wait for it, oldest first; a wait token whose run hasn't reached it has none and
-- isn't listed. `key` is the wait's id.
CREATE TABLE waits_list (
    generation bigint NOT NULL,
    since bigint,
    due bigint,
    opened bigint NOT NULL,
    run_id uuid NOT NULL,
    workspace text NOT NULL,
    project text NOT NULL,
    kind text NOT NULL,
    key text NOT NULL,
    op text NOT NULL,
    node text NOT NULL,
    tool text NOT NULL,
    tool_version text NOT NULL,
    name text NOT NULL,
    line text NOT NULL,
    PRIMARY KEY (generation, run_id, key)
) WITH (
    fillfactor = 90,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_scale_factor = 0.05
);
-- Each ends in the list's order. Most waits are wait tokens, so an index of kinds has the others alone; a run's few
-- waits are found by the primary key.
CREATE INDEX waits_list_since ON waits_list (generation, workspace, since, run_id, opened) WHERE since IS NOT NULL;
CREATE INDEX waits_list_kind ON waits_list (generation, workspace, kind, since, run_id, opened)
    WHERE since IS NOT NULL AND kind <> 'token';
CREATE INDEX waits_list_name ON waits_list (generation, workspace, name, since, run_id, opened)
    WHERE since IS NOT NULL AND name <> '';
CREATE INDEX waits_list_tool ON waits_list (generation, workspace, tool, since, run_id, opened)
    WHERE since IS NOT NULL AND tool <> '';

-- Apply changes one after the other; what each field means to which change is in `abeyance.projections.waits_list`.
CREATE FUNCTION waits_list_apply(
    gen bigint, seen bigint, is_live boolean, moved_to bigint,
    whats text[], run_ids uuid[], keys text[], ops text[], kinds text[], openeds bigint[], sinces bigint[],
    dues bigint[], nodes text[], tools text[], tool_versions text[], names text[], lines text[]
) RETURNS boolean LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE read_models SET position = moved_to
    WHERE read_models.name = 'waits' AND generation = gen AND position = seen AND live = is_live;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    FOR n IN 1 .. cardinality(whats) LOOP
        CASE whats[n]
        WHEN 'open' THEN
            INSERT INTO waits_list (generation, since, due, opened, run_id, workspace, project, kind, key, op, node,
                                    tool, tool_version, name, line)
            SELECT gen, sinces[n], dues[n], openeds[n], run_ids[n], coalesce(max(c.workspace), 'default'),
                   coalesce(max(c.project), 'default'), kinds[n], keys[n], ops[n], nodes[n], tools[n],
                   tool_versions[n], names[n], lines[n]
            FROM run_control AS c WHERE c.run_id = run_ids[n]
            ON CONFLICT (generation, run_id, key) DO UPDATE SET
                since = excluded.since, due = excluded.due, opened = excluded.opened, line = excluded.line,
                op = excluded.op, node = excluded.node;
        WHEN 'reach' THEN
            UPDATE waits_list AS w SET since = sinces[n], due = dues[n], name = names[n], line = lines[n]
            WHERE w.generation = gen AND w.run_id = run_ids[n] AND w.key = keys[n];
        WHEN 'move' THEN
            UPDATE waits_list AS w SET due = dues[n]
            WHERE w.generation = gen AND w.run_id = run_ids[n] AND w.key = keys[n];
        WHEN 'close' THEN
            DELETE FROM waits_list AS w WHERE w.generation = gen AND w.run_id = run_ids[n] AND w.key = keys[n];
        WHEN 'close-call' THEN
            DELETE FROM waits_list AS w
            WHERE w.generation = gen AND w.run_id = run_ids[n] AND w.kind = 'token' AND w.op = ops[n];
        WHEN 'close-losers' THEN
            DELETE FROM waits_list AS w
            WHERE w.generation = gen AND w.run_id = run_ids[n]
              AND starts_with(w.op, ops[n] || '.b') AND NOT starts_with(w.op, keys[n]);
        WHEN 'close-all' THEN
            DELETE FROM waits_list AS w WHERE w.generation = gen AND w.run_id = run_ids[n];
        END CASE;
    END LOOP;
    RETURN true;
END $$;

-- Drop some rows of older generations; how many there were.
CREATE FUNCTION waits_list_clear(gen bigint, most bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    cleared bigint;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    DELETE FROM waits_list WHERE (generation, run_id, key) IN (
        SELECT generation, run_id, key FROM waits_list WHERE generation < gen LIMIT most
    );
    GET DIAGNOSTICS cleared = ROW_COUNT;
    RETURN cleared;
END $$;

-- A change without a status leaves it as it was.
CREATE OR REPLACE FUNCTION runs_list_apply(
    gen bigint, seen bigint, is_live boolean, moved_to bigint,
    run_ids uuid[], createds bigint[], versions bigint[], statuses text[], definition_ids text[],
    label_runs uuid[], label_names text[], label_values text[],
    changed_runs uuid[], changed_versions bigint[], changed_statuses text[]
) RETURNS boolean LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE read_models SET position = moved_to
    WHERE name = 'runs' AND generation = gen AND position = seen AND live = is_live;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO runs_list (generation, run_id, created, version, status, definition)
    SELECT gen, n.* FROM unnest(run_ids, createds, versions, statuses, definition_ids) AS n;
    IF cardinality(label_runs) > 0 THEN
        INSERT INTO runs_list_labels (generation, name, value, run_id)
        SELECT gen, l.* FROM unnest(label_names, label_values, label_runs) AS l;
    END IF;
    UPDATE runs_list AS r SET version = c.version, status = coalesce(nullif(c.status, ''), r.status)
    FROM unnest(changed_runs, changed_versions, changed_statuses) AS c (run_id, version, status)
    WHERE r.generation = gen AND r.run_id = c.run_id;
    RETURN true;
END $$;

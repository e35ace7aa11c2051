-- The following read models on PostgreSQL. Times are microseconds since the epoch, every integer is a bigint.
-- What a crash takes of them is made again from the journal, so their commits don't wait for the disk.

CREATE TABLE read_models_version (
    version bigint PRIMARY KEY,
    applied bigint NOT NULL
);

-- How far each generation of a model is; the live one is read.
CREATE TABLE read_models (
    generation bigint NOT NULL,
    position bigint NOT NULL,
    live boolean NOT NULL,
    name text NOT NULL,
    PRIMARY KEY (name, generation)
);

-- Which process follows in the background, until when by this server's clock.
CREATE TABLE follower_lease (
    holder uuid NOT NULL,
    until bigint NOT NULL,
    one boolean PRIMARY KEY DEFAULT true CHECK (one)
);

-- The list of runs. Its order, newest first, is that of the ids.
CREATE TABLE runs_list (
    generation bigint NOT NULL,
    created bigint NOT NULL,
    version bigint NOT NULL,
    run_id uuid NOT NULL,
    status text NOT NULL,
    definition text NOT NULL,
    PRIMARY KEY (generation, run_id)
) WITH (
    fillfactor = 90,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_scale_factor = 0.05
);
CREATE INDEX runs_list_status ON runs_list (generation, status, run_id);
CREATE INDEX runs_list_definition ON runs_list (generation, definition, run_id);

CREATE TABLE runs_list_labels (
    generation bigint NOT NULL,
    name text NOT NULL,
    value text NOT NULL,
    run_id uuid NOT NULL,
    PRIMARY KEY (generation, name, value, run_id)
);

CREATE FUNCTION read_model_place(model text) RETURNS TABLE (generation bigint, "position" bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF NOT EXISTS (SELECT FROM read_models WHERE name = model AND live) THEN
        INSERT INTO read_models (name, generation, position, live) VALUES (model, 1, 0, true)
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN QUERY SELECT m.generation, m.position FROM read_models AS m WHERE m.name = model AND m.live;
END $$;

-- A new generation beside the live one. Those who ask at once get their own, one after the other.
CREATE FUNCTION read_model_begin(model text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    newest bigint;
BEGIN
    PERFORM FROM read_model_place(model);
    PERFORM FROM read_models WHERE name = model AND live FOR UPDATE;
    SELECT max(generation) INTO newest FROM read_models WHERE name = model;
    INSERT INTO read_models (name, generation, position, live) VALUES (model, newest + 1, 0, false);
    RETURN newest + 1;
END $$;

-- Make a generation the live one, unless it is behind or gone.
CREATE FUNCTION read_model_swap(model text, gen bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM read_models WHERE name = model ORDER BY generation FOR UPDATE;
    IF NOT EXISTS (
        SELECT FROM read_models AS new JOIN read_models AS old ON old.name = new.name AND old.live
        WHERE new.name = model AND new.generation = gen AND new.position >= old.position
    ) THEN
        RETURN false;
    END IF;
    UPDATE read_models SET live = (generation = gen) WHERE name = model;
    RETURN true;
END $$;

CREATE FUNCTION runs_list_apply(
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
    UPDATE runs_list AS r SET version = c.version, status = c.status
    FROM unnest(changed_runs, changed_versions, changed_statuses) AS c (run_id, version, status)
    WHERE r.generation = gen AND r.run_id = c.run_id;
    RETURN true;
END $$;

-- Drop some rows of older generations; how many there were.
CREATE FUNCTION runs_list_clear(gen bigint, most bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    cleared bigint;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    DELETE FROM runs_list WHERE (generation, run_id) IN (
        SELECT generation, run_id FROM runs_list WHERE generation < gen LIMIT most
    );
    GET DIAGNOSTICS cleared = ROW_COUNT;
    IF cleared = 0 THEN
        DELETE FROM runs_list_labels WHERE (generation, name, value, run_id) IN (
            SELECT generation, name, value, run_id FROM runs_list_labels WHERE generation < gen LIMIT most
        );
        GET DIAGNOSTICS cleared = ROW_COUNT;
    END IF;
    RETURN cleared;
END $$;

-- Take or prolong the lease on following in the background.
CREATE FUNCTION follower_lead(who uuid, micros bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    moment bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO follower_lease AS l (holder, until) VALUES (who, moment + micros)
    ON CONFLICT (one) DO UPDATE SET holder = excluded.holder, until = excluded.until
    WHERE l.holder = who OR l.until <= moment;
    RETURN FOUND;
END $$;

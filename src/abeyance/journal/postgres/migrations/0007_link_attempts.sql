-- Version 7: attempts at links.

-- What was tried at links, per wait token: how often there was each verdict, and the newest attempts. Scratch,
-- written behind the replies: no link, no body, no address; `client` is a keyed hash.
CREATE TABLE link_counts (
    run_id uuid NOT NULL,
    call_key uuid NOT NULL,
    ordinal bigint NOT NULL,
    times bigint NOT NULL,
    verdict text NOT NULL,
    PRIMARY KEY (run_id, call_key, ordinal, verdict)
) WITH (fillfactor = 70);

CREATE TABLE link_attempts (
    run_id uuid NOT NULL,
    call_key uuid NOT NULL,
    ordinal bigint NOT NULL,
    number bigint NOT NULL,
    at bigint NOT NULL,
    size bigint,
    verdict text NOT NULL,
    client bytea NOT NULL,
    PRIMARY KEY (run_id, call_key, ordinal, number)
);

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

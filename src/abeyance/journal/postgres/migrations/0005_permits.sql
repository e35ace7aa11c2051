-- Version 5: permits, which bound how often a client may use links.

-- Permits: how many requests of one client may pass in a minute. The rules are in `abeyance/journal/permits.py`:
-- a window is three arrays of charges, a charge counts for a minute. `key` is a keyed hash of the client. The
-- table is scratch: unlogged, so that drawing writes no log and waits for no disk; a crash of the server empties
-- it. `minute` is the one after which nothing in the row counts any more.
CREATE UNLOGGED TABLE permits (
    key bytea NOT NULL,
    minute bigint NOT NULL,
    ats bigint[] NOT NULL,
    counts bigint[] NOT NULL,
    blocks uuid[] NOT NULL,
    PRIMARY KEY (key)
) WITH (fillfactor = 50);
CREATE INDEX permits_minute ON permits (minute);

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

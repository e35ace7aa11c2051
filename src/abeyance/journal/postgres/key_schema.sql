-- The keys on PostgreSQL, apart from the journal: a schema of their own, in the same database or another.

CREATE SCHEMA abeyance_keys;

CREATE TABLE abeyance_keys.schema_migrations (
    version bigint PRIMARY KEY,
    applied bigint NOT NULL
);

-- Epoch keys, each wrapped by the master key. New keys are wrapped by the newest.
CREATE TABLE abeyance_keys.epochs (
    epoch bigint NOT NULL,
    wrapped bytea NOT NULL,
    PRIMARY KEY (epoch)
);

-- 256 keys a row, each wrapped to 40 bytes; a deleted one is 40 zeros. A key's id is 256 times its block's number
-- and its place in it. That is a third of a row a key.
CREATE TABLE abeyance_keys.blocks (
    block bigint NOT NULL,
    epoch bigint NOT NULL,
    wrapped bytea NOT NULL,
    PRIMARY KEY (block)
);
ALTER TABLE abeyance_keys.blocks ALTER COLUMN wrapped SET STORAGE EXTERNAL;

CREATE TABLE abeyance_keys.secrets (
    epoch bigint NOT NULL,
    name text NOT NULL,
    wrapped bytea NOT NULL,
    PRIMARY KEY (name)
);

-- Numbers of blocks. A process takes whole blocks, so no key is ever given twice.
CREATE SEQUENCE abeyance_keys.block_numbers AS bigint;

-- A new epoch waits for whoever writes under an old one, and whoever writes after it sees it: when a rotation
-- starts to wrap anew, nothing is added under an old epoch any more.
CREATE FUNCTION abeyance_keys.add_epoch(new_epoch bigint, new_wrapped bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(7307, 0);
    INSERT INTO abeyance_keys.epochs (epoch, wrapped) VALUES (new_epoch, new_wrapped) ON CONFLICT DO NOTHING;
END $$;

CREATE FUNCTION abeyance_keys.is_newest(known bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(7307, 0);
    RETURN known = (SELECT max(epoch) FROM abeyance_keys.epochs);
END $$;

-- Store a block of keys and return its number; NULL if their epoch isn't the newest any more.
CREATE FUNCTION abeyance_keys.add_block(known bigint, keys bytea) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    number bigint;
BEGIN
    IF NOT abeyance_keys.is_newest(known) THEN
        RETURN NULL;
    END IF;
    number := nextval('abeyance_keys.block_numbers');
    INSERT INTO abeyance_keys.blocks (block, epoch, wrapped) VALUES (number, known, keys);
    RETURN number;
END $$;

-- The keys that still exist.
CREATE FUNCTION abeyance_keys.get_keys(key_ids bigint[]) RETURNS TABLE (key_id bigint, epoch bigint, wrapped bytea)
LANGUAGE sql STABLE AS $$
    SELECT k.key_id, b.epoch, substring(b.wrapped FROM (k.key_id % 256 * 40 + 1)::integer FOR 40)
    FROM unnest(key_ids) AS k (key_id)
    JOIN abeyance_keys.blocks AS b ON b.block = k.key_id / 256
    WHERE substring(b.wrapped FROM (k.key_id % 256 * 40 + 1)::integer FOR 40) <> decode(repeat('00', 40), 'hex')
$$;

-- Destroy keys, a block after the other in the order of their numbers, as everybody does who writes several.
CREATE FUNCTION abeyance_keys.delete_keys(key_ids bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    key_id bigint;
BEGIN
    FOR key_id IN SELECT DISTINCT k.key_id FROM unnest(key_ids) AS k (key_id) ORDER BY 1 LOOP
        UPDATE abeyance_keys.blocks SET wrapped = overlay(
            wrapped PLACING decode(repeat('00', 40), 'hex') FROM (key_id % 256 * 40 + 1)::integer
        ) WHERE block = key_id / 256;
    END LOOP;
END $$;

-- Put a block that was wrapped anew in the place of the one it was made from; false if that changed meanwhile.
CREATE FUNCTION abeyance_keys.rewrap_block(number bigint, seen bytea, new_epoch bigint, new_wrapped bytea)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE abeyance_keys.blocks SET epoch = new_epoch, wrapped = new_wrapped
    WHERE block = number AND wrapped = seen;
    RETURN FOUND;
END $$;

-- Store a secret unless there is one of this name, or its epoch isn't the newest any more.
CREATE FUNCTION abeyance_keys.add_secret(known bigint, new_name text, new_wrapped bytea) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF abeyance_keys.is_newest(known) THEN
        INSERT INTO abeyance_keys.secrets (epoch, name, wrapped) VALUES (known, new_name, new_wrapped)
        ON CONFLICT DO NOTHING;
    END IF;
END $$;

-- The newest checkpoint of the log, kept apart from the journal: a journal that is behind it is an old copy.
CREATE TABLE abeyance_keys.kept_checkpoint (
    size bigint NOT NULL,
    note text NOT NULL,
    one boolean PRIMARY KEY DEFAULT true CHECK (one)
);

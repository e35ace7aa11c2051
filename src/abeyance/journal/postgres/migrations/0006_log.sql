-- Version 6: the log.

-- The log: a Merkle tree over the events in sealed order, 256 hashes of 32 bytes a tile, and its newest
-- checkpoint, a signed note.
CREATE TABLE log_tiles (
    level bigint NOT NULL,
    tile bigint NOT NULL,
    hashes bytea NOT NULL,
    PRIMARY KEY (level, tile)
);
ALTER TABLE log_tiles ALTER COLUMN hashes SET STORAGE EXTERNAL;

CREATE TABLE log_head (
    size bigint NOT NULL,
    note text NOT NULL,
    one boolean PRIMARY KEY DEFAULT true CHECK (one)
);
INSERT INTO log_head (size, note) VALUES (0, '');

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

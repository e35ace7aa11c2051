-- The log: a Merkle tree over the events in sealed order, 256 hashes of 32 bytes a tile, and its newest
-- checkpoint, a signed note.
CREATE TABLE log_tiles (
    level INTEGER NOT NULL,
    tile INTEGER NOT NULL,
    hashes BLOB NOT NULL,
    PRIMARY KEY (level, tile)
);

CREATE TABLE log_head (
    size INTEGER NOT NULL,
    note TEXT NOT NULL
);

-- Run keys and secrets, each wrapped (RFC 3394) by the epoch key that is in a file beside this database.
-- Migrations lead to exactly this; a test compares them.

CREATE TABLE schema_version (version INTEGER NOT NULL);

-- The number in the name of the epoch key's file; 0 until the first one was written.
CREATE TABLE epoch (number INTEGER NOT NULL);
INSERT INTO epoch (number) VALUES (0);

-- AUTOINCREMENT: the id of a destroyed key never comes back.
CREATE TABLE run_keys (
    key_id INTEGER PRIMARY KEY AUTOINCREMENT,
    wrapped BLOB NOT NULL
);

CREATE TABLE secrets (
    name TEXT NOT NULL PRIMARY KEY,
    wrapped BLOB NOT NULL
) WITHOUT ROWID;

-- The newest checkpoint of the log, kept apart from the journal: a journal that is behind it is an old copy.
CREATE TABLE kept_checkpoint (
    size INTEGER NOT NULL,
    note TEXT NOT NULL
);

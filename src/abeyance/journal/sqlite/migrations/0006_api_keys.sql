-- API keys. `digest` is SHA-256 of the key's text, 32 random bytes in it, which is stored nowhere. A row is changed
-- with the event of its workspace's stream that says so. `grants` and `executes` are JSON arrays of texts.
CREATE TABLE api_keys (
    digest BLOB NOT NULL PRIMARY KEY,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    workspace TEXT NOT NULL,
    project TEXT,
    grants TEXT NOT NULL,
    executes TEXT,
    created INTEGER NOT NULL,
    expires INTEGER,
    revoked INTEGER,
    actor TEXT
) WITHOUT ROWID;
CREATE UNIQUE INDEX api_keys_id ON api_keys (workspace, id);

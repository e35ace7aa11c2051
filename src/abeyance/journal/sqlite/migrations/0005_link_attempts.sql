-- What was tried at links, per wait token: how often there was each verdict, and the newest attempts. Scratch,
-- written behind the replies: no link, no body, no address; `client` is a keyed hash.
CREATE TABLE link_counts (
    run_id BLOB NOT NULL,
    call_key BLOB NOT NULL,
    ordinal INTEGER NOT NULL,
    verdict TEXT NOT NULL,
    times INTEGER NOT NULL,
    PRIMARY KEY (run_id, call_key, ordinal, verdict)
) WITHOUT ROWID;

CREATE TABLE link_attempts (
    run_id BLOB NOT NULL,
    call_key BLOB NOT NULL,
    ordinal INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    verdict TEXT NOT NULL,
    size INTEGER,
    client BLOB NOT NULL,
    PRIMARY KEY (run_id, call_key, ordinal, number)
) WITHOUT ROWID;

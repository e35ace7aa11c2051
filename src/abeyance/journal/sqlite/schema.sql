-- The journal on SQLite. Migrations lead to exactly this; a test compares them.
--
-- Ids are 16 bytes, except in `journal_events`, whose reader is also the eventsourcing library: it looks
-- streams up by the hex text of their id. Times are microseconds since the epoch. Whatever a person or a
-- definition named is TEXT, so that `00123` stays `00123`.

CREATE TABLE schema_version (version INTEGER NOT NULL);

-- AUTOINCREMENT: a number is never given twice, so the order of numbers is the order of commits.
CREATE TABLE journal_events (
    rowid INTEGER PRIMARY KEY AUTOINCREMENT,
    originator_id TEXT NOT NULL,
    originator_version INTEGER NOT NULL,
    topic TEXT NOT NULL,
    state BLOB NOT NULL,
    UNIQUE (originator_id, originator_version)
);

-- `event` is the rowid of the content's event: 20 bytes less a row than run and version, and no second index.
CREATE TABLE contents (
    event INTEGER PRIMARY KEY,
    blob BLOB NOT NULL
);

CREATE TABLE run_control (
    run_id BLOB NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    head BLOB NOT NULL,
    status TEXT NOT NULL,
    due INTEGER,
    lease_id BLOB,
    lease_until INTEGER,
    definition BLOB NOT NULL,
    key_id INTEGER NOT NULL,
    key_state TEXT NOT NULL,
    workspace TEXT NOT NULL,
    project TEXT NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL
) WITHOUT ROWID;

-- The agenda. Runs that are ready or leased are apart from sleeping deadlines, so that a million waiting
-- runs don't stand between a worker and the few that can go on. `lease_until` is in no index: a renewal
-- rewrites one row.
CREATE INDEX run_control_ready ON run_control (due) WHERE status IN ('pending', 'running');
CREATE INDEX run_control_sleeping ON run_control (due) WHERE status = 'suspended';
CREATE INDEX run_control_leased ON run_control (lease_id) WHERE lease_id IS NOT NULL;

CREATE TABLE waits (
    run_id BLOB NOT NULL,
    opened INTEGER NOT NULL,
    call_key BLOB,
    ordinal INTEGER,
    state TEXT NOT NULL,
    paused INTEGER,
    answer INTEGER,
    due INTEGER,
    closed INTEGER,
    PRIMARY KEY (run_id, opened)
) WITHOUT ROWID;

CREATE INDEX waits_call ON waits (call_key, ordinal) WHERE call_key IS NOT NULL;
CREATE INDEX waits_open ON waits (run_id) WHERE closed IS NULL;
-- What has neither a call nor a deadline: parked runs, which are few.
CREATE INDEX waits_parked ON waits (run_id) WHERE closed IS NULL AND call_key IS NULL AND due IS NULL;

CREATE TABLE links (
    digest BLOB NOT NULL PRIMARY KEY,
    run_id BLOB NOT NULL,
    opened INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE definitions (
    digest BLOB NOT NULL PRIMARY KEY,
    document BLOB NOT NULL
);

-- A tile names 256 events in sealed order: run id (16 bytes) and version (8 bytes, big-endian) each.
-- `first_event` is the rowid of its first one.
CREATE TABLE sealed_tiles (
    tile INTEGER PRIMARY KEY,
    first_event INTEGER NOT NULL,
    entries BLOB NOT NULL
);

CREATE TABLE sealer (
    size INTEGER NOT NULL,
    last_event INTEGER NOT NULL
);
INSERT INTO sealer (size, last_event) VALUES (0, 0);

-- What may go on where. A tenant without a row is active, so that a deployment that never made one has none.
CREATE TABLE workspaces (
    workspace TEXT NOT NULL PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('active', 'suspended', 'closing', 'closed')),
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE projects (
    workspace TEXT NOT NULL,
    project TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('active', 'suspended')),
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    PRIMARY KEY (workspace, project)
) WITHOUT ROWID;

-- Idempotency keys. `scope` is a keyed hash of who asked for what under which key, `request` one of the whole
-- request. `run_id` is the run that came of it, if the effect was a run's. `reply` is sealed.
CREATE TABLE replies (
    scope BLOB NOT NULL PRIMARY KEY,
    request BLOB NOT NULL,
    run_id BLOB,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    reply BLOB
) WITHOUT ROWID;
CREATE INDEX replies_expires ON replies (expires);

-- Scratch: how often a run's worker was lost while the run was at this version. Written only when a lease has run
-- out, or its process is known to be dead.
CREATE TABLE lost_workers (
    run_id BLOB NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    times INTEGER NOT NULL,
    at INTEGER NOT NULL
) WITHOUT ROWID;

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

-- Tenants whose runs are being cancelled; `project` is empty for a whole workspace. Whoever moves `due` on holds the
-- work until then. `passed`: when a search for unfinished runs first found none.
CREATE TABLE sweeps (
    workspace TEXT NOT NULL,
    project TEXT NOT NULL,
    started INTEGER NOT NULL,
    due INTEGER NOT NULL,
    passed INTEGER,
    PRIMARY KEY (workspace, project)
) WITHOUT ROWID;

-- Signing keys that have ended, by the first 8 bytes of the events they signed. A missing row counts as active. A row
-- comes with the event of the deployment's stream that says so.
CREATE TABLE signing_keys (
    kid BLOB NOT NULL PRIMARY KEY,
    state TEXT NOT NULL
) WITHOUT ROWID;

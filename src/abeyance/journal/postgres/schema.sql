-- The journal's tables on PostgreSQL 14 and later, as they are after all migrations. Its functions are in
-- functions.sql.
--
-- Times are microseconds since the epoch, every integer is a bigint, enums are text. No table has a foreign
-- key to the events: its check would lock rows out of the order that deadlocks are avoided by. Columns stand
-- in an order that needs no padding.

CREATE TABLE schema_migrations (
    version bigint PRIMARY KEY,
    applied bigint NOT NULL
);

-- Every event of every stream, as it was signed. `tx` and `notification_id` order what is committed: see
-- journal_unsealed. `content` is what an event holds of a person's words, sealed under the run's key: an erasure
-- sets it to NULL and touches no signed column. A table of its own for it would cost a run 250 bytes more.
CREATE TABLE journal_events (
    originator_id uuid NOT NULL,
    originator_version bigint NOT NULL,
    notification_id bigserial NOT NULL,
    tx xid8 NOT NULL DEFAULT pg_current_xact_id(),
    topic text NOT NULL,
    state bytea NOT NULL,
    content bytea,
    PRIMARY KEY (originator_id, originator_version)
);
-- What is deflated, signed or encrypted can't be compressed.
ALTER TABLE journal_events ALTER COLUMN state SET STORAGE EXTERNAL, ALTER COLUMN content SET STORAGE EXTERNAL;
-- Without notification_id: events of one transaction share an entry, which halves the index.
CREATE INDEX journal_events_order ON journal_events (tx);

-- One row a run, for ever: the arbiter of every append, the agenda, and what lists are made from.
CREATE TABLE run_control (
    run_id uuid NOT NULL,
    version bigint NOT NULL,
    key_id bigint NOT NULL,
    created bigint NOT NULL,
    updated bigint NOT NULL,
    due bigint,
    lease_until bigint,
    lease_id uuid,
    head bytea NOT NULL,
    definition bytea NOT NULL,
    status text NOT NULL
        CHECK (status IN ('pending', 'running', 'suspended', 'completed', 'failed', 'cancelled')),
    key_state text NOT NULL CHECK (key_state IN ('live', 'erased')),
    workspace text NOT NULL,
    project text NOT NULL,
    PRIMARY KEY (run_id)
) WITH (
    fillfactor = 80,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX run_control_due ON run_control (due) WHERE status IN ('pending', 'running', 'suspended');
-- Ready and leased runs apart from sleeping deadlines, of which there may be a million.
CREATE INDEX run_control_ready ON run_control (due) WHERE status IN ('pending', 'running');
CREATE INDEX run_control_lease ON run_control (lease_id) WHERE lease_id IS NOT NULL;

CREATE TABLE waits (
    run_id uuid NOT NULL,
    opened bigint NOT NULL,
    call_key uuid,
    ordinal bigint,
    paused bigint,
    answer bigint,
    due bigint,
    closed bigint,
    state text NOT NULL
        CHECK (state IN ('open', 'answered', 'waiting', 'completed', 'timed-out', 'cancelled', 'unused')),
    PRIMARY KEY (run_id, opened)
);
-- What has neither a call nor a deadline: parked runs, which are few.
CREATE INDEX waits_parked ON waits (run_id) WHERE closed IS NULL AND call_key IS NULL AND due IS NULL;

CREATE TABLE links (
    run_id uuid NOT NULL,
    opened bigint NOT NULL,
    digest bytea NOT NULL,
    PRIMARY KEY (digest)
);

CREATE TABLE definitions (
    digest bytea NOT NULL,
    document bytea NOT NULL,
    PRIMARY KEY (digest)
);

-- The sealed index, 256 events a tile: 24 bytes an event, its stream's id and its version. `first_tx` and
-- `first_id` are the first event's place in the order of commits.
CREATE TABLE sealed_tiles (
    tile bigint NOT NULL,
    first_tx xid8 NOT NULL,
    first_id bigint NOT NULL,
    entries bytea NOT NULL,
    PRIMARY KEY (tile)
);
ALTER TABLE sealed_tiles ALTER COLUMN entries SET STORAGE EXTERNAL;

-- One row: how many events have their index, and the last pair that was looked at.
CREATE TABLE sealer (
    size bigint NOT NULL,
    last_tx xid8 NOT NULL,
    last_id bigint NOT NULL,
    one boolean PRIMARY KEY DEFAULT true CHECK (one)
);
INSERT INTO sealer VALUES (0, '0', 0);

-- Events that were passed because their predecessor had not been seen. Empty as long as every writer locks
-- its run first.
CREATE TABLE sealer_held (
    originator_id uuid NOT NULL,
    originator_version bigint NOT NULL,
    PRIMARY KEY (originator_id, originator_version)
);

-- What may go on where. A tenant without a row is active, so that a deployment that never made one has none.
CREATE TABLE workspaces (
    workspace text NOT NULL,
    state text NOT NULL CHECK (state IN ('active', 'suspended', 'closing', 'closed')),
    created bigint NOT NULL,
    updated bigint NOT NULL,
    PRIMARY KEY (workspace)
);

CREATE TABLE projects (
    workspace text NOT NULL,
    project text NOT NULL,
    state text NOT NULL CHECK (state IN ('active', 'suspended')),
    created bigint NOT NULL,
    updated bigint NOT NULL,
    PRIMARY KEY (workspace, project)
);

-- Idempotency keys. `scope` is a keyed hash of who asked for what under which key, `request` one of the whole
-- request. `run_id` is the run that came of it, if the effect was a run's. `reply` is sealed.
CREATE TABLE replies (
    scope bytea NOT NULL,
    request bytea NOT NULL,
    run_id uuid,
    created bigint NOT NULL,
    expires bigint NOT NULL,
    reply bytea,
    PRIMARY KEY (scope)
);
ALTER TABLE replies ALTER COLUMN reply SET STORAGE EXTERNAL;
CREATE INDEX replies_expires ON replies (expires);

-- Scratch: how often a run's worker was lost while the run was at this version. Written only when a lease has run
-- out.
CREATE TABLE lost_workers (
    run_id uuid NOT NULL,
    version bigint NOT NULL,
    times bigint NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (run_id)
);

-- A control row in the order of the port's tuple.
CREATE VIEW control_rows AS
SELECT run_id, version, head, status, due, lease_id, lease_until, definition, key_id, key_state, workspace,
       project, created, updated
FROM run_control;

-- A control row, a wait of the run, two of its events and a content: as much of it as a read asks for.
CREATE TYPE journal_view AS (
    run_id uuid, version bigint, head bytea, status text, due bigint, lease_id uuid, lease_until bigint,
    definition bytea, key_id bigint, key_state text, workspace text, project text, created bigint, updated bigint,
    opened bigint, call_key uuid, ordinal bigint, wait_state text, paused bigint, answer bigint, wait_due bigint,
    closed bigint,
    one_version bigint, one_topic text, one_state bytea,
    two_version bigint, two_topic text, two_state bytea,
    blob bytea,
    tenant text
);

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

-- API keys. `digest` is SHA-256 of the key's text, 32 random bytes in it, which is stored nowhere. A row is changed
-- with the event of its workspace's stream that says so.
CREATE TABLE api_keys (
    digest bytea NOT NULL,
    id text NOT NULL,
    name text NOT NULL,
    workspace text NOT NULL,
    project text,
    grants text[] NOT NULL,
    executes text[],
    created bigint NOT NULL,
    expires bigint,
    revoked bigint,
    actor text,
    PRIMARY KEY (digest)
);
CREATE UNIQUE INDEX api_keys_id ON api_keys (workspace, id);

-- Tenants whose runs are being cancelled; `project` is empty for a whole workspace. Whoever moves `due` on holds the
-- work until then. `passed`: when a search for unfinished runs first found none.
CREATE TABLE sweeps (
    workspace text NOT NULL,
    project text NOT NULL,
    started bigint NOT NULL,
    due bigint NOT NULL,
    passed bigint,
    PRIMARY KEY (workspace, project)
);

-- Signing keys that have ended, by the first 8 bytes of the events they signed. A missing row counts as active. A row
-- comes with the event of the deployment's stream that says so.
CREATE TABLE signing_keys (
    kid bytea NOT NULL,
    state text NOT NULL,
    PRIMARY KEY (kid)
);

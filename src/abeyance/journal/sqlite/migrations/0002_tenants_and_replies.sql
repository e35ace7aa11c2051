-- Workspaces and projects, idempotency keys.

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

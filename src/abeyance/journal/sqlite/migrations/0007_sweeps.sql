-- The runs of a suspended tenant are cancelled.

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

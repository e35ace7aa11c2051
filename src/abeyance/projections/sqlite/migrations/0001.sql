-- The following read models on SQLite. Ids are 16 bytes, times microseconds since the epoch.

-- How far each generation of a model is; the live one is read.
CREATE TABLE read_models (
    name TEXT NOT NULL,
    generation INTEGER NOT NULL,
    position INTEGER NOT NULL,
    live INTEGER NOT NULL,
    PRIMARY KEY (name, generation)
) WITHOUT ROWID;

-- The list of runs. Its order, newest first, is that of the ids.
CREATE TABLE runs_list (
    generation INTEGER NOT NULL,
    run_id BLOB NOT NULL,
    created INTEGER NOT NULL,
    version INTEGER NOT NULL,
    status TEXT NOT NULL,
    definition TEXT NOT NULL,
    PRIMARY KEY (generation, run_id)
) WITHOUT ROWID;
CREATE INDEX runs_list_status ON runs_list (generation, status, run_id);
CREATE INDEX runs_list_definition ON runs_list (generation, definition, run_id);

CREATE TABLE runs_list_labels (
    generation INTEGER NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    run_id BLOB NOT NULL,
    PRIMARY KEY (generation, name, value, run_id)
) WITHOUT ROWID;

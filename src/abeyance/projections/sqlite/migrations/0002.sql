-- The list of open waits. A row is there from the event that opens a wait to the one that closes it; a text that
-- isn't there is empty. `since` is when the run came to wait for it, oldest first; a wait token whose run hasn't
-- reached it has none and isn't listed. `key` is the wait's id.
CREATE TABLE waits_list (
    generation INTEGER NOT NULL,
    run_id BLOB NOT NULL,
    key TEXT NOT NULL,
    workspace TEXT NOT NULL,
    project TEXT NOT NULL,
    kind TEXT NOT NULL,
    op TEXT NOT NULL,
    opened INTEGER NOT NULL,
    since INTEGER,
    due INTEGER,
    node TEXT NOT NULL,
    tool TEXT NOT NULL,
    tool_version TEXT NOT NULL,
    name TEXT NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (generation, run_id, key)
) WITHOUT ROWID;
-- Each ends in the list's order. Most waits are wait tokens, so an index of kinds has the others alone; a run's few
-- waits are found by the primary key.
CREATE INDEX waits_list_since ON waits_list (generation, workspace, since, run_id, opened) WHERE since IS NOT NULL;
CREATE INDEX waits_list_kind ON waits_list (generation, workspace, kind, since, run_id, opened)
    WHERE since IS NOT NULL AND kind <> 'token';
CREATE INDEX waits_list_name ON waits_list (generation, workspace, name, since, run_id, opened)
    WHERE since IS NOT NULL AND name <> '';
CREATE INDEX waits_list_tool ON waits_list (generation, workspace, tool, since, run_id, opened)
    WHERE since IS NOT NULL AND tool <> '';

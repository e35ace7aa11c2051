-- Version 3: workers that are lost again and again, parked runs that are offered.

-- What has neither a call nor a deadline: parked runs, which are few.
CREATE INDEX waits_parked ON waits (run_id) WHERE closed IS NULL AND call_key IS NULL AND due IS NULL;

-- Scratch: how often a run's worker was lost while the run was at this version. Written only when a lease has run
-- out, or its process is known to be dead.
CREATE TABLE lost_workers (
    run_id BLOB NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    times INTEGER NOT NULL,
    at INTEGER NOT NULL
) WITHOUT ROWID;

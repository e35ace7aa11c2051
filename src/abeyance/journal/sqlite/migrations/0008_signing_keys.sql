-- Signing keys that have ended sign nothing more.

-- Signing keys that have ended, by the first 8 bytes of the events they signed. A missing row counts as active. A row
-- comes with the event of the deployment's stream that says so.
CREATE TABLE signing_keys (
    kid BLOB NOT NULL PRIMARY KEY,
    state TEXT NOT NULL
) WITHOUT ROWID;

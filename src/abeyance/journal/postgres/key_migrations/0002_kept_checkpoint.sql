-- Version 2: the kept checkpoint.

-- The newest checkpoint of the log, kept apart from the journal: a journal that is behind it is an old copy.
CREATE TABLE abeyance_keys.kept_checkpoint (
    size bigint NOT NULL,
    note text NOT NULL,
    one boolean PRIMARY KEY DEFAULT true CHECK (one)
);

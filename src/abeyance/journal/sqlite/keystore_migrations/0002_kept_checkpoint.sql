-- The newest checkpoint of the log, kept apart from the journal: a journal that is behind it is an old copy.
CREATE TABLE kept_checkpoint (
    size INTEGER NOT NULL,
    note TEXT NOT NULL
);

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

-- A new API key and its event, if the stream ends at `expected_version`.
CREATE FUNCTION api_key_create(
    stream uuid, expected_version bigint, versions bigint[], topics text[], states bytea[],
    id text, digest bytea, name text, workspace text, project text, grants text[], all_executes boolean,
    executes text[], created bigint, expires bigint, actor text
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF NOT journal_append_stream(stream, expected_version, versions, topics, states) THEN
        RETURN false;
    END IF;
    INSERT INTO api_keys (digest, id, name, workspace, project, grants, executes, created, expires, actor)
    VALUES (digest, id, name, workspace, project, grants, CASE WHEN all_executes THEN NULL ELSE executes END,
            created, expires, actor);
    RETURN true;
END $$;

-- The end of an API key and its event, if the stream ends at `expected_version`.
CREATE FUNCTION api_key_revoke(
    stream uuid, expected_version bigint, versions bigint[], topics text[], states bytea[],
    key_id text, revoked_at bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF NOT journal_append_stream(stream, expected_version, versions, topics, states) THEN
        RETURN false;
    END IF;
    UPDATE api_keys SET revoked = revoked_at WHERE id = key_id AND revoked IS NULL;
    RETURN true;
END $$;

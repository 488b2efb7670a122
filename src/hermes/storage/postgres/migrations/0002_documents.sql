-- Small named texts and blobs of a person, and their logs: memory, approvals, skills, queues, keys.

CREATE SEQUENCE versions;  -- a document that is removed and made again gets a version it never had
GRANT USAGE ON SEQUENCE versions TO hermes_app;

-- The reference makes a write fail that comes after its person was forgotten.
CREATE TABLE documents (
    person bigint NOT NULL REFERENCES people,
    name text COLLATE "C" NOT NULL,
    version bigint NOT NULL DEFAULT nextval('versions'),
    data bytea NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (person, name)
) PARTITION BY HASH (person);

-- One row for each record of a log, at the place where it would begin in a file.
CREATE TABLE logs (
    person bigint NOT NULL REFERENCES people,
    name text COLLATE "C" NOT NULL,
    start bigint NOT NULL,
    version bigint NOT NULL DEFAULT nextval('versions'),
    data bytea NOT NULL,
    PRIMARY KEY (person, name, start)
) PARTITION BY HASH (person);

DO $$
DECLARE
    parts int := current_setting('hermes.partitions')::int;
    each text;
BEGIN
    FOREACH each IN ARRAY ARRAY['documents', 'logs'] LOOP
        FOR part IN 0 .. parts - 1 LOOP
            EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES WITH (MODULUS %s, REMAINDER %s)',
                each || '_' || part, each, parts, part);
        END LOOP;
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', each);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', each);
        EXECUTE format('CREATE POLICY own ON %I TO hermes_app USING (person = person()) WITH CHECK (person = person())',
            each);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO hermes_app', each);
    END LOOP;
END $$;

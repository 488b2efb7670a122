-- Conversations of many people. Every table is split by person, and row-level security is forced: without the setting
-- hermes.person, which each transaction sets for itself, nobody sees a row, the owner of the tables included.

CREATE EXTENSION IF NOT EXISTS btree_gin;

CREATE FUNCTION person() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
    RETURN nullif(current_setting('hermes.person', true), '')::bigint;

CREATE TABLE people (
    person bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now(),
    last_session bigint NOT NULL DEFAULT 0,  -- numbers given out
    last_block bigint NOT NULL DEFAULT 0,
    last_node bigint NOT NULL DEFAULT 0,
    vectors_stamp bigint NOT NULL DEFAULT 0
);

CREATE TABLE sessions (
    person bigint NOT NULL,
    key bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    title text COLLATE "C",
    title_words tsvector,
    model text,
    parent bigint,
    root bigint NOT NULL,
    kind text,
    listed smallint NOT NULL DEFAULT 1,
    archived smallint NOT NULL DEFAULT 0,
    activity bigint NOT NULL DEFAULT 0,
    started_at double precision NOT NULL,
    last_active double precision NOT NULL,
    ended_at double precision,
    end_reason text,
    last_id bigint NOT NULL DEFAULT 0,
    embedded_id bigint NOT NULL DEFAULT 0,
    message_count bigint NOT NULL DEFAULT 0,
    tool_call_count bigint NOT NULL DEFAULT 0,
    said_messages bigint NOT NULL DEFAULT 0,  -- what the index of spoken words holds: its totals
    said_words bigint NOT NULL DEFAULT 0,
    preview text,
    project text,
    cwd text,
    input_tokens bigint NOT NULL DEFAULT 0,
    output_tokens bigint NOT NULL DEFAULT 0,
    cache_read_tokens bigint NOT NULL DEFAULT 0,
    cache_write_tokens bigint NOT NULL DEFAULT 0,
    reasoning_tokens bigint NOT NULL DEFAULT 0,
    api_call_count bigint NOT NULL DEFAULT 0,
    estimated_cost_usd double precision,
    actual_cost_usd double precision,
    PRIMARY KEY (person, key),
    UNIQUE (person, id),
    UNIQUE (person, title)
) PARTITION BY HASH (person);
CREATE INDEX sessions_by_activity ON sessions (person, activity) WHERE listed = 1 AND archived = 0;
CREATE INDEX sessions_by_root ON sessions (person, root) WHERE root <> key;

CREATE TABLE session_details (
    person bigint NOT NULL,
    session bigint NOT NULL,
    system_prompt text,
    details text,
    PRIMARY KEY (person, session)
) PARTITION BY HASH (person);

CREATE TABLE blocks (
    person bigint NOT NULL,
    block bigint NOT NULL,
    session bigint NOT NULL,
    first_place bigint NOT NULL,
    PRIMARY KEY (person, block)
) PARTITION BY HASH (person);
CREATE INDEX blocks_by_session ON blocks (person, session, block);

-- Texts are bytes, because a message may hold NUL, which PostgreSQL's text cannot.
CREATE TABLE messages (
    person bigint NOT NULL,
    id bigint NOT NULL,
    role text NOT NULL,
    state smallint NOT NULL DEFAULT 0,
    timestamp double precision NOT NULL,
    content bytea,
    name bytea,
    tool_calls bytea,
    tool_call_id bytea,
    token_count bigint,
    extra bytea,
    checksum bigint NOT NULL,
    length int NOT NULL DEFAULT 0,  -- words said
    said tsvector,
    tools tsvector,
    PRIMARY KEY (person, id)
) PARTITION BY HASH (person);
-- New words wait in a short list that every search of the partition reads, so it is kept short.
CREATE INDEX messages_by_words ON messages USING gin (person, said, tools) WITH (gin_pending_list_limit = 256);

-- Which words a person's messages hold, for beginnings of words and for spelling.
CREATE TABLE vocabulary (
    person bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    word text COLLATE "C" NOT NULL,
    PRIMARY KEY (person, kind, word)
) PARTITION BY HASH (person);

CREATE TABLE meta (
    person bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (person, key)
) PARTITION BY HASH (person);

CREATE TABLE vectors (
    person bigint NOT NULL,
    block bigint NOT NULL,
    stamp bigint NOT NULL,
    checksum bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (person, block)
) PARTITION BY HASH (person);

CREATE TABLE summaries (
    person bigint NOT NULL,
    node bigint NOT NULL,
    session bigint NOT NULL,
    depth int NOT NULL,
    ids text NOT NULL,
    messages int NOT NULL,
    text text NOT NULL,
    made_by text NOT NULL,
    made_at double precision NOT NULL,
    children bigint[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (person, node)
) PARTITION BY HASH (person);
CREATE INDEX summaries_by_session ON summaries (person, session);

CREATE TABLE images (
    person bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (person, name)
) PARTITION BY HASH (person);

DO $$
DECLARE
    parts int := current_setting('hermes.partitions')::int;
    each text;
BEGIN
    FOREACH each IN ARRAY ARRAY['sessions', 'session_details', 'blocks', 'messages', 'vocabulary', 'meta', 'vectors',
                                'summaries', 'images'] LOOP
        FOR part IN 0 .. parts - 1 LOOP
            EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES WITH (MODULUS %s, REMAINDER %s)%s',
                each || '_' || part, each, parts, part,
                -- Room in the page for the new version of a row that every message changes.
                CASE each WHEN 'sessions' THEN ' WITH (fillfactor = 70)' ELSE '' END);
        END LOOP;
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', each);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', each);
        EXECUTE format('CREATE POLICY own ON %I TO hermes_app USING (person = person()) WITH CHECK (person = person())',
            each);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO hermes_app', each);
    END LOOP;
END $$;
ALTER TABLE people ENABLE ROW LEVEL SECURITY;
ALTER TABLE people FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON people TO hermes_app USING (person = person()) WITH CHECK (person = person());
GRANT SELECT, UPDATE, DELETE ON people TO hermes_app;

-- Under row-level security PostgreSQL does not let an index answer `@@`, because the operator is not marked leak-proof.
-- So these functions run as a role of their own that nobody can log in as. It may read only the numbers and the words of
-- messages, and each function names the person itself.
GRANT SELECT (person, id, said, tools) ON messages TO hermes_engine;
CREATE POLICY search ON messages FOR SELECT TO hermes_engine USING (true);
GRANT SELECT, INSERT ON people TO hermes_engine;
CREATE POLICY known ON people TO hermes_engine USING (true) WITH CHECK (true);

CREATE FUNCTION matching(said tsquery, tools tsquery, oldest boolean, beyond bigint, most int) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = hermes, pg_temp AS $$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT id FROM messages WHERE person = $1 AND '
        || CASE WHEN tools IS NULL THEN 'said @@ $2' WHEN said IS NULL THEN 'tools @@ $3'
           ELSE '(said @@ $2 OR tools @@ $3)' END
        || CASE WHEN oldest THEN ' AND id > $4 ORDER BY id' ELSE ' AND id < $4 ORDER BY id DESC' END
        || ' LIMIT $5'
        USING person(), said, tools, beyond, most;
END $$;

CREATE FUNCTION frequency(said tsquery, tools tsquery) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = hermes, pg_temp AS $$
DECLARE
    found bigint;
BEGIN
    EXECUTE 'SELECT count(*) FROM messages WHERE person = $1 AND '
        || CASE WHEN tools IS NULL THEN 'said @@ $2' ELSE 'tools @@ $3' END
        INTO found USING person(), said, tools;
    RETURN found;
END $$;

CREATE FUNCTION unheld(kind text, words text[]) RETURNS SETOF text
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = hermes, pg_temp AS $$
DECLARE
    word text;
    held boolean;
BEGIN
    FOREACH word IN ARRAY words LOOP
        EXECUTE 'SELECT EXISTS (SELECT FROM messages WHERE person = $1 AND '
            || CASE kind WHEN 'messages' THEN 'said' ELSE 'tools' END || ' @@ $2)'
            INTO held USING person(), ('''' || replace(replace(word, '\', '\\'), '''', '''''') || '''')::tsquery;
        IF NOT held THEN
            RETURN NEXT word;
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION person_named(given text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = hermes, pg_temp AS $$
DECLARE
    found bigint;
BEGIN
    SELECT person INTO found FROM people WHERE name = given;
    IF found IS NULL THEN
        INSERT INTO people (name) VALUES (given) ON CONFLICT DO NOTHING;
        SELECT person INTO found FROM people WHERE name = given;
    END IF;
    RETURN found;
END $$;

ALTER FUNCTION matching OWNER TO hermes_engine;
ALTER FUNCTION frequency OWNER TO hermes_engine;
ALTER FUNCTION unheld OWNER TO hermes_engine;
ALTER FUNCTION person_named OWNER TO hermes_engine;
REVOKE ALL ON FUNCTION matching, frequency, unheld, person_named FROM public;
GRANT EXECUTE ON FUNCTION matching, frequency, unheld, person_named TO hermes_app;

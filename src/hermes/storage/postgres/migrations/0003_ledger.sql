-- What a gateway must not forget: messages that came in, answers to send, chats, paired accounts and their codes.
-- `home` is whose gateway it is, the operator's; `person` is the name of whoever writes to it. Statements do not name the
-- home: row-level security does.

CREATE TABLE inbox (
    home bigint NOT NULL DEFAULT person() REFERENCES people ON DELETE CASCADE,
    id bigint GENERATED ALWAYS AS IDENTITY,
    platform text COLLATE "C" NOT NULL,
    number text COLLATE "C" NOT NULL,
    lane text COLLATE "C" NOT NULL,
    person text COLLATE "C" NOT NULL,
    message text NOT NULL,
    state text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL DEFAULT '',
    before bigint NOT NULL DEFAULT 0,
    draft text NOT NULL DEFAULT '',
    attempts bigint NOT NULL DEFAULT 0,
    received double precision NOT NULL,
    outcome text NOT NULL DEFAULT '',
    PRIMARY KEY (home, id),
    UNIQUE (home, platform, number)
);
CREATE INDEX open_messages ON inbox (home, state) WHERE state <> 'done';
CREATE INDEX old_messages ON inbox (home, received);

CREATE TABLE outbox (
    home bigint NOT NULL DEFAULT person() REFERENCES people ON DELETE CASCADE,
    message bigint NOT NULL,
    piece bigint NOT NULL,
    text text NOT NULL,
    sent text NOT NULL DEFAULT '',
    buttons text NOT NULL DEFAULT '[]',
    PRIMARY KEY (home, message, piece)
);

CREATE TABLE cursors (
    home bigint NOT NULL DEFAULT person() REFERENCES people ON DELETE CASCADE,
    platform text COLLATE "C" NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (home, platform)
);

CREATE TABLE chats (
    home bigint NOT NULL DEFAULT person() REFERENCES people ON DELETE CASCADE,
    lane text COLLATE "C" NOT NULL,
    person text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    active double precision NOT NULL,
    PRIMARY KEY (home, lane)
);

CREATE TABLE links (
    home bigint NOT NULL DEFAULT person() REFERENCES people ON DELETE CASCADE,
    platform text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    person text COLLATE "C" NOT NULL,
    made double precision NOT NULL,
    PRIMARY KEY (home, platform, "user")
);

CREATE TABLE asked (
    home bigint NOT NULL DEFAULT person() REFERENCES people ON DELETE CASCADE,
    person text COLLATE "C" NOT NULL,
    pending text COLLATE "C" NOT NULL,
    place text COLLATE "C" NOT NULL,
    PRIMARY KEY (home, person, pending, place)
);

CREATE TABLE codes (
    home bigint NOT NULL DEFAULT person() REFERENCES people ON DELETE CASCADE,
    digest text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    person text COLLATE "C" NOT NULL,
    about text NOT NULL,
    expires double precision NOT NULL,
    PRIMARY KEY (home, digest)
);

DO $$
DECLARE
    each text;
BEGIN
    FOREACH each IN ARRAY ARRAY['inbox', 'outbox', 'cursors', 'chats', 'links', 'asked', 'codes'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', each);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', each);
        EXECUTE format('CREATE POLICY own ON %I TO hermes_app USING (home = person()) WITH CHECK (home = person())', each);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO hermes_app', each);
    END LOOP;
END $$;

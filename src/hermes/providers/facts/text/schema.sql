-- The layout of a fact store; {TOKENIZER} is filled in.

CREATE TABLE facts (
    fact_id INTEGER PRIMARY KEY AUTOINCREMENT,
    content TEXT NOT NULL,
    key TEXT NOT NULL,                    -- the content as it counts for being the same
    category TEXT NOT NULL DEFAULT 'general',
    tags TEXT NOT NULL DEFAULT '',
    trust_score REAL NOT NULL,
    retrieval_count INTEGER NOT NULL DEFAULT 0,
    helpful_count INTEGER NOT NULL DEFAULT 0,
    source TEXT NOT NULL DEFAULT 'tool',  -- tool | mirror:memory | mirror:user | extracted
    session TEXT NOT NULL DEFAULT '',
    superseded_by INTEGER,                -- the fact that took this one's place; it stays as history
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    hrr_vector BLOB NOT NULL
);
CREATE UNIQUE INDEX facts_live ON facts (key) WHERE superseded_by IS NULL;
CREATE INDEX facts_by_trust ON facts (trust_score DESC, fact_id DESC) WHERE superseded_by IS NULL;
CREATE INDEX facts_by_category ON facts (category) WHERE superseded_by IS NULL;
CREATE INDEX facts_by_successor ON facts (superseded_by) WHERE superseded_by IS NOT NULL;

CREATE TABLE entities (
    entity_id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    key TEXT NOT NULL UNIQUE,
    created_at REAL NOT NULL
);
-- Every way to call an entity: its name (0), another name (1), or one word of a longer name (2).
CREATE TABLE entity_names (
    key TEXT NOT NULL, entity_id INTEGER NOT NULL, kind INTEGER NOT NULL, PRIMARY KEY (key, entity_id)
) WITHOUT ROWID;
CREATE INDEX entity_names_by_entity ON entity_names (entity_id);
CREATE TABLE fact_entities (
    entity_id INTEGER NOT NULL, fact_id INTEGER NOT NULL, PRIMARY KEY (entity_id, fact_id)
) WITHOUT ROWID;
CREATE INDEX fact_entities_by_fact ON fact_entities (fact_id);
-- Where facts can contradict each other: whom they are about and in which respect.
CREATE TABLE fact_claims (
    slot TEXT NOT NULL, fact_id INTEGER NOT NULL, PRIMARY KEY (slot, fact_id)
) WITHOUT ROWID;
CREATE INDEX fact_claims_by_fact ON fact_claims (fact_id);

CREATE VIRTUAL TABLE facts_fts USING fts5
    (words, tags, content='', contentless_delete=1, tokenize="{TOKENIZER}");

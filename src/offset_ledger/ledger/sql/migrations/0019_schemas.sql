-- The schemas that records of a pipeline were written with, as the registry had them when they were first met: a replay
-- decodes the same when the registry has changed or is gone. A row never changes.
CREATE TABLE offset_ledger.writer_schema (
    pipeline      text NOT NULL REFERENCES offset_ledger.pipeline,
    schema_id     bigint NOT NULL CHECK (schema_id >= 0),
    language      text NOT NULL CHECK (language IN ('AVRO', 'PROTOBUF', 'JSON')),
    text          text NOT NULL,
    "references"  jsonb NOT NULL DEFAULT '[]',  -- [{name, subject, version, text}], each before those that need it
    subjects      jsonb NOT NULL DEFAULT '[]',  -- [[subject, version]]
    fingerprint   text NOT NULL,                -- SHA-256 of language, text and references
    first_seen_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pipeline, schema_id)
);

-- Which schemas the records of a committed batch name, also those that no registry knows.
CREATE TABLE offset_ledger.batch_schema (
    batch_id     bigint NOT NULL REFERENCES offset_ledger.batch ON DELETE CASCADE,
    partition    integer NOT NULL,
    schema_id    bigint NOT NULL,
    first_offset bigint NOT NULL,
    last_offset  bigint NOT NULL,
    records      bigint NOT NULL,
    PRIMARY KEY (batch_id, partition, schema_id)
);

ALTER TABLE offset_ledger.quarantine ADD COLUMN schema_id bigint;

-- The changes that a pipeline has made to its table, each in the transaction of the batch that needed it.
CREATE TABLE offset_ledger.target_change (
    change_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline   text NOT NULL REFERENCES offset_ledger.pipeline,
    batch_id   bigint NOT NULL,
    target     text NOT NULL,
    found      text NOT NULL,
    clause     text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX target_change_by_pipeline ON offset_ledger.target_change (pipeline, change_id);

-- The columns that pipelines have by the schemas of their records (target.columns_from: schema), besides those of their files: each
-- as a schema made it, or made it wider. Until its batch is committed it is a column for that batch alone. A file may read several
-- topics into one table, FILE@TOPIC each: a column is one for all of them.
CREATE TABLE offset_ledger.followed_column (
    column_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline     text NOT NULL REFERENCES offset_ledger.pipeline,
    name         text NOT NULL,
    path         jsonb NOT NULL CHECK (jsonb_typeof(path) = 'array'),
    type         text NOT NULL,
    encoding     text NOT NULL DEFAULT '',
    schema_id    bigint NOT NULL,
    batch_id     bigint NOT NULL, -- it may be pruned
    committed_at timestamptz,
    UNIQUE (pipeline, batch_id, name)
);

-- Where a head batch met a schema that its columns were not enough for. It `ends` there and leaves the record to the next batch;
-- else its range begins with the record, and the batch brings the columns, or waits for a person.
CREATE TABLE offset_ledger.schema_boundary (
    batch_id     bigint NOT NULL REFERENCES offset_ledger.batch ON DELETE CASCADE,
    partition    integer NOT NULL,
    schema_id    bigint NOT NULL,
    message      text NOT NULL DEFAULT '', -- the full name of a Protobuf message
    first_offset bigint NOT NULL,
    ends         boolean NOT NULL,
    difference   jsonb NOT NULL, -- {columns: [name type], questions: [path: text]}
    met_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (batch_id, partition, schema_id, message)
);

-- Differences between a schema and the columns that a person has accepted: the columns stay as they are.
CREATE TABLE offset_ledger.accepted_difference (
    pipeline    text NOT NULL REFERENCES offset_ledger.pipeline,
    path        text NOT NULL,
    difference  text NOT NULL,
    who         text NOT NULL,
    why         text NOT NULL,
    accepted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pipeline, path, difference)
);

ALTER TABLE offset_ledger.decision DROP CONSTRAINT decision_kind_check;
ALTER TABLE offset_ledger.decision ADD CONSTRAINT decision_kind_check CHECK (kind IN
    ('lost_range', 'recreated_topic', 'truncated_log', 'unread_tombstones', 'rejected_batch', 'remerge', 'changed_schema'));

-- The outbox: written in the commit transaction, delivered after it.
CREATE TABLE offset_ledger.dead_letter (
    quarantine_id bigint PRIMARY KEY REFERENCES offset_ledger.quarantine,
    topic         text NOT NULL,
    enqueued_at   timestamptz NOT NULL DEFAULT now(),
    delivered_at  timestamptz,
    at_partition  integer, -- where it lies in the dead letter topic
    at_offset     bigint,
    CHECK (num_nulls(delivered_at, at_partition, at_offset) IN (0, 3))
);
CREATE INDEX dead_letter_waiting ON offset_ledger.dead_letter (quarantine_id) WHERE delivered_at IS NULL;

-- Below these offsets of the dead letter topic every letter of the pipeline is marked as delivered.
CREATE TABLE offset_ledger.dead_letter_mark (
    pipeline    text NOT NULL REFERENCES offset_ledger.pipeline,
    topic_id    text NOT NULL,
    partition   integer NOT NULL,
    next_offset bigint NOT NULL,
    PRIMARY KEY (pipeline, topic_id, partition)
);

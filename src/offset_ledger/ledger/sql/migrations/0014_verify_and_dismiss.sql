-- How many event ids a range brought into the table, as rows or as delete markers; NULL in the ranges of before.
ALTER TABLE offset_ledger.batch_range ADD COLUMN added bigint CHECK (added >= 0);

-- The event ids of a table, counted, beside what the batches had added by then: what is compared starts from the newest one.
CREATE TABLE offset_ledger.table_count (
    count_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline   text NOT NULL REFERENCES offset_ledger.pipeline,
    event_ids  bigint NOT NULL CHECK (event_ids >= 0),
    added      bigint NOT NULL CHECK (added >= 0),
    who        text NOT NULL,
    why        text NOT NULL,
    counted_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX table_count_by_pipeline ON offset_ledger.table_count (pipeline, count_id DESC);

-- What a person decides about records that will never fit; `undone` takes an earlier dismissal back.
CREATE TABLE offset_ledger.dismissal (
    dismissal_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline     text NOT NULL REFERENCES offset_ledger.pipeline,
    undone       boolean NOT NULL,
    who          text NOT NULL,
    why          text NOT NULL,
    decided_at   timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE offset_ledger.dismissal_record (
    dismissal_id  bigint NOT NULL REFERENCES offset_ledger.dismissal,
    quarantine_id bigint NOT NULL REFERENCES offset_ledger.quarantine,
    PRIMARY KEY (dismissal_id, quarantine_id)
);
CREATE INDEX dismissal_record_by_quarantine ON offset_ledger.dismissal_record (quarantine_id);

ALTER TABLE offset_ledger.quarantine
    ADD COLUMN dismissed_by bigint REFERENCES offset_ledger.dismissal,
    ADD CONSTRAINT dismissed_is_not_resolved CHECK (num_nonnulls(resolved_by, dismissed_by) < 2);
DROP INDEX offset_ledger.quarantine_unresolved;
CREATE INDEX quarantine_unresolved ON offset_ledger.quarantine (pipeline, topic_id)
    WHERE resolved_by IS NULL AND dismissed_by IS NULL;
CREATE INDEX quarantine_dismissed ON offset_ledger.quarantine (pipeline) WHERE dismissed_by IS NOT NULL;

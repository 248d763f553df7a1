CREATE INDEX quarantine_by_batch ON offset_ledger.quarantine (batch_id);
CREATE INDEX quarantine_unresolved ON offset_ledger.quarantine (pipeline, topic_id) WHERE resolved_by IS NULL;

-- `reasons` stay those of the batch that quarantined the record; these are of the last redrive that it failed.
ALTER TABLE offset_ledger.quarantine
    ADD COLUMN retried_by bigint REFERENCES offset_ledger.batch,
    ADD COLUMN retried_reasons jsonb CHECK (jsonb_typeof(retried_reasons) = 'array'),
    ADD CHECK (num_nulls(retried_by, retried_reasons) IN (0, 2));

-- What was asked for: the same question finds the same open batch again.
CREATE TABLE offset_ledger.redrive (
    batch_id bigint PRIMARY KEY REFERENCES offset_ledger.batch,
    reason   text,
    since    timestamptz,
    most     bigint CHECK (most > 0)
);

-- The exact records of a redrive batch, frozen by the plan, and what became of each.
CREATE TABLE offset_ledger.redrive_record (
    batch_id      bigint NOT NULL REFERENCES offset_ledger.redrive,
    quarantine_id bigint NOT NULL REFERENCES offset_ledger.quarantine,
    outcome       text CHECK (outcome IN ('resolved', 'refused', 'abandoned')), -- NULL while the batch is open
    reasons       jsonb,
    PRIMARY KEY (batch_id, quarantine_id),
    CHECK (coalesce(outcome = 'refused', false) = (reasons IS NOT NULL))
);
CREATE UNIQUE INDEX redrive_record_one_open ON offset_ledger.redrive_record (quarantine_id) WHERE outcome IS NULL;
CREATE INDEX redrive_record_by_quarantine ON offset_ledger.redrive_record (quarantine_id);

CREATE FUNCTION offset_ledger.release_redrive() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE offset_ledger.redrive_record SET outcome = 'abandoned' WHERE batch_id = NEW.batch_id;
    RETURN NULL;
END $$;
CREATE TRIGGER redrive_abandoned AFTER UPDATE ON offset_ledger.batch
    FOR EACH ROW WHEN (NEW.kind = 'redrive' AND NEW.state = 'abandoned')
    EXECUTE FUNCTION offset_ledger.release_redrive();

-- What each batch looked like when it was judged; later batches are compared with the committed ones.
CREATE TABLE offset_ledger.batch_profile (
    batch_id       bigint PRIMARY KEY REFERENCES offset_ledger.batch,
    epoch          integer NOT NULL,
    records        bigint NOT NULL CHECK (records >= 0),
    rows           bigint NOT NULL CHECK (rows BETWEEN 0 AND records),
    nulls          jsonb NOT NULL CHECK (jsonb_typeof(nulls) = 'object'),
    newest         timestamptz, -- latest record timestamp; NULL where the batch has no record
    min_publish_at timestamptz,
    max_publish_at timestamptz
);

-- The reports count what each batch put into quarantine.
CREATE INDEX IF NOT EXISTS quarantine_by_batch ON offset_ledger.quarantine (batch_id);

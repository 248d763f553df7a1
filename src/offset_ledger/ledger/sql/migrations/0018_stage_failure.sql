-- Why the driver of a Spark application failed, if it ran on the cluster: the task that submitted it shares no disk with it,
-- and reads this. It is pruned with its batch.
CREATE TABLE offset_ledger.stage_failure (
    submission uuid PRIMARY KEY,
    batch_id   bigint NOT NULL REFERENCES offset_ledger.batch ON DELETE CASCADE,
    error      text NOT NULL,
    message    text NOT NULL,
    failed_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX stage_failure_by_batch ON offset_ledger.stage_failure (batch_id);

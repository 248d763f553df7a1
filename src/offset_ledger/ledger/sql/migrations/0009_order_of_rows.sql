-- The moment by which the rows of the target are ordered: a path into the record, or kafka_timestamp. NULL in a pipeline of
-- before this, until its rows have been looked at.
ALTER TABLE offset_ledger.pipeline ADD COLUMN ordered_by text;

-- Rows that are ordered by another moment from now on: who decided it, when and why, and what is replayed then.
ALTER TABLE offset_ledger.decision DROP CONSTRAINT decision_kind_check;
ALTER TABLE offset_ledger.decision ADD CONSTRAINT decision_kind_check
    CHECK (kind IN ('lost_range', 'recreated_topic', 'truncated_log', 'rejected_batch', 'remerge'));

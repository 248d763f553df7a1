-- A log that was cut off below the cursors, and that a person accepted, is another log of the same topic: topic_id is then
-- Kafka's topic id with how often that happened, as in 'rGnm5kDZQAqp4YiRJVtB5A/1', and its partitions begin anew.
ALTER TABLE offset_ledger.beginning ADD COLUMN leader_epoch integer; -- under which the offset was stable, where known

ALTER TABLE offset_ledger.decision DROP CONSTRAINT decision_kind_check;
ALTER TABLE offset_ledger.decision ADD CONSTRAINT decision_kind_check
    CHECK (kind IN ('lost_range', 'recreated_topic', 'truncated_log', 'rejected_batch'));

-- The chain's constraints look ranges up by all four columns of an index. One that begins with pipeline, topic_id and partition
-- looks as good to a planner that expects one row of a partition, as it does without statistics or with those of many pipelines,
-- but reads the partition's whole chain. So only the index of the ends begins with them, which reads ask for in their order.
ALTER TABLE offset_ledger.batch_range
    DROP CONSTRAINT committed_starts_are_unique,
    ADD CONSTRAINT committed_starts_are_unique UNIQUE (committed_from, partition, topic_id, pipeline);
DROP INDEX offset_ledger.batch_range_follows;
CREATE INDEX batch_range_follows ON offset_ledger.batch_range (follows, partition, topic_id, pipeline);

-- What a pipeline that deletes by tombstones saw of its topic whenever it planned, also when nothing was new. What lies at or above
-- a last stable offset was written, or first compacted, after that moment. Only the newest looks that still say so are kept.
CREATE TABLE offset_ledger.topic_look (
    look_id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline            text NOT NULL REFERENCES offset_ledger.pipeline,
    topic_id            text NOT NULL,
    seen_at             timestamptz NOT NULL, -- by this database's clock, before the broker was asked
    last_stables        bigint[] NOT NULL, -- of partition 0, 1, 2 and so on
    delete_retention_ms bigint -- of the topic; NULL where it was not compacted
);
CREATE INDEX topic_look_by_pipeline ON offset_ledger.topic_look (pipeline, seen_at DESC);

-- A moment before which nothing at or above the offset was compacted, by this database's clock: the newest look at which the
-- offset was not stable yet, or the partition or the topic not there; without one the newest plan of which the same is known; else
-- the pipeline's first plan, for a row that it has was read, and so not compacted away, after that.
CREATE FUNCTION offset_ledger.not_compacted_before(of_pipeline text, of_log text, of_partition integer, at_offset bigint)
RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        (SELECT max(l.seen_at) FROM offset_ledger.topic_look l
         WHERE l.pipeline = of_pipeline
           AND (split_part(l.topic_id, '/', 1) <> split_part(of_log, '/', 1) OR coalesce(l.last_stables[of_partition + 1], 0) <= at_offset)),
        (SELECT max(b.planned_at) FROM offset_ledger.batch_range r JOIN offset_ledger.batch b USING (batch_id)
         WHERE r.pipeline = of_pipeline AND r.topic_id = of_log AND r.partition = of_partition
           AND b.kind <> 'redrive' AND r.last_stable <= at_offset),
        (SELECT min(s.recorded_at) FROM offset_ledger.beginning s WHERE s.pipeline = of_pipeline))
$$;

-- Ranges of a batch that were read so late that compaction may have removed tombstones of them unread. A batch that is being
-- staged and has some waits for a person; past that, a person has approved them.
ALTER TABLE offset_ledger.batch ADD COLUMN late jsonb;

ALTER TABLE offset_ledger.decision DROP CONSTRAINT decision_kind_check;
ALTER TABLE offset_ledger.decision ADD CONSTRAINT decision_kind_check
    CHECK (kind IN ('lost_range', 'recreated_topic', 'truncated_log', 'unread_tombstones', 'rejected_batch', 'remerge'));

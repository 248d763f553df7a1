-- Everything that each batch and each look asks of the ledger has an index, so that its time does not grow with history.
CREATE INDEX batch_open ON offset_ledger.batch (pipeline, batch_id) WHERE state NOT IN ('committed', 'abandoned');
CREATE INDEX batch_abandoned ON offset_ledger.batch (pipeline, (-batch_id)) WHERE state = 'abandoned';
CREATE INDEX batch_not_head ON offset_ledger.batch (pipeline, kind, (-batch_id)) WHERE kind <> 'head';
CREATE INDEX batch_by_end ON offset_ledger.batch (pipeline, ended_at);
CREATE INDEX batch_by_run ON offset_ledger.batch (pipeline, run_id, (-batch_id));
-- Newest first, by a term that the primary key does not have: walking that back, past the batches of all other pipelines,
-- looks cheap to the planner, and is not for a pipeline that has been quiet for long.
CREATE INDEX batch_newest ON offset_ledger.batch (pipeline, (-batch_id));
DROP INDEX offset_ledger.batch_by_pipeline;
CREATE INDEX batch_of_remerge ON offset_ledger.batch (pipeline) WHERE request ? 'remerge';
CREATE INDEX batch_range_uncounted ON offset_ledger.batch_range (pipeline) WHERE inserted IS NOT NULL AND added IS NULL;

-- How many head batches were ever planned: whose turn it is where a limit cannot give every partition an offset.
ALTER TABLE offset_ledger.pipeline ADD COLUMN heads bigint NOT NULL DEFAULT 0;
UPDATE offset_ledger.pipeline AS p
SET heads = (SELECT count(*) FROM offset_ledger.batch b WHERE b.pipeline = p.pipeline AND b.kind = 'head');
CREATE FUNCTION offset_ledger.count_head() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE offset_ledger.pipeline SET heads = heads + 1 WHERE pipeline = NEW.pipeline;
    RETURN NULL;
END $$;
CREATE TRIGGER batch_head_counted AFTER INSERT ON offset_ledger.batch
    FOR EACH ROW WHEN (NEW.kind = 'head') EXECUTE FUNCTION offset_ledger.count_head();

-- The latest record timestamp and publish_at of all that moved the cursor; NULL where no record has one.
ALTER TABLE offset_ledger.cursor ADD COLUMN newest timestamptz, ADD COLUMN max_publish_at timestamptz;
UPDATE offset_ledger.cursor AS c SET newest = s.newest, max_publish_at = s.max_publish_at
FROM (SELECT r.pipeline, r.topic_id, r.partition, max(r.max_timestamp) AS newest, max(p.max_publish_at) AS max_publish_at
      FROM offset_ledger.batch_range r LEFT JOIN offset_ledger.batch_profile p USING (batch_id)
      WHERE r.committed_until IS NOT NULL GROUP BY r.pipeline, r.topic_id, r.partition) AS s
WHERE (s.pipeline, s.topic_id, s.partition) = (c.pipeline, c.topic_id, c.partition);

-- The guards are asked only about rows that they may refuse.
DROP TRIGGER batch_range_guard ON offset_ledger.batch_range;
CREATE TRIGGER batch_range_guard BEFORE UPDATE OR DELETE ON offset_ledger.batch_range
    FOR EACH ROW WHEN (OLD.inserted IS NOT NULL) EXECUTE FUNCTION offset_ledger.guard_range();
DROP TRIGGER cursor_guard ON offset_ledger.cursor;
CREATE TRIGGER cursor_guard BEFORE UPDATE ON offset_ledger.cursor
    FOR EACH ROW WHEN (NEW.next_offset < OLD.next_offset) EXECUTE FUNCTION offset_ledger.guard_cursor();

-- One head batch may be ahead of the open one: planned from its ends, and staged while that is validated and committed. `after` names the
-- open one, and no batch with it is judged.
ALTER TABLE offset_ledger.batch
    ADD COLUMN after bigint,
    ADD CONSTRAINT a_batch_ahead_waits CHECK (after IS NULL OR (kind = 'head' AND state IN ('planned', 'staging', 'staged'))),
    ADD CONSTRAINT a_batch_ahead_follows_its_own_log FOREIGN KEY (after, pipeline, topic_id)
        REFERENCES offset_ledger.batch (batch_id, pipeline, topic_id);
DROP INDEX offset_ledger.batch_one_open_head;
CREATE UNIQUE INDEX batch_one_open_head ON offset_ledger.batch (pipeline)
    WHERE kind = 'head' AND state NOT IN ('committed', 'abandoned') AND after IS NULL;
CREATE UNIQUE INDEX batch_one_ahead ON offset_ledger.batch (pipeline) WHERE after IS NOT NULL;

-- With the commit of the batch before it, it is the open one. With the end or another claim of that, which may end earlier, it is given up.
CREATE FUNCTION offset_ledger.settle_ahead() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state = 'committed' THEN
        UPDATE offset_ledger.batch SET after = NULL WHERE pipeline = NEW.pipeline AND after = NEW.batch_id;
    ELSE
        UPDATE offset_ledger.batch
        SET state = 'abandoned', after = NULL, ended_at = now(), changed_by = NEW.changed_by,
            changed_why = format('batch %s before it %s', NEW.batch_id,
                                 CASE NEW.state WHEN 'abandoned' THEN 'was abandoned' ELSE 'is staged again' END)
        WHERE pipeline = NEW.pipeline AND after = NEW.batch_id;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER batch_settles_ahead AFTER UPDATE ON offset_ledger.batch
    FOR EACH ROW WHEN (NEW.kind = 'head' AND NEW.state IN ('staging', 'committed', 'abandoned')
                       AND (OLD.state IS DISTINCT FROM NEW.state OR OLD.epoch IS DISTINCT FROM NEW.epoch))
    EXECUTE FUNCTION offset_ledger.settle_ahead();

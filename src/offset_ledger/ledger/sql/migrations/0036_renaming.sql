-- A pipeline gets another name, or is forgotten: its rows have the name FORMER~renaming_id from then on, which no file can have.
CREATE TABLE offset_ledger.renaming (
    renaming_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    former      text NOT NULL,
    name        text, -- NULL: forgotten
    target      text, -- the table that it filled
    who         text NOT NULL,
    why         text NOT NULL,
    renamed_at  timestamptz NOT NULL DEFAULT now()
);

ALTER TABLE offset_ledger.pipeline DROP CONSTRAINT pipeline_pipeline_check;
ALTER TABLE offset_ledger.pipeline ADD CONSTRAINT pipeline_pipeline_check
    CHECK (pipeline ~ '^[a-z][a-z0-9_]{0,62}(~[0-9]+)?(@[A-Za-z0-9._-]{1,249})?$');

-- History changes in nothing but this name, for which only the owner of the ledger has the right.
CREATE FUNCTION offset_ledger.guard_name() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    OLD.pipeline := NEW.pipeline;
    IF OLD IS DISTINCT FROM NEW THEN
        RAISE EXCEPTION 'a row of % that gets another pipeline changes in nothing else', TG_TABLE_NAME
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

DROP TRIGGER batch_guard ON offset_ledger.batch;
CREATE TRIGGER batch_guard BEFORE UPDATE ON offset_ledger.batch
    FOR EACH ROW WHEN (OLD.pipeline = NEW.pipeline) EXECUTE FUNCTION offset_ledger.guard_batch();
CREATE TRIGGER batch_guard_delete BEFORE DELETE ON offset_ledger.batch
    FOR EACH ROW EXECUTE FUNCTION offset_ledger.guard_batch();
CREATE TRIGGER batch_guard_name BEFORE UPDATE ON offset_ledger.batch
    FOR EACH ROW WHEN (OLD.pipeline <> NEW.pipeline) EXECUTE FUNCTION offset_ledger.guard_name();

DROP TRIGGER batch_range_guard ON offset_ledger.batch_range;
CREATE TRIGGER batch_range_guard BEFORE UPDATE ON offset_ledger.batch_range
    FOR EACH ROW WHEN (OLD.inserted IS NOT NULL AND OLD.pipeline = NEW.pipeline)
    EXECUTE FUNCTION offset_ledger.guard_range();
CREATE TRIGGER batch_range_guard_delete BEFORE DELETE ON offset_ledger.batch_range
    FOR EACH ROW WHEN (OLD.inserted IS NOT NULL) EXECUTE FUNCTION offset_ledger.guard_range();
CREATE TRIGGER batch_range_guard_name BEFORE UPDATE ON offset_ledger.batch_range
    FOR EACH ROW WHEN (OLD.pipeline <> NEW.pipeline) EXECUTE FUNCTION offset_ledger.guard_name();

DROP TRIGGER decision_guard ON offset_ledger.decision;
CREATE TRIGGER decision_guard BEFORE UPDATE ON offset_ledger.decision
    FOR EACH ROW WHEN (OLD.pipeline = NEW.pipeline) EXECUTE FUNCTION offset_ledger.guard_decision();
CREATE TRIGGER decision_guard_delete BEFORE DELETE ON offset_ledger.decision
    FOR EACH ROW EXECUTE FUNCTION offset_ledger.guard_decision();
CREATE TRIGGER decision_guard_name BEFORE UPDATE ON offset_ledger.decision
    FOR EACH ROW WHEN (OLD.pipeline <> NEW.pipeline) EXECUTE FUNCTION offset_ledger.guard_name();

-- What a run was asked for, so that a rerun of it resumes its open batch and plans nothing twice.
ALTER TABLE offset_ledger.batch ADD COLUMN request jsonb;

-- Questions that only a person may answer, and the answers. Transitions of batches are in batch_event besides.
CREATE TABLE offset_ledger.decision (
    decision_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline    text NOT NULL REFERENCES offset_ledger.pipeline,
    kind        text NOT NULL CHECK (kind IN ('lost_range', 'recreated_topic', 'rejected_batch')),
    topic_id    text NOT NULL,
    batch_id    bigint REFERENCES offset_ledger.batch, -- the rejected batch, or the one that records a loss
    question    text NOT NULL,
    details     jsonb NOT NULL, -- the exact numbers that were shown
    dag_id      text,
    run_id      text,
    asked_at    timestamptz NOT NULL DEFAULT now(),
    answer      text CHECK (answer IN ('approve', 'abandon', 'reject')),
    who         text,
    why         text,
    answered_at timestamptz,
    CHECK (num_nulls(answer, who, answered_at) IN (0, 3)),
    CHECK (kind <> 'rejected_batch' OR batch_id IS NOT NULL)
);
CREATE INDEX decision_by_pipeline ON offset_ledger.decision (pipeline, decision_id DESC);

CREATE FUNCTION offset_ledger.guard_decision() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.answer IS NOT NULL THEN
        RAISE EXCEPTION 'decision % is kept as it is', OLD.decision_id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER decision_guard BEFORE UPDATE OR DELETE ON offset_ledger.decision
    FOR EACH ROW EXECUTE FUNCTION offset_ledger.guard_decision();

-- History that is pruned by age: one batch of the kind 'pruned' stands for the committed head batches before it, with one
-- range for each partition and the sums of their balance sheets. It has the id of the newest of them. The constraints of
-- the chain hold for it as for any other.
ALTER TABLE offset_ledger.batch DROP CONSTRAINT batch_kind_check;
ALTER TABLE offset_ledger.batch ADD CONSTRAINT batch_kind_check
    CHECK (kind IN ('head', 'backfill', 'replay', 'redrive', 'pruned'));
ALTER TABLE offset_ledger.batch ADD CONSTRAINT pruned_was_committed CHECK (kind <> 'pruned' OR state = 'committed');

-- The same for pruned batches that were no heads: which offsets they had read again, and the sums of what became of them.
CREATE TABLE offset_ledger.pruned_reread (
    batch_id    bigint NOT NULL REFERENCES offset_ledger.batch,
    partition   integer NOT NULL CHECK (partition >= 0),
    offsets     int8multirange NOT NULL,
    inserted    bigint NOT NULL CHECK (inserted >= 0),
    updated     bigint NOT NULL CHECK (updated >= 0),
    superseded  bigint NOT NULL CHECK (superseded >= 0),
    duplicate   bigint NOT NULL CHECK (duplicate >= 0),
    deleted     bigint NOT NULL CHECK (deleted >= 0),
    quarantined bigint NOT NULL CHECK (quarantined >= 0),
    skipped     bigint NOT NULL CHECK (skipped >= 0),
    gap         bigint NOT NULL CHECK (gap >= 0),
    added       bigint NOT NULL CHECK (added >= 0),
    PRIMARY KEY (batch_id, partition)
);

-- Who pruned, and how far: of a log, batches up to this one may be gone, and records that they resolved.
CREATE TABLE offset_ledger.pruning (
    pruning_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline       text NOT NULL REFERENCES offset_ledger.pipeline,
    topic_id       text NOT NULL,
    older_than     timestamptz NOT NULL,
    until_batch_id bigint NOT NULL,
    who            text NOT NULL,
    pruned_at      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX pruning_by_pipeline ON offset_ledger.pruning (pipeline, topic_id, until_batch_id);

-- What refers to a row that is pruned is looked up by these.
CREATE INDEX batch_range_follows ON offset_ledger.batch_range (pipeline, topic_id, partition, follows);
CREATE INDEX quarantine_resolved ON offset_ledger.quarantine (resolved_by) WHERE resolved_by IS NOT NULL;
CREATE INDEX quarantine_retried ON offset_ledger.quarantine (retried_by) WHERE retried_by IS NOT NULL;
CREATE INDEX decision_by_batch ON offset_ledger.decision (batch_id) WHERE batch_id IS NOT NULL;

-- What has ended never changes, unless its pipeline is being pruned in this very transaction.
CREATE FUNCTION offset_ledger.is_pruning(of_pipeline text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce(current_setting('offset_ledger.pruning', true) = of_pipeline, false)
$$;
CREATE OR REPLACE FUNCTION offset_ledger.guard_batch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state = 'committed' AND offset_ledger.is_pruning(OLD.pipeline) THEN
        IF TG_OP = 'DELETE' THEN
            RETURN OLD;
        ELSIF NEW.kind = 'pruned' AND (NEW.batch_id, NEW.state, NEW.epoch) = (OLD.batch_id, OLD.state, OLD.epoch) THEN
            RETURN NEW;
        END IF;
    END IF;
    IF OLD.state IN ('committed', 'abandoned') THEN
        RAISE EXCEPTION 'batch % is %: it never changes', OLD.batch_id, OLD.state USING ERRCODE = 'check_violation';
    END IF;
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'batch % cannot be deleted', OLD.batch_id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.epoch < OLD.epoch THEN
        RAISE EXCEPTION 'batch %: epoch % is below %', OLD.batch_id, NEW.epoch, OLD.epoch
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE FUNCTION offset_ledger.guard_range() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND offset_ledger.is_pruning(OLD.pipeline) THEN
        RETURN OLD;
    END IF;
    IF OLD.inserted IS NOT NULL THEN
        RAISE EXCEPTION 'batch % partition %: a closed balance sheet never changes', OLD.batch_id, OLD.partition
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;

-- A record that a redrive loaded before that moment, by a batch up to that one; a dead letter that waits keeps it.
CREATE FUNCTION offset_ledger.may_be_pruned(q offset_ledger.quarantine, ended_before timestamptz, up_to bigint)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM offset_ledger.batch b
                   WHERE b.batch_id = q.resolved_by AND b.batch_id <= up_to AND b.ended_at < ended_before)
       AND NOT EXISTS (SELECT FROM offset_ledger.dead_letter d
                       WHERE d.quarantine_id = q.quarantine_id AND d.delivered_at IS NULL)
$$;

-- The batch that the ledger has for this id: itself, or the one that stands for it since it was pruned.
CREATE FUNCTION offset_ledger.stands_for(of_pipeline text, id bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT b.batch_id FROM offset_ledger.batch b WHERE b.batch_id = id),
                    (SELECT min(b.batch_id) FROM offset_ledger.batch b
                     WHERE b.pipeline = of_pipeline AND b.kind = 'pruned' AND b.batch_id > id))
$$;

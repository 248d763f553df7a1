CREATE SCHEMA offset_ledger_staging;

CREATE TABLE offset_ledger.pipeline (
    pipeline    text PRIMARY KEY CHECK (pipeline ~ '^[a-z][a-z0-9_]{0,62}$'),
    cluster_id  text NOT NULL,
    topic       text NOT NULL,
    topic_id    text NOT NULL,
    -- The merge order (publish_at, partition, offset) compares offsets of one topic only: one pipeline a table.
    target      text NOT NULL UNIQUE,
    config_hash text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now()
);

-- Where each partition began: the first run's start, or the log start of a partition that was added later.
CREATE TABLE offset_ledger.beginning (
    pipeline     text NOT NULL REFERENCES offset_ledger.pipeline,
    topic_id     text NOT NULL,
    partition    integer NOT NULL CHECK (partition >= 0),
    start_offset bigint NOT NULL CHECK (start_offset >= 0),
    recorded_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pipeline, topic_id, partition),
    UNIQUE (pipeline, topic_id, partition, start_offset)
);

CREATE TABLE offset_ledger.batch (
    batch_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline        text NOT NULL REFERENCES offset_ledger.pipeline,
    kind            text NOT NULL CHECK (kind IN ('head', 'backfill', 'replay', 'redrive')),
    state           text NOT NULL DEFAULT 'planned' CHECK (state IN
        ('planned', 'staging', 'staged', 'validated', 'rejected', 'committed', 'abandoned')),
    epoch           integer NOT NULL DEFAULT 0 CHECK (epoch >= 0),
    topic_id        text NOT NULL,
    config_hash     text NOT NULL,
    dag_id          text,
    run_id          text,
    try_number      integer,
    code_version    text NOT NULL,
    slices_expected integer CHECK (slices_expected >= 0),
    gap_reason      text, -- why offsets of the topic may lack a record; NULL where they may not
    rows            bigint CHECK (rows >= 0),
    refused         bigint CHECK (refused >= 0),
    skipped         bigint CHECK (skipped >= 0),
    verdict         jsonb,
    committed_xid   xid8,
    changed_by      text NOT NULL,
    changed_why     text,
    planned_at      timestamptz NOT NULL DEFAULT now(),
    claimed_at      timestamptz,
    staged_at       timestamptz,
    validated_at    timestamptz,
    ended_at        timestamptz,
    CHECK ((state = 'committed') = (committed_xid IS NOT NULL)),
    CHECK ((state IN ('committed', 'abandoned')) = (ended_at IS NOT NULL)),
    CHECK (state NOT IN ('validated', 'rejected', 'committed') OR verdict IS NOT NULL),
    CHECK (state IN ('planned', 'abandoned') OR epoch > 0),
    UNIQUE (batch_id, pipeline, topic_id)
);

CREATE UNIQUE INDEX batch_one_open_head ON offset_ledger.batch (pipeline)
    WHERE kind = 'head' AND state NOT IN ('committed', 'abandoned');
CREATE INDEX batch_by_pipeline ON offset_ledger.batch (pipeline, batch_id DESC);

CREATE TABLE offset_ledger.batch_range (
    batch_id        bigint NOT NULL,
    pipeline        text NOT NULL,
    topic_id        text NOT NULL,
    partition       integer NOT NULL CHECK (partition >= 0),
    from_offset     bigint NOT NULL CHECK (from_offset >= 0),
    until_offset    bigint NOT NULL CHECK (until_offset > from_offset),
    log_start       bigint NOT NULL,
    last_stable     bigint NOT NULL,
    high_watermark  bigint NOT NULL,
    leader_epoch    integer NOT NULL,
    inserted        bigint CHECK (inserted >= 0),
    updated         bigint CHECK (updated >= 0),
    superseded      bigint CHECK (superseded >= 0),
    duplicate       bigint CHECK (duplicate >= 0),
    deleted         bigint CHECK (deleted >= 0),
    quarantined     bigint CHECK (quarantined >= 0),
    skipped         bigint CHECK (skipped >= 0),
    gap             bigint CHECK (gap >= 0),
    gap_reason      text,
    min_timestamp   timestamptz,
    max_timestamp   timestamptz,
    -- The chain of committed head ranges: the first starts at the partition's beginning, each other where its
    -- predecessor ends. Unique starts and ends and the references make an overlap, a hole or a fork impossible.
    committed_from  bigint,
    committed_until bigint,
    begins          bigint,
    follows         bigint,
    PRIMARY KEY (batch_id, partition),
    FOREIGN KEY (batch_id, pipeline, topic_id) REFERENCES offset_ledger.batch (batch_id, pipeline, topic_id),
    CHECK (num_nulls(inserted, updated, superseded, duplicate, deleted, quarantined, skipped, gap) IN (0, 8)),
    CONSTRAINT balance_sheet_closes CHECK (until_offset - from_offset
        = inserted + updated + superseded + duplicate + deleted + quarantined + skipped + gap),
    CONSTRAINT gap_is_labelled CHECK (gap = 0 OR gap_reason IS NOT NULL),
    CHECK (num_nulls(committed_from, committed_until) IN (0, 2)),
    CHECK (committed_from IS NULL OR
        (committed_from = from_offset AND committed_until = until_offset AND inserted IS NOT NULL)),
    CHECK (committed_from IS NULL OR num_nonnulls(begins, follows) = 1),
    CHECK (coalesce(begins, follows) IS NOT DISTINCT FROM committed_from),
    CONSTRAINT committed_starts_are_unique UNIQUE (pipeline, topic_id, partition, committed_from),
    CONSTRAINT committed_ends_are_unique UNIQUE (pipeline, topic_id, partition, committed_until),
    CONSTRAINT committed_ranges_are_contiguous FOREIGN KEY (pipeline, topic_id, partition, follows)
        REFERENCES offset_ledger.batch_range (pipeline, topic_id, partition, committed_until),
    CONSTRAINT committed_ranges_begin_at_the_beginning FOREIGN KEY (pipeline, topic_id, partition, begins)
        REFERENCES offset_ledger.beginning (pipeline, topic_id, partition, start_offset)
);

CREATE TABLE offset_ledger.cursor (
    pipeline     text NOT NULL REFERENCES offset_ledger.pipeline,
    topic_id     text NOT NULL,
    partition    integer NOT NULL,
    next_offset  bigint NOT NULL,
    leader_epoch integer NOT NULL,
    batch_id     bigint NOT NULL REFERENCES offset_ledger.batch,
    updated_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pipeline, topic_id, partition),
    CONSTRAINT cursor_is_a_committed_end FOREIGN KEY (pipeline, topic_id, partition, next_offset)
        REFERENCES offset_ledger.batch_range (pipeline, topic_id, partition, committed_until)
);

CREATE TABLE offset_ledger.slice (
    batch_id      bigint NOT NULL REFERENCES offset_ledger.batch,
    epoch         integer NOT NULL,
    slice_no      integer NOT NULL CHECK (slice_no >= 0),
    partition     integer,
    rows          bigint NOT NULL DEFAULT 0,
    refused       bigint NOT NULL DEFAULT 0,
    skipped       bigint NOT NULL DEFAULT 0,
    min_offset    bigint,
    max_offset    bigint,
    min_timestamp timestamptz,
    max_timestamp timestamptz,
    staged_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (batch_id, epoch, slice_no),
    CHECK ((rows + refused + skipped = 0) = (partition IS NULL)),
    CHECK (max_offset - min_offset + 1 >= rows + refused + skipped)
);

CREATE TABLE offset_ledger.quarantine (
    quarantine_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline       text NOT NULL REFERENCES offset_ledger.pipeline,
    topic_id       text NOT NULL,
    partition      integer NOT NULL,
    "offset"       bigint NOT NULL,
    "timestamp"    timestamptz NOT NULL,
    key            bytea,
    headers        jsonb,
    value          bytea,
    reasons        jsonb NOT NULL CHECK (jsonb_typeof(reasons) = 'array'),
    batch_id       bigint NOT NULL REFERENCES offset_ledger.batch,
    quarantined_at timestamptz NOT NULL DEFAULT now(),
    resolved_by    bigint REFERENCES offset_ledger.batch,
    UNIQUE (pipeline, topic_id, partition, "offset")
);

CREATE TABLE offset_ledger.batch_event (
    event_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    batch_id   bigint NOT NULL REFERENCES offset_ledger.batch,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    from_state text,
    to_state   text NOT NULL,
    epoch      integer NOT NULL,
    who        text NOT NULL,
    why        text,
    CONSTRAINT transition_is_allowed CHECK (CASE WHEN from_state IS NULL THEN to_state = 'planned' ELSE
        (from_state, to_state) IN (
            ('planned', 'staging'), ('planned', 'abandoned'),
            ('staging', 'staging'), ('staging', 'staged'), ('staging', 'abandoned'),
            ('staged', 'staging'), ('staged', 'validated'), ('staged', 'rejected'), ('staged', 'abandoned'),
            ('validated', 'staging'), ('validated', 'committed'), ('validated', 'abandoned'),
            ('rejected', 'validated'), ('rejected', 'abandoned')
        ) END)
);
CREATE INDEX batch_event_by_batch ON offset_ledger.batch_event (batch_id, event_id);

-- Every transition writes its event, and an event that is not allowed fails the transition: no other way in.
CREATE FUNCTION offset_ledger.record_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO offset_ledger.batch_event (batch_id, from_state, to_state, epoch, who, why)
    VALUES (NEW.batch_id, CASE TG_OP WHEN 'UPDATE' THEN OLD.state END, NEW.state, NEW.epoch,
            NEW.changed_by, NEW.changed_why);
    RETURN NULL;
END $$;
CREATE TRIGGER batch_planned AFTER INSERT ON offset_ledger.batch
    FOR EACH ROW EXECUTE FUNCTION offset_ledger.record_transition();
CREATE TRIGGER batch_moved AFTER UPDATE ON offset_ledger.batch
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state OR OLD.epoch IS DISTINCT FROM NEW.epoch)
    EXECUTE FUNCTION offset_ledger.record_transition();

CREATE FUNCTION offset_ledger.guard_batch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
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
CREATE TRIGGER batch_guard BEFORE UPDATE OR DELETE ON offset_ledger.batch
    FOR EACH ROW EXECUTE FUNCTION offset_ledger.guard_batch();

CREATE FUNCTION offset_ledger.guard_range() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.inserted IS NOT NULL THEN
        RAISE EXCEPTION 'batch % partition %: a closed balance sheet never changes', OLD.batch_id, OLD.partition
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER batch_range_guard BEFORE UPDATE OR DELETE ON offset_ledger.batch_range
    FOR EACH ROW EXECUTE FUNCTION offset_ledger.guard_range();

CREATE FUNCTION offset_ledger.guard_cursor() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.next_offset < OLD.next_offset THEN
        RAISE EXCEPTION 'pipeline % partition %: the cursor cannot go back from % to %',
            OLD.pipeline, OLD.partition, OLD.next_offset, NEW.next_offset USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER cursor_guard BEFORE UPDATE ON offset_ledger.cursor
    FOR EACH ROW EXECUTE FUNCTION offset_ledger.guard_cursor();

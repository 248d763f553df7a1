-- The ledger, in the order of a record's way: pipelines, batches and their ranges, what is staged, schemas and columns, the gate,
-- quarantine, and what people, prune, audits and notifications keep.

CREATE SCHEMA offset_ledger_staging;

-- Tables with the bookkeeping of rows whose own table has none, each named as its pipeline file.
CREATE SCHEMA offset_ledger_rows;

-- Which file fills a table. The merge order (publish_at, topic, partition, offset) holds for the pipelines of one file only.
CREATE TABLE offset_ledger.target_table (
    target text PRIMARY KEY,
    file   text NOT NULL,
    UNIQUE (target, file)
);

-- A pipeline file may read several topics: each has a pipeline of its own, FILE@TOPIC, and all fill one table.
CREATE TABLE offset_ledger.pipeline (
    pipeline    text PRIMARY KEY CHECK (pipeline ~ '^[a-z][a-z0-9_]{0,62}(~[0-9]+)?(@[A-Za-z0-9._-]{1,249})?$'),
    cluster_id  text NOT NULL,
    topic       text NOT NULL,
    topic_id    text NOT NULL, -- of the log: see `beginning`
    target      text, -- NULL: another pipeline took the table over before this one had committed anything into it
    config_hash text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    ordered_by  text, -- the moment that orders the rows: a path into the record, or kafka_timestamp; NULL until rows were checked
    heads       bigint NOT NULL DEFAULT 0, -- head batches ever planned: whose turn it is where a limit is short of partitions
    file        text GENERATED ALWAYS AS (split_part(pipeline, '@', 1)) STORED,
    key_places  jsonb, -- where the values of each column of the key are read, by its name; NULL until the table was checked
    CONSTRAINT one_file_for_each_table FOREIGN KEY (target, file) REFERENCES offset_ledger.target_table (target, file)
);
CREATE INDEX pipeline_by_file ON offset_ledger.pipeline (file);
CREATE INDEX pipeline_by_target ON offset_ledger.pipeline (target);

-- A pipeline got another name, or was forgotten: then its rows have the name FORMER~renaming_id, which no file can have.
CREATE TABLE offset_ledger.renaming (
    renaming_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    former      text NOT NULL,
    name        text, -- NULL: forgotten
    target      text, -- the table that it filled
    who         text NOT NULL,
    why         text NOT NULL,
    renamed_at  timestamptz NOT NULL DEFAULT now()
);

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

-- The topics that a file has been found to read. `later` are those of a pattern that were created after its first plan.
CREATE TABLE offset_ledger.subscribed_topic (
    file     text NOT NULL,
    topic    text NOT NULL,
    later    boolean NOT NULL,
    found_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (file, topic)
);

-- Where each partition began: the first run's start, or the log start of a partition that was added later. A log that was cut off
-- below the cursors, and that a person accepted, is another log of the same topic: topic_id is then Kafka's topic id with how often
-- that happened, as in 'rGnm5kDZQAqp4YiRJVtB5A/1', and its partitions begin anew.
CREATE TABLE offset_ledger.beginning (
    pipeline     text NOT NULL REFERENCES offset_ledger.pipeline,
    topic_id     text NOT NULL,
    partition    integer NOT NULL CHECK (partition >= 0),
    start_offset bigint NOT NULL CHECK (start_offset >= 0),
    recorded_at  timestamptz NOT NULL DEFAULT now(),
    leader_epoch integer, -- under which the offset was stable, where known
    PRIMARY KEY (pipeline, topic_id, partition),
    UNIQUE (pipeline, topic_id, partition, start_offset)
);

-- `pruned`: history that is pruned by age. One such batch stands for the committed head batches before it, with one range for each
-- partition and the sums of their balance sheets. It has the id of the newest of them. The constraints of the chain hold for it as
-- for any other.
CREATE TABLE offset_ledger.batch (
    batch_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline        text NOT NULL REFERENCES offset_ledger.pipeline,
    kind            text NOT NULL CHECK (kind IN ('head', 'backfill', 'replay', 'redrive', 'pruned')),
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
    request         jsonb, -- what a run was asked for, so that a rerun of it resumes its open batch and plans nothing twice
    -- Ranges that were read so late that compaction may have removed tombstones of them unread. A batch that is being staged and
    -- has some waits for a person; past that, a person has approved them.
    late            jsonb,
    -- What a person approved: who, why, and the identity of what the gate had judged. A batch that is staged again keeps it.
    approval        jsonb,
    engine          text CHECK (engine IN ('spark', 'process')), -- who staged it, and why that was chosen; NULL before the claim
    engine_reason   text,
    -- One head batch may be ahead of the open one, which `after` names: planned from its ends, and staged while that is validated
    -- and committed. No batch with it is judged.
    after           bigint,
    CHECK ((state = 'committed') = (committed_xid IS NOT NULL)),
    CHECK ((state IN ('committed', 'abandoned')) = (ended_at IS NOT NULL)),
    CHECK (state NOT IN ('validated', 'rejected', 'committed') OR verdict IS NOT NULL),
    CHECK (state IN ('planned', 'abandoned') OR epoch > 0),
    CHECK ((engine IS NULL) = (engine_reason IS NULL)),
    CONSTRAINT pruned_was_committed CHECK (kind <> 'pruned' OR state = 'committed'),
    CONSTRAINT a_batch_ahead_waits CHECK (after IS NULL OR (kind = 'head' AND state IN ('planned', 'staging', 'staged'))),
    CONSTRAINT a_batch_ahead_follows_its_own_log FOREIGN KEY (after, pipeline, topic_id)
        REFERENCES offset_ledger.batch (batch_id, pipeline, topic_id),
    UNIQUE (batch_id, pipeline, topic_id)
);
CREATE UNIQUE INDEX batch_one_open_head ON offset_ledger.batch (pipeline)
    WHERE kind = 'head' AND state NOT IN ('committed', 'abandoned') AND after IS NULL;
CREATE UNIQUE INDEX batch_one_ahead ON offset_ledger.batch (pipeline) WHERE after IS NOT NULL;

-- Everything that each batch and each look asks of the ledger has an index, so that its time does not grow with history.
CREATE INDEX batch_open ON offset_ledger.batch (pipeline, batch_id) WHERE state NOT IN ('committed', 'abandoned');
CREATE INDEX batch_abandoned ON offset_ledger.batch (pipeline, (-batch_id)) WHERE state = 'abandoned';
CREATE INDEX batch_not_head ON offset_ledger.batch (pipeline, kind, (-batch_id)) WHERE kind <> 'head';
CREATE INDEX batch_by_end ON offset_ledger.batch (pipeline, ended_at);
CREATE INDEX batch_by_run ON offset_ledger.batch (pipeline, run_id, (-batch_id));
-- Newest first, by a term that the primary key does not have: walking that back, past the batches of all other pipelines,
-- looks cheap to the planner, and is not for a pipeline that has been quiet for long.
CREATE INDEX batch_newest ON offset_ledger.batch (pipeline, (-batch_id));
CREATE INDEX batch_of_remerge ON offset_ledger.batch (pipeline) WHERE request ? 'remerge';

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

CREATE FUNCTION offset_ledger.count_head() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE offset_ledger.pipeline SET heads = heads + 1 WHERE pipeline = NEW.pipeline;
    RETURN NULL;
END $$;
CREATE TRIGGER batch_head_counted AFTER INSERT ON offset_ledger.batch
    FOR EACH ROW WHEN (NEW.kind = 'head') EXECUTE FUNCTION offset_ledger.count_head();

-- With the commit of the batch before it, a batch ahead is the open one. With the end or another claim of that, which may end earlier,
-- it is given up.
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

-- What has ended never changes, unless its pipeline is being pruned in this very transaction.
CREATE FUNCTION offset_ledger.is_pruning(of_pipeline text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce(current_setting('offset_ledger.pruning', true) = of_pipeline, false)
$$;
CREATE FUNCTION offset_ledger.guard_batch() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE TRIGGER batch_guard BEFORE UPDATE ON offset_ledger.batch
    FOR EACH ROW WHEN (OLD.pipeline = NEW.pipeline) EXECUTE FUNCTION offset_ledger.guard_batch();
CREATE TRIGGER batch_guard_delete BEFORE DELETE ON offset_ledger.batch
    FOR EACH ROW EXECUTE FUNCTION offset_ledger.guard_batch();
CREATE TRIGGER batch_guard_name BEFORE UPDATE ON offset_ledger.batch
    FOR EACH ROW WHEN (OLD.pipeline <> NEW.pipeline) EXECUTE FUNCTION offset_ledger.guard_name();

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
    added           bigint CHECK (added >= 0), -- event ids that it brought into the table, as rows or as delete markers
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
    -- These constraints look ranges up by all four columns of an index. One that begins with pipeline, topic_id and partition
    -- looks as good to a planner that expects one row of a partition, as it does without statistics or with those of many
    -- pipelines, but reads the partition's whole chain. So only the index of the ends begins with them, which reads ask for in
    -- their order.
    CONSTRAINT committed_starts_are_unique UNIQUE (committed_from, partition, topic_id, pipeline),
    CONSTRAINT committed_ends_are_unique UNIQUE (pipeline, topic_id, partition, committed_until),
    CONSTRAINT committed_ranges_are_contiguous FOREIGN KEY (pipeline, topic_id, partition, follows)
        REFERENCES offset_ledger.batch_range (pipeline, topic_id, partition, committed_until),
    CONSTRAINT committed_ranges_begin_at_the_beginning FOREIGN KEY (pipeline, topic_id, partition, begins)
        REFERENCES offset_ledger.beginning (pipeline, topic_id, partition, start_offset)
);
CREATE INDEX batch_range_follows ON offset_ledger.batch_range (follows, partition, topic_id, pipeline);

CREATE FUNCTION offset_ledger.guard_range() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE TRIGGER batch_range_guard BEFORE UPDATE ON offset_ledger.batch_range
    FOR EACH ROW WHEN (OLD.inserted IS NOT NULL AND OLD.pipeline = NEW.pipeline)
    EXECUTE FUNCTION offset_ledger.guard_range();
CREATE TRIGGER batch_range_guard_delete BEFORE DELETE ON offset_ledger.batch_range
    FOR EACH ROW WHEN (OLD.inserted IS NOT NULL) EXECUTE FUNCTION offset_ledger.guard_range();
CREATE TRIGGER batch_range_guard_name BEFORE UPDATE ON offset_ledger.batch_range
    FOR EACH ROW WHEN (OLD.pipeline <> NEW.pipeline) EXECUTE FUNCTION offset_ledger.guard_name();

CREATE TABLE offset_ledger.cursor (
    pipeline       text NOT NULL REFERENCES offset_ledger.pipeline,
    topic_id       text NOT NULL,
    partition      integer NOT NULL,
    next_offset    bigint NOT NULL,
    leader_epoch   integer NOT NULL,
    batch_id       bigint NOT NULL REFERENCES offset_ledger.batch,
    updated_at     timestamptz NOT NULL DEFAULT now(),
    newest         timestamptz, -- the latest record timestamp and publish_at of all that moved it; NULL where no record has one
    max_publish_at timestamptz,
    PRIMARY KEY (pipeline, topic_id, partition),
    CONSTRAINT cursor_is_a_committed_end FOREIGN KEY (pipeline, topic_id, partition, next_offset)
        REFERENCES offset_ledger.batch_range (pipeline, topic_id, partition, committed_until)
);

CREATE FUNCTION offset_ledger.guard_cursor() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.next_offset < OLD.next_offset THEN
        RAISE EXCEPTION 'pipeline % partition %: the cursor cannot go back from % to %',
            OLD.pipeline, OLD.partition, OLD.next_offset, NEW.next_offset USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER cursor_guard BEFORE UPDATE ON offset_ledger.cursor
    FOR EACH ROW WHEN (NEW.next_offset < OLD.next_offset) EXECUTE FUNCTION offset_ledger.guard_cursor();

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
    -- The fields of its rows that nothing reads: {records, sampled, fields: [[path, records]], more}. Of so many rows, so many were
    -- looked at, and so many of these had each field; more: there were others. NULL where nothing was counted.
    unread        jsonb,
    PRIMARY KEY (batch_id, epoch, slice_no),
    CHECK ((rows + refused + skipped = 0) = (partition IS NULL)),
    CHECK (max_offset - min_offset + 1 >= rows + refused + skipped)
);

-- Why the driver of a Spark application failed, if it ran on the cluster: the task that submitted it shares no disk with it,
-- and reads this. It is pruned with its batch.
CREATE TABLE offset_ledger.stage_failure (
    submission uuid PRIMARY KEY,
    batch_id   bigint NOT NULL REFERENCES offset_ledger.batch ON DELETE CASCADE,
    error      text NOT NULL,
    message    text NOT NULL,
    failed_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX stage_failure_by_batch ON offset_ledger.stage_failure (batch_id);

-- Why a text is no value of a type, by the input function of the type; NULL where it is one. For a server without
-- pg_input_error_info (before 16), and for types whose input function raises where that one wants an answer.
CREATE FUNCTION offset_ledger.input_error(value text, type text) RETURNS text LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
    -- As the element of an array, for a cast cuts a text that is too long.
    EXECUTE format('SELECT %L::%s', CASE WHEN type LIKE '%[]' THEN value ELSE ARRAY[value]::text END,
                   CASE WHEN type LIKE '%[]' THEN type ELSE type || '[]' END);
    RETURN NULL;
EXCEPTION WHEN OTHERS THEN
    IF SQLSTATE !~ '^(0A|22|23|42601|54|P0|XX)' THEN
        RAISE;
    END IF;
    RETURN SQLERRM;
END $$;

-- The schemas that records of a pipeline were written with, as the registry had them when they were first met: a replay
-- decodes the same when the registry has changed or is gone. A row never changes.
CREATE TABLE offset_ledger.writer_schema (
    pipeline      text NOT NULL REFERENCES offset_ledger.pipeline,
    schema_id     bigint NOT NULL CHECK (schema_id >= 0),
    language      text NOT NULL CHECK (language IN ('AVRO', 'PROTOBUF', 'JSON')),
    text          text NOT NULL,
    "references"  jsonb NOT NULL DEFAULT '[]',  -- [{name, subject, version, text}], each before those that need it
    subjects      jsonb NOT NULL DEFAULT '[]',  -- [[subject, version]]
    fingerprint   text NOT NULL,                -- SHA-256 of language, text and references
    first_seen_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pipeline, schema_id)
);

-- Those that records name by GUID, in a header. A row never changes either.
CREATE TABLE offset_ledger.schema_guid (
    pipeline  text NOT NULL,
    guid      uuid NOT NULL,
    schema_id bigint NOT NULL,
    PRIMARY KEY (pipeline, guid),
    FOREIGN KEY (pipeline, schema_id) REFERENCES offset_ledger.writer_schema ON DELETE CASCADE
);

-- Which schemas the records of a committed batch name, also those that no registry knows.
CREATE TABLE offset_ledger.batch_schema (
    batch_id     bigint NOT NULL REFERENCES offset_ledger.batch ON DELETE CASCADE,
    partition    integer NOT NULL,
    schema_id    bigint NOT NULL,
    first_offset bigint NOT NULL,
    last_offset  bigint NOT NULL,
    records      bigint NOT NULL,
    PRIMARY KEY (batch_id, partition, schema_id)
);
CREATE INDEX batch_schema_by_schema ON offset_ledger.batch_schema (schema_id);

-- Where a head batch met a schema that its columns were not enough for. It `ends` there and leaves the record to the next batch;
-- else its range begins with the record, and the batch brings the columns, or waits for a person.
CREATE TABLE offset_ledger.schema_boundary (
    batch_id     bigint NOT NULL REFERENCES offset_ledger.batch ON DELETE CASCADE,
    partition    integer NOT NULL,
    schema_id    bigint NOT NULL,
    message      text NOT NULL DEFAULT '', -- the full name of a Protobuf message
    first_offset bigint NOT NULL,
    ends         boolean NOT NULL,
    difference   jsonb NOT NULL, -- {columns: [name type], questions: [path: text]}
    met_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (batch_id, partition, schema_id, message)
);
CREATE INDEX schema_boundary_by_schema ON offset_ledger.schema_boundary (schema_id);

-- Differences between a schema and the columns that a person has accepted: the columns stay as they are.
CREATE TABLE offset_ledger.accepted_difference (
    pipeline    text NOT NULL REFERENCES offset_ledger.pipeline,
    path        text NOT NULL,
    difference  text NOT NULL,
    who         text NOT NULL,
    why         text NOT NULL,
    accepted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pipeline, path, difference)
);

-- The columns that pipelines have by the schemas of their records (target.columns_from: schema), besides those of their files: each
-- as a schema made it, or made it wider. Until its batch is committed it is a column for that batch alone. A file may read several
-- topics into one table, FILE@TOPIC each: a column is one for all of them.
CREATE TABLE offset_ledger.followed_column (
    column_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline     text NOT NULL REFERENCES offset_ledger.pipeline,
    name         text NOT NULL,
    path         jsonb NOT NULL CHECK (jsonb_typeof(path) = 'array'),
    type         text NOT NULL,
    encoding     text NOT NULL DEFAULT '',
    schema_id    bigint NOT NULL,
    batch_id     bigint NOT NULL, -- it may be pruned
    committed_at timestamptz,
    UNIQUE (pipeline, batch_id, name)
);

-- The columns of its table that a pipeline has ever written: one that its file declares no more is set to NULL with each
-- row that is updated, so that no row holds values of two records.
CREATE TABLE offset_ledger.declared_column (
    pipeline text NOT NULL REFERENCES offset_ledger.pipeline,
    name     text NOT NULL,
    since    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pipeline, name)
);

-- The group that orders each column of a pipeline file, '' for the row as a whole, since a batch committed so.
CREATE TABLE offset_ledger.column_group (
    file        text NOT NULL,
    name        text NOT NULL,
    group_name  text NOT NULL,
    since_batch bigint NOT NULL,
    PRIMARY KEY (file, name)
);

-- The record that a group of columns has its values of: a column of the bookkeeping for each group, NULL where none gave it yet.
CREATE TYPE offset_ledger.group_order AS
    (publish_at timestamptz, _topic text COLLATE "C", _partition integer, _offset bigint, _timestamp timestamptz, _batch_id bigint);

-- The changes that a pipeline has made to its table, each in the transaction of the batch that needed it.
CREATE TABLE offset_ledger.target_change (
    change_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline   text NOT NULL REFERENCES offset_ledger.pipeline,
    batch_id   bigint NOT NULL,
    target     text NOT NULL,
    found      text NOT NULL,
    clause     text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX target_change_by_pipeline ON offset_ledger.target_change (pipeline, change_id);

-- The event ids of a table, counted, beside what the batches had added by then: what is compared starts from the newest one.
CREATE TABLE offset_ledger.table_count (
    count_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline   text NOT NULL REFERENCES offset_ledger.pipeline,
    event_ids  bigint NOT NULL CHECK (event_ids >= 0),
    added      bigint NOT NULL CHECK (added >= 0),
    who        text NOT NULL,
    why        text NOT NULL,
    counted_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX table_count_by_pipeline ON offset_ledger.table_count (pipeline, count_id DESC);

-- What each batch looked like when it was judged; later batches are compared with the committed ones.
CREATE TABLE offset_ledger.batch_profile (
    batch_id       bigint PRIMARY KEY REFERENCES offset_ledger.batch,
    epoch          integer NOT NULL,
    records        bigint NOT NULL CHECK (records >= 0),
    rows           bigint NOT NULL CHECK (rows BETWEEN 0 AND records),
    nulls          jsonb NOT NULL CHECK (jsonb_typeof(nulls) = 'object'),
    newest         timestamptz, -- latest record timestamp; NULL where the batch has no record
    min_publish_at timestamptz,
    max_publish_at timestamptz
);

-- Questions that only a person may answer, and the answers. Transitions of batches are in batch_event besides.
--   remerge: rows that are ordered by another moment from now on, who decided it, when and why, and what is replayed then.
--   topic_gone: settles once that a topic of several was deleted. It holds for the log that the pipeline reads (its topic_id), until
--   it reads something again.
CREATE TABLE offset_ledger.decision (
    decision_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline    text NOT NULL REFERENCES offset_ledger.pipeline,
    kind        text NOT NULL CHECK (kind IN
        ('lost_range', 'recreated_topic', 'truncated_log', 'topic_gone', 'unread_tombstones', 'rejected_batch', 'remerge',
         'changed_schema')),
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
CREATE INDEX decision_by_batch ON offset_ledger.decision (batch_id) WHERE batch_id IS NOT NULL;

CREATE FUNCTION offset_ledger.guard_decision() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.answer IS NOT NULL THEN
        RAISE EXCEPTION 'decision % is kept as it is', OLD.decision_id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER decision_guard BEFORE UPDATE ON offset_ledger.decision
    FOR EACH ROW WHEN (OLD.pipeline = NEW.pipeline) EXECUTE FUNCTION offset_ledger.guard_decision();
CREATE TRIGGER decision_guard_delete BEFORE DELETE ON offset_ledger.decision
    FOR EACH ROW EXECUTE FUNCTION offset_ledger.guard_decision();
CREATE TRIGGER decision_guard_name BEFORE UPDATE ON offset_ledger.decision
    FOR EACH ROW WHEN (OLD.pipeline <> NEW.pipeline) EXECUTE FUNCTION offset_ledger.guard_name();

-- What a person decides about records that will never fit; `undone` takes an earlier dismissal back.
CREATE TABLE offset_ledger.dismissal (
    dismissal_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline     text NOT NULL REFERENCES offset_ledger.pipeline,
    undone       boolean NOT NULL,
    who          text NOT NULL,
    why          text NOT NULL,
    decided_at   timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE offset_ledger.quarantine (
    quarantine_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline        text NOT NULL REFERENCES offset_ledger.pipeline,
    topic_id        text NOT NULL,
    partition       integer NOT NULL,
    "offset"        bigint NOT NULL,
    "timestamp"     timestamptz, -- NULL where the record has none, which is -1 in Kafka
    key             bytea,
    headers         jsonb,
    value           bytea,
    reasons         jsonb NOT NULL CHECK (jsonb_typeof(reasons) = 'array'),
    batch_id        bigint NOT NULL REFERENCES offset_ledger.batch,
    quarantined_at  timestamptz NOT NULL DEFAULT now(),
    resolved_by     bigint REFERENCES offset_ledger.batch,
    -- `reasons` stay those of the batch that quarantined the record; these are of the last redrive that it failed.
    retried_by      bigint REFERENCES offset_ledger.batch,
    retried_reasons jsonb CHECK (jsonb_typeof(retried_reasons) = 'array'),
    dismissed_by    bigint REFERENCES offset_ledger.dismissal,
    schema_id       bigint,
    UNIQUE (pipeline, topic_id, partition, "offset"),
    CHECK (num_nulls(retried_by, retried_reasons) IN (0, 2)),
    CONSTRAINT dismissed_is_not_resolved CHECK (num_nonnulls(resolved_by, dismissed_by) < 2)
);
CREATE INDEX quarantine_by_batch ON offset_ledger.quarantine (batch_id);
CREATE INDEX quarantine_unresolved ON offset_ledger.quarantine (pipeline, topic_id)
    WHERE resolved_by IS NULL AND dismissed_by IS NULL;
CREATE INDEX quarantine_dismissed ON offset_ledger.quarantine (pipeline) WHERE dismissed_by IS NOT NULL;
CREATE INDEX quarantine_resolved ON offset_ledger.quarantine (resolved_by) WHERE resolved_by IS NOT NULL;
CREATE INDEX quarantine_retried ON offset_ledger.quarantine (retried_by) WHERE retried_by IS NOT NULL;
CREATE INDEX quarantine_by_schema ON offset_ledger.quarantine (pipeline, schema_id) WHERE schema_id IS NOT NULL;
CREATE INDEX quarantine_settled ON offset_ledger.quarantine (pipeline, topic_id, quarantine_id)
    WHERE resolved_by IS NOT NULL OR dismissed_by IS NOT NULL;

-- Quarantined records for people who may not read values: sizes instead of bytes, and reasons without details, which quote values.
CREATE VIEW offset_ledger.quarantined AS
SELECT quarantine_id, pipeline, topic_id, partition, "offset", "timestamp", schema_id, length(key) AS key_bytes,
       length(value) AS value_bytes, batch_id, quarantined_at, resolved_by, retried_by, dismissed_by,
       (SELECT jsonb_agg(jsonb_build_object('code', r->'code', 'path', r->'path') ORDER BY place)
        FROM jsonb_array_elements(coalesce(retried_reasons, reasons)) WITH ORDINALITY AS e (r, place)) AS reasons
FROM offset_ledger.quarantine;

CREATE TABLE offset_ledger.dismissal_record (
    dismissal_id  bigint NOT NULL REFERENCES offset_ledger.dismissal,
    quarantine_id bigint NOT NULL REFERENCES offset_ledger.quarantine,
    PRIMARY KEY (dismissal_id, quarantine_id)
);
CREATE INDEX dismissal_record_by_quarantine ON offset_ledger.dismissal_record (quarantine_id);

-- What was asked for: the same question finds the same open batch again.
CREATE TABLE offset_ledger.redrive (
    batch_id bigint PRIMARY KEY REFERENCES offset_ledger.batch,
    reason   text,
    since    timestamptz,
    most     bigint CHECK (most > 0)
);

-- The exact records of a redrive batch, frozen by the plan, and what became of each.
CREATE TABLE offset_ledger.redrive_record (
    batch_id      bigint NOT NULL REFERENCES offset_ledger.redrive,
    quarantine_id bigint NOT NULL REFERENCES offset_ledger.quarantine,
    outcome       text CHECK (outcome IN ('resolved', 'refused', 'abandoned')), -- NULL while the batch is open
    reasons       jsonb,
    PRIMARY KEY (batch_id, quarantine_id),
    CHECK (coalesce(outcome = 'refused', false) = (reasons IS NOT NULL))
);
CREATE UNIQUE INDEX redrive_record_one_open ON offset_ledger.redrive_record (quarantine_id) WHERE outcome IS NULL;
CREATE INDEX redrive_record_by_quarantine ON offset_ledger.redrive_record (quarantine_id);

CREATE FUNCTION offset_ledger.release_redrive() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE offset_ledger.redrive_record SET outcome = 'abandoned' WHERE batch_id = NEW.batch_id;
    RETURN NULL;
END $$;
CREATE TRIGGER redrive_abandoned AFTER UPDATE ON offset_ledger.batch
    FOR EACH ROW WHEN (NEW.kind = 'redrive' AND NEW.state = 'abandoned')
    EXECUTE FUNCTION offset_ledger.release_redrive();

-- The outbox: written in the commit transaction, delivered after it.
CREATE TABLE offset_ledger.dead_letter (
    quarantine_id bigint PRIMARY KEY REFERENCES offset_ledger.quarantine,
    topic         text NOT NULL,
    enqueued_at   timestamptz NOT NULL DEFAULT now(),
    delivered_at  timestamptz,
    at_partition  integer, -- where it lies in the dead letter topic
    at_offset     bigint,
    CHECK (num_nulls(delivered_at, at_partition, at_offset) IN (0, 3))
);
CREATE INDEX dead_letter_waiting ON offset_ledger.dead_letter (quarantine_id) WHERE delivered_at IS NULL;

-- Below these offsets of the dead letter topic every letter of the pipeline is marked as delivered.
CREATE TABLE offset_ledger.dead_letter_mark (
    pipeline    text NOT NULL REFERENCES offset_ledger.pipeline,
    topic_id    text NOT NULL,
    partition   integer NOT NULL,
    next_offset bigint NOT NULL,
    PRIMARY KEY (pipeline, topic_id, partition)
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

-- As a batch of the kind `pruned`, for batches that were no heads: which offsets they had read again, and the sums of what became of
-- them.
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

-- Dismissed records are pruned by age too. Where they were is kept, a row for each partition and transaction of a prune: they stay
-- dismissed when they are read again, and verify against the topic expects them neither in the table nor in quarantine.
CREATE TABLE offset_ledger.pruned_dismissal (
    pruned_dismissal_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline            text NOT NULL REFERENCES offset_ledger.pipeline,
    topic_id            text NOT NULL,
    partition           integer NOT NULL CHECK (partition >= 0),
    offsets             int8multirange NOT NULL,
    until_offset        bigint NOT NULL GENERATED ALWAYS AS (upper(offsets)) STORED
);
CREATE INDEX pruned_dismissal_by_log ON offset_ledger.pruned_dismissal (pipeline, topic_id, partition, until_offset);

CREATE FUNCTION offset_ledger.pruned_dismissals(of_pipeline text, of_log text)
RETURNS TABLE (partition integer, "offset" bigint) LANGUAGE sql STABLE AS $$
    SELECT d.partition, n
    FROM offset_ledger.pruned_dismissal d CROSS JOIN unnest(d.offsets) AS o
    CROSS JOIN generate_series(lower(o), upper(o) - 1) AS n
    WHERE (d.pipeline, d.topic_id) = (of_pipeline, of_log)
$$;

-- A record that a redrive loaded before that moment, by a batch up to that one, unless its dead letter waits; or that a person
-- dismissed before that moment: its dead letter is not sent.
CREATE FUNCTION offset_ledger.may_be_pruned(q offset_ledger.quarantine, ended_before timestamptz, up_to bigint)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM offset_ledger.batch b
                   WHERE b.batch_id = q.resolved_by AND b.batch_id <= up_to AND b.ended_at < ended_before)
           AND NOT EXISTS (SELECT FROM offset_ledger.dead_letter d
                           WHERE d.quarantine_id = q.quarantine_id AND d.delivered_at IS NULL)
        OR EXISTS (SELECT FROM offset_ledger.dismissal s
                   WHERE s.dismissal_id = q.dismissed_by AND s.decided_at < ended_before)
$$;

-- The batch that the ledger has for this id: itself, or the one that stands for it since it was pruned.
CREATE FUNCTION offset_ledger.stands_for(of_pipeline text, id bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT b.batch_id FROM offset_ledger.batch b WHERE b.batch_id = id),
                    (SELECT min(b.batch_id) FROM offset_ledger.batch b
                     WHERE b.pipeline = of_pipeline AND b.kind = 'pruned' AND b.batch_id > id))
$$;

-- What each audit found: one row for each rule, also for the rules that found nothing. The rows of one audit share
-- pipeline, topic and audited_at.
CREATE TABLE offset_ledger.topic_audit (
    audit_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    audited_at timestamptz NOT NULL,
    pipeline   text,
    topic      text NOT NULL,
    rule       text NOT NULL,
    severity   text NOT NULL CHECK (severity IN ('error', 'warning', 'info', 'ok')),
    found      text NOT NULL,
    risk       text NOT NULL,
    remedy     text,
    who        text,
    dag_id     text,
    run_id     text,
    CHECK ((severity = 'ok') = (remedy IS NULL)),
    UNIQUE NULLS NOT DISTINCT (pipeline, topic, audited_at, rule)
);
CREATE INDEX topic_audit_by_rule ON offset_ledger.topic_audit (pipeline, topic, rule, audited_at) INCLUDE (severity);
CREATE INDEX topic_audit_by_pipeline ON offset_ledger.topic_audit (pipeline, audit_id);

-- What people were, or are still to be, notified of (`notify` in the pipeline file), for each notifier. While a cause with a key has
-- not ended, it is notified of once. Not of a pipeline in the ledger: one can fail before its first plan.
CREATE TABLE offset_ledger.notification (
    notification_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline        text NOT NULL,
    cause           text NOT NULL CHECK (cause IN
        ('batch_rejected', 'approval_needed', 'freshness_missed', 'audit_error', 'loss_ahead', 'server_away', 'run_failed')),
    key             text NOT NULL,
    notifier        text NOT NULL,
    subject         text NOT NULL,
    body            text NOT NULL,
    link            text NOT NULL,
    first_seen_at   timestamptz NOT NULL DEFAULT now(),
    last_seen_at    timestamptz NOT NULL DEFAULT now(),
    attempts        integer NOT NULL DEFAULT 0,
    claimed_until   timestamptz, -- somebody is sending it; if that process dies, it is sent again afterwards
    error           text,        -- of the last attempt
    sent_at         timestamptz,
    ended_at        timestamptz
);
CREATE UNIQUE INDEX notification_once ON offset_ledger.notification (pipeline, cause, md5(key), notifier)
    WHERE ended_at IS NULL;
CREATE INDEX notification_unsent ON offset_ledger.notification (pipeline) WHERE sent_at IS NULL AND ended_at IS NULL;
CREATE INDEX notification_by_pipeline ON offset_ledger.notification (pipeline, notification_id);

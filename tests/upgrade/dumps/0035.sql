SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA offset_ledger;
CREATE SCHEMA offset_ledger_rows;
CREATE SCHEMA offset_ledger_staging;
CREATE TYPE offset_ledger.group_order AS (
	publish_at timestamp with time zone,
	_topic text COLLATE pg_catalog."C",
	_partition integer,
	_offset bigint,
	_timestamp timestamp with time zone,
	_batch_id bigint
);
CREATE FUNCTION offset_ledger.count_head() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE offset_ledger.pipeline SET heads = heads + 1 WHERE pipeline = NEW.pipeline;
    RETURN NULL;
END $$;
CREATE FUNCTION offset_ledger.guard_batch() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION offset_ledger.guard_cursor() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NEW.next_offset < OLD.next_offset THEN
        RAISE EXCEPTION 'pipeline % partition %: the cursor cannot go back from % to %',
            OLD.pipeline, OLD.partition, OLD.next_offset, NEW.next_offset USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION offset_ledger.guard_decision() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.answer IS NOT NULL THEN
        RAISE EXCEPTION 'decision % is kept as it is', OLD.decision_id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION offset_ledger.guard_range() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION offset_ledger.input_error(value text, type text) RETURNS text
    LANGUAGE plpgsql STABLE STRICT
    AS $$
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
CREATE FUNCTION offset_ledger.is_pruning(of_pipeline text) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce(current_setting('offset_ledger.pruning', true) = of_pipeline, false)
$$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE offset_ledger.quarantine (
    quarantine_id bigint NOT NULL,
    pipeline text NOT NULL,
    topic_id text NOT NULL,
    partition integer NOT NULL,
    "offset" bigint NOT NULL,
    "timestamp" timestamp with time zone,
    key bytea,
    headers jsonb,
    value bytea,
    reasons jsonb NOT NULL,
    batch_id bigint NOT NULL,
    quarantined_at timestamp with time zone DEFAULT now() NOT NULL,
    resolved_by bigint,
    retried_by bigint,
    retried_reasons jsonb,
    dismissed_by bigint,
    schema_id bigint,
    CONSTRAINT dismissed_is_not_resolved CHECK ((num_nonnulls(resolved_by, dismissed_by) < 2)),
    CONSTRAINT quarantine_check CHECK ((num_nulls(retried_by, retried_reasons) = ANY (ARRAY[0, 2]))),
    CONSTRAINT quarantine_reasons_check CHECK ((jsonb_typeof(reasons) = 'array'::text)),
    CONSTRAINT quarantine_retried_reasons_check CHECK ((jsonb_typeof(retried_reasons) = 'array'::text))
);
CREATE FUNCTION offset_ledger.may_be_pruned(q offset_ledger.quarantine, ended_before timestamp with time zone, up_to bigint) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT EXISTS (SELECT FROM offset_ledger.batch b
                   WHERE b.batch_id = q.resolved_by AND b.batch_id <= up_to AND b.ended_at < ended_before)
           AND NOT EXISTS (SELECT FROM offset_ledger.dead_letter d
                           WHERE d.quarantine_id = q.quarantine_id AND d.delivered_at IS NULL)
        OR EXISTS (SELECT FROM offset_ledger.dismissal s
                   WHERE s.dismissal_id = q.dismissed_by AND s.decided_at < ended_before)
$$;
CREATE FUNCTION offset_ledger.not_compacted_before(of_pipeline text, of_log text, of_partition integer, at_offset bigint) RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce(
        (SELECT max(l.seen_at) FROM offset_ledger.topic_look l
         WHERE l.pipeline = of_pipeline
           AND (split_part(l.topic_id, '/', 1) <> split_part(of_log, '/', 1) OR coalesce(l.last_stables[of_partition + 1], 0) <= at_offset)),
        (SELECT max(b.planned_at) FROM offset_ledger.batch_range r JOIN offset_ledger.batch b USING (batch_id)
         WHERE r.pipeline = of_pipeline AND r.topic_id = of_log AND r.partition = of_partition
           AND b.kind <> 'redrive' AND r.last_stable <= at_offset),
        (SELECT min(s.recorded_at) FROM offset_ledger.beginning s WHERE s.pipeline = of_pipeline))
$$;
CREATE FUNCTION offset_ledger.pruned_dismissals(of_pipeline text, of_log text) RETURNS TABLE(partition integer, "offset" bigint)
    LANGUAGE sql STABLE
    AS $$
    SELECT d.partition, n
    FROM offset_ledger.pruned_dismissal d CROSS JOIN unnest(d.offsets) AS o
    CROSS JOIN generate_series(lower(o), upper(o) - 1) AS n
    WHERE (d.pipeline, d.topic_id) = (of_pipeline, of_log)
$$;
CREATE FUNCTION offset_ledger.record_transition() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO offset_ledger.batch_event (batch_id, from_state, to_state, epoch, who, why)
    VALUES (NEW.batch_id, CASE TG_OP WHEN 'UPDATE' THEN OLD.state END, NEW.state, NEW.epoch,
            NEW.changed_by, NEW.changed_why);
    RETURN NULL;
END $$;
CREATE FUNCTION offset_ledger.release_redrive() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE offset_ledger.redrive_record SET outcome = 'abandoned' WHERE batch_id = NEW.batch_id;
    RETURN NULL;
END $$;
CREATE FUNCTION offset_ledger.settle_ahead() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION offset_ledger.stands_for(of_pipeline text, id bigint) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce((SELECT b.batch_id FROM offset_ledger.batch b WHERE b.batch_id = id),
                    (SELECT min(b.batch_id) FROM offset_ledger.batch b
                     WHERE b.pipeline = of_pipeline AND b.kind = 'pruned' AND b.batch_id > id))
$$;
CREATE TABLE offset_ledger.accepted_difference (
    pipeline text NOT NULL,
    path text NOT NULL,
    difference text NOT NULL,
    who text NOT NULL,
    why text NOT NULL,
    accepted_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE offset_ledger.batch (
    batch_id bigint NOT NULL,
    pipeline text NOT NULL,
    kind text NOT NULL,
    state text DEFAULT 'planned'::text NOT NULL,
    epoch integer DEFAULT 0 NOT NULL,
    topic_id text NOT NULL,
    config_hash text NOT NULL,
    dag_id text,
    run_id text,
    try_number integer,
    code_version text NOT NULL,
    slices_expected integer,
    gap_reason text,
    rows bigint,
    refused bigint,
    skipped bigint,
    verdict jsonb,
    committed_xid xid8,
    changed_by text NOT NULL,
    changed_why text,
    planned_at timestamp with time zone DEFAULT now() NOT NULL,
    claimed_at timestamp with time zone,
    staged_at timestamp with time zone,
    validated_at timestamp with time zone,
    ended_at timestamp with time zone,
    request jsonb,
    late jsonb,
    approval jsonb,
    engine text,
    engine_reason text,
    after bigint,
    CONSTRAINT a_batch_ahead_waits CHECK (((after IS NULL) OR ((kind = 'head'::text) AND (state = ANY (ARRAY['planned'::text, 'staging'::text, 'staged'::text]))))),
    CONSTRAINT batch_check CHECK (((state = 'committed'::text) = (committed_xid IS NOT NULL))),
    CONSTRAINT batch_check1 CHECK (((state = ANY (ARRAY['committed'::text, 'abandoned'::text])) = (ended_at IS NOT NULL))),
    CONSTRAINT batch_check2 CHECK (((state <> ALL (ARRAY['validated'::text, 'rejected'::text, 'committed'::text])) OR (verdict IS NOT NULL))),
    CONSTRAINT batch_check3 CHECK (((state = ANY (ARRAY['planned'::text, 'abandoned'::text])) OR (epoch > 0))),
    CONSTRAINT batch_check4 CHECK (((engine IS NULL) = (engine_reason IS NULL))),
    CONSTRAINT batch_engine_check CHECK ((engine = ANY (ARRAY['spark'::text, 'process'::text]))),
    CONSTRAINT batch_epoch_check CHECK ((epoch >= 0)),
    CONSTRAINT batch_kind_check CHECK ((kind = ANY (ARRAY['head'::text, 'backfill'::text, 'replay'::text, 'redrive'::text, 'pruned'::text]))),
    CONSTRAINT batch_refused_check CHECK ((refused >= 0)),
    CONSTRAINT batch_rows_check CHECK ((rows >= 0)),
    CONSTRAINT batch_skipped_check CHECK ((skipped >= 0)),
    CONSTRAINT batch_slices_expected_check CHECK ((slices_expected >= 0)),
    CONSTRAINT batch_state_check CHECK ((state = ANY (ARRAY['planned'::text, 'staging'::text, 'staged'::text, 'validated'::text, 'rejected'::text, 'committed'::text, 'abandoned'::text]))),
    CONSTRAINT pruned_was_committed CHECK (((kind <> 'pruned'::text) OR (state = 'committed'::text)))
);
ALTER TABLE offset_ledger.batch ALTER COLUMN batch_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME offset_ledger.batch_batch_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE offset_ledger.batch_event (
    event_id bigint NOT NULL,
    batch_id bigint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    from_state text,
    to_state text NOT NULL,
    epoch integer NOT NULL,
    who text NOT NULL,
    why text,
    CONSTRAINT transition_is_allowed CHECK (
CASE
    WHEN (from_state IS NULL) THEN (to_state = 'planned'::text)
    ELSE (((((((((((((((from_state = 'planned'::text) AND (to_state = 'staging'::text)) OR ((from_state = 'planned'::text) AND (to_state = 'abandoned'::text))) OR ((from_state = 'staging'::text) AND (to_state = 'staging'::text))) OR ((from_state = 'staging'::text) AND (to_state = 'staged'::text))) OR ((from_state = 'staging'::text) AND (to_state = 'abandoned'::text))) OR ((from_state = 'staged'::text) AND (to_state = 'staging'::text))) OR ((from_state = 'staged'::text) AND (to_state = 'validated'::text))) OR ((from_state = 'staged'::text) AND (to_state = 'rejected'::text))) OR ((from_state = 'staged'::text) AND (to_state = 'abandoned'::text))) OR ((from_state = 'validated'::text) AND (to_state = 'staging'::text))) OR ((from_state = 'validated'::text) AND (to_state = 'committed'::text))) OR ((from_state = 'validated'::text) AND (to_state = 'abandoned'::text))) OR ((from_state = 'rejected'::text) AND (to_state = 'validated'::text))) OR ((from_state = 'rejected'::text) AND (to_state = 'abandoned'::text)))
END)
);
ALTER TABLE offset_ledger.batch_event ALTER COLUMN event_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME offset_ledger.batch_event_event_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE offset_ledger.batch_profile (
    batch_id bigint NOT NULL,
    epoch integer NOT NULL,
    records bigint NOT NULL,
    rows bigint NOT NULL,
    nulls jsonb NOT NULL,
    newest timestamp with time zone,
    min_publish_at timestamp with time zone,
    max_publish_at timestamp with time zone,
    CONSTRAINT batch_profile_check CHECK (((rows >= 0) AND (rows <= records))),
    CONSTRAINT batch_profile_nulls_check CHECK ((jsonb_typeof(nulls) = 'object'::text)),
    CONSTRAINT batch_profile_records_check CHECK ((records >= 0))
);
CREATE TABLE offset_ledger.batch_range (
    batch_id bigint NOT NULL,
    pipeline text NOT NULL,
    topic_id text NOT NULL,
    partition integer NOT NULL,
    from_offset bigint NOT NULL,
    until_offset bigint NOT NULL,
    log_start bigint NOT NULL,
    last_stable bigint NOT NULL,
    high_watermark bigint NOT NULL,
    leader_epoch integer NOT NULL,
    inserted bigint,
    updated bigint,
    superseded bigint,
    duplicate bigint,
    deleted bigint,
    quarantined bigint,
    skipped bigint,
    gap bigint,
    gap_reason text,
    min_timestamp timestamp with time zone,
    max_timestamp timestamp with time zone,
    committed_from bigint,
    committed_until bigint,
    begins bigint,
    follows bigint,
    added bigint,
    CONSTRAINT balance_sheet_closes CHECK (((until_offset - from_offset) = (((((((inserted + updated) + superseded) + duplicate) + deleted) + quarantined) + skipped) + gap))),
    CONSTRAINT batch_range_added_check CHECK ((added >= 0)),
    CONSTRAINT batch_range_check CHECK ((until_offset > from_offset)),
    CONSTRAINT batch_range_check1 CHECK ((num_nulls(inserted, updated, superseded, duplicate, deleted, quarantined, skipped, gap) = ANY (ARRAY[0, 8]))),
    CONSTRAINT batch_range_check2 CHECK ((num_nulls(committed_from, committed_until) = ANY (ARRAY[0, 2]))),
    CONSTRAINT batch_range_check3 CHECK (((committed_from IS NULL) OR ((committed_from = from_offset) AND (committed_until = until_offset) AND (inserted IS NOT NULL)))),
    CONSTRAINT batch_range_check4 CHECK (((committed_from IS NULL) OR (num_nonnulls(begins, follows) = 1))),
    CONSTRAINT batch_range_check5 CHECK ((NOT (COALESCE(begins, follows) IS DISTINCT FROM committed_from))),
    CONSTRAINT batch_range_deleted_check CHECK ((deleted >= 0)),
    CONSTRAINT batch_range_duplicate_check CHECK ((duplicate >= 0)),
    CONSTRAINT batch_range_from_offset_check CHECK ((from_offset >= 0)),
    CONSTRAINT batch_range_gap_check CHECK ((gap >= 0)),
    CONSTRAINT batch_range_inserted_check CHECK ((inserted >= 0)),
    CONSTRAINT batch_range_partition_check CHECK ((partition >= 0)),
    CONSTRAINT batch_range_quarantined_check CHECK ((quarantined >= 0)),
    CONSTRAINT batch_range_skipped_check CHECK ((skipped >= 0)),
    CONSTRAINT batch_range_superseded_check CHECK ((superseded >= 0)),
    CONSTRAINT batch_range_updated_check CHECK ((updated >= 0)),
    CONSTRAINT gap_is_labelled CHECK (((gap = 0) OR (gap_reason IS NOT NULL)))
);
CREATE TABLE offset_ledger.batch_schema (
    batch_id bigint NOT NULL,
    partition integer NOT NULL,
    schema_id bigint NOT NULL,
    first_offset bigint NOT NULL,
    last_offset bigint NOT NULL,
    records bigint NOT NULL
);
CREATE TABLE offset_ledger.beginning (
    pipeline text NOT NULL,
    topic_id text NOT NULL,
    partition integer NOT NULL,
    start_offset bigint NOT NULL,
    recorded_at timestamp with time zone DEFAULT now() NOT NULL,
    leader_epoch integer,
    CONSTRAINT beginning_partition_check CHECK ((partition >= 0)),
    CONSTRAINT beginning_start_offset_check CHECK ((start_offset >= 0))
);
CREATE TABLE offset_ledger.column_group (
    file text NOT NULL,
    name text NOT NULL,
    group_name text NOT NULL,
    since_batch bigint NOT NULL
);
CREATE TABLE offset_ledger.cursor (
    pipeline text NOT NULL,
    topic_id text NOT NULL,
    partition integer NOT NULL,
    next_offset bigint NOT NULL,
    leader_epoch integer NOT NULL,
    batch_id bigint NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    newest timestamp with time zone,
    max_publish_at timestamp with time zone
);
CREATE TABLE offset_ledger.dead_letter (
    quarantine_id bigint NOT NULL,
    topic text NOT NULL,
    enqueued_at timestamp with time zone DEFAULT now() NOT NULL,
    delivered_at timestamp with time zone,
    at_partition integer,
    at_offset bigint,
    CONSTRAINT dead_letter_check CHECK ((num_nulls(delivered_at, at_partition, at_offset) = ANY (ARRAY[0, 3])))
);
CREATE TABLE offset_ledger.dead_letter_mark (
    pipeline text NOT NULL,
    topic_id text NOT NULL,
    partition integer NOT NULL,
    next_offset bigint NOT NULL
);
CREATE TABLE offset_ledger.decision (
    decision_id bigint NOT NULL,
    pipeline text NOT NULL,
    kind text NOT NULL,
    topic_id text NOT NULL,
    batch_id bigint,
    question text NOT NULL,
    details jsonb NOT NULL,
    dag_id text,
    run_id text,
    asked_at timestamp with time zone DEFAULT now() NOT NULL,
    answer text,
    who text,
    why text,
    answered_at timestamp with time zone,
    CONSTRAINT decision_answer_check CHECK ((answer = ANY (ARRAY['approve'::text, 'abandon'::text, 'reject'::text]))),
    CONSTRAINT decision_check CHECK ((num_nulls(answer, who, answered_at) = ANY (ARRAY[0, 3]))),
    CONSTRAINT decision_check1 CHECK (((kind <> 'rejected_batch'::text) OR (batch_id IS NOT NULL))),
    CONSTRAINT decision_kind_check CHECK ((kind = ANY (ARRAY['lost_range'::text, 'recreated_topic'::text, 'truncated_log'::text, 'topic_gone'::text, 'unread_tombstones'::text, 'rejected_batch'::text, 'remerge'::text, 'changed_schema'::text])))
);
ALTER TABLE offset_ledger.decision ALTER COLUMN decision_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME offset_ledger.decision_decision_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE offset_ledger.declared_column (
    pipeline text NOT NULL,
    name text NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE offset_ledger.dismissal (
    dismissal_id bigint NOT NULL,
    pipeline text NOT NULL,
    undone boolean NOT NULL,
    who text NOT NULL,
    why text NOT NULL,
    decided_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE offset_ledger.dismissal ALTER COLUMN dismissal_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME offset_ledger.dismissal_dismissal_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE offset_ledger.dismissal_record (
    dismissal_id bigint NOT NULL,
    quarantine_id bigint NOT NULL
);
CREATE TABLE offset_ledger.followed_column (
    column_id bigint NOT NULL,
    pipeline text NOT NULL,
    name text NOT NULL,
    path jsonb NOT NULL,
    type text NOT NULL,
    encoding text DEFAULT ''::text NOT NULL,
    schema_id bigint NOT NULL,
    batch_id bigint NOT NULL,
    committed_at timestamp with time zone,
    CONSTRAINT followed_column_path_check CHECK ((jsonb_typeof(path) = 'array'::text))
);
ALTER TABLE offset_ledger.followed_column ALTER COLUMN column_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME offset_ledger.followed_column_column_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE offset_ledger.migration (
    number integer NOT NULL,
    name text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE offset_ledger.notification (
    notification_id bigint NOT NULL,
    pipeline text NOT NULL,
    cause text NOT NULL,
    key text NOT NULL,
    notifier text NOT NULL,
    subject text NOT NULL,
    body text NOT NULL,
    link text NOT NULL,
    first_seen_at timestamp with time zone DEFAULT now() NOT NULL,
    last_seen_at timestamp with time zone DEFAULT now() NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    claimed_until timestamp with time zone,
    error text,
    sent_at timestamp with time zone,
    ended_at timestamp with time zone,
    CONSTRAINT notification_cause_check CHECK ((cause = ANY (ARRAY['batch_rejected'::text, 'approval_needed'::text, 'freshness_missed'::text, 'audit_error'::text, 'loss_ahead'::text, 'server_away'::text, 'run_failed'::text])))
);
ALTER TABLE offset_ledger.notification ALTER COLUMN notification_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME offset_ledger.notification_notification_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE offset_ledger.pipeline (
    pipeline text NOT NULL,
    cluster_id text NOT NULL,
    topic text NOT NULL,
    topic_id text NOT NULL,
    target text,
    config_hash text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    ordered_by text,
    heads bigint DEFAULT 0 NOT NULL,
    file text GENERATED ALWAYS AS (split_part(pipeline, '@'::text, 1)) STORED,
    key_places jsonb,
    CONSTRAINT pipeline_pipeline_check CHECK ((pipeline ~ '^[a-z][a-z0-9_]{0,62}(@[A-Za-z0-9._-]{1,249})?$'::text))
);
CREATE TABLE offset_ledger.pruned_dismissal (
    pruned_dismissal_id bigint NOT NULL,
    pipeline text NOT NULL,
    topic_id text NOT NULL,
    partition integer NOT NULL,
    offsets int8multirange NOT NULL,
    until_offset bigint GENERATED ALWAYS AS (upper(offsets)) STORED NOT NULL,
    CONSTRAINT pruned_dismissal_partition_check CHECK ((partition >= 0))
);
ALTER TABLE offset_ledger.pruned_dismissal ALTER COLUMN pruned_dismissal_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME offset_ledger.pruned_dismissal_pruned_dismissal_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE offset_ledger.pruned_reread (
    batch_id bigint NOT NULL,
    partition integer NOT NULL,
    offsets int8multirange NOT NULL,
    inserted bigint NOT NULL,
    updated bigint NOT NULL,
    superseded bigint NOT NULL,
    duplicate bigint NOT NULL,
    deleted bigint NOT NULL,
    quarantined bigint NOT NULL,
    skipped bigint NOT NULL,
    gap bigint NOT NULL,
    added bigint NOT NULL,
    CONSTRAINT pruned_reread_added_check CHECK ((added >= 0)),
    CONSTRAINT pruned_reread_deleted_check CHECK ((deleted >= 0)),
    CONSTRAINT pruned_reread_duplicate_check CHECK ((duplicate >= 0)),
    CONSTRAINT pruned_reread_gap_check CHECK ((gap >= 0)),
    CONSTRAINT pruned_reread_inserted_check CHECK ((inserted >= 0)),
    CONSTRAINT pruned_reread_partition_check CHECK ((partition >= 0)),
    CONSTRAINT pruned_reread_quarantined_check CHECK ((quarantined >= 0)),
    CONSTRAINT pruned_reread_skipped_check CHECK ((skipped >= 0)),
    CONSTRAINT pruned_reread_superseded_check CHECK ((superseded >= 0)),
    CONSTRAINT pruned_reread_updated_check CHECK ((updated >= 0))
);
CREATE TABLE offset_ledger.pruning (
    pruning_id bigint NOT NULL,
    pipeline text NOT NULL,
    topic_id text NOT NULL,
    older_than timestamp with time zone NOT NULL,
    until_batch_id bigint NOT NULL,
    who text NOT NULL,
    pruned_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE offset_ledger.pruning ALTER COLUMN pruning_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME offset_ledger.pruning_pruning_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE offset_ledger.quarantine ALTER COLUMN quarantine_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME offset_ledger.quarantine_quarantine_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE VIEW offset_ledger.quarantined AS
 SELECT quarantine_id,
    pipeline,
    topic_id,
    partition,
    "offset",
    "timestamp",
    schema_id,
    length(key) AS key_bytes,
    length(value) AS value_bytes,
    batch_id,
    quarantined_at,
    resolved_by,
    retried_by,
    dismissed_by,
    ( SELECT jsonb_agg(jsonb_build_object('code', (e.r -> 'code'::text), 'path', (e.r -> 'path'::text)) ORDER BY e.place) AS jsonb_agg
           FROM jsonb_array_elements(COALESCE(quarantine.retried_reasons, quarantine.reasons)) WITH ORDINALITY e(r, place)) AS reasons
   FROM offset_ledger.quarantine;
CREATE TABLE offset_ledger.redrive (
    batch_id bigint NOT NULL,
    reason text,
    since timestamp with time zone,
    most bigint,
    CONSTRAINT redrive_most_check CHECK ((most > 0))
);
CREATE TABLE offset_ledger.redrive_record (
    batch_id bigint NOT NULL,
    quarantine_id bigint NOT NULL,
    outcome text,
    reasons jsonb,
    CONSTRAINT redrive_record_check CHECK ((COALESCE((outcome = 'refused'::text), false) = (reasons IS NOT NULL))),
    CONSTRAINT redrive_record_outcome_check CHECK ((outcome = ANY (ARRAY['resolved'::text, 'refused'::text, 'abandoned'::text])))
);
CREATE TABLE offset_ledger.schema_boundary (
    batch_id bigint NOT NULL,
    partition integer NOT NULL,
    schema_id bigint NOT NULL,
    message text DEFAULT ''::text NOT NULL,
    first_offset bigint NOT NULL,
    ends boolean NOT NULL,
    difference jsonb NOT NULL,
    met_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
CREATE TABLE offset_ledger.schema_guid (
    pipeline text NOT NULL,
    guid uuid NOT NULL,
    schema_id bigint NOT NULL
);
CREATE TABLE offset_ledger.slice (
    batch_id bigint NOT NULL,
    epoch integer NOT NULL,
    slice_no integer NOT NULL,
    partition integer,
    rows bigint DEFAULT 0 NOT NULL,
    refused bigint DEFAULT 0 NOT NULL,
    skipped bigint DEFAULT 0 NOT NULL,
    min_offset bigint,
    max_offset bigint,
    min_timestamp timestamp with time zone,
    max_timestamp timestamp with time zone,
    staged_at timestamp with time zone DEFAULT now() NOT NULL,
    unread jsonb,
    CONSTRAINT slice_check CHECK (((((rows + refused) + skipped) = 0) = (partition IS NULL))),
    CONSTRAINT slice_check1 CHECK ((((max_offset - min_offset) + 1) >= ((rows + refused) + skipped))),
    CONSTRAINT slice_slice_no_check CHECK ((slice_no >= 0))
);
CREATE TABLE offset_ledger.stage_failure (
    submission uuid NOT NULL,
    batch_id bigint NOT NULL,
    error text NOT NULL,
    message text NOT NULL,
    failed_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE offset_ledger.subscribed_topic (
    file text NOT NULL,
    topic text NOT NULL,
    later boolean NOT NULL,
    found_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE offset_ledger.table_count (
    count_id bigint NOT NULL,
    pipeline text NOT NULL,
    event_ids bigint NOT NULL,
    added bigint NOT NULL,
    who text NOT NULL,
    why text NOT NULL,
    counted_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT table_count_added_check CHECK ((added >= 0)),
    CONSTRAINT table_count_event_ids_check CHECK ((event_ids >= 0))
);
ALTER TABLE offset_ledger.table_count ALTER COLUMN count_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME offset_ledger.table_count_count_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE offset_ledger.target_change (
    change_id bigint NOT NULL,
    pipeline text NOT NULL,
    batch_id bigint NOT NULL,
    target text NOT NULL,
    found text NOT NULL,
    clause text NOT NULL,
    changed_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE offset_ledger.target_change ALTER COLUMN change_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME offset_ledger.target_change_change_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE offset_ledger.target_table (
    target text NOT NULL,
    file text NOT NULL
);
CREATE TABLE offset_ledger.topic_audit (
    audit_id bigint NOT NULL,
    audited_at timestamp with time zone NOT NULL,
    pipeline text,
    topic text NOT NULL,
    rule text NOT NULL,
    severity text NOT NULL,
    found text NOT NULL,
    risk text NOT NULL,
    remedy text,
    who text,
    dag_id text,
    run_id text,
    CONSTRAINT topic_audit_check CHECK (((severity = 'ok'::text) = (remedy IS NULL))),
    CONSTRAINT topic_audit_severity_check CHECK ((severity = ANY (ARRAY['error'::text, 'warning'::text, 'info'::text, 'ok'::text])))
);
ALTER TABLE offset_ledger.topic_audit ALTER COLUMN audit_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME offset_ledger.topic_audit_audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE offset_ledger.topic_look (
    look_id bigint NOT NULL,
    pipeline text NOT NULL,
    topic_id text NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    last_stables bigint[] NOT NULL,
    delete_retention_ms bigint
);
ALTER TABLE offset_ledger.topic_look ALTER COLUMN look_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME offset_ledger.topic_look_look_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE offset_ledger.writer_schema (
    pipeline text NOT NULL,
    schema_id bigint NOT NULL,
    language text NOT NULL,
    text text NOT NULL,
    "references" jsonb DEFAULT '[]'::jsonb NOT NULL,
    subjects jsonb DEFAULT '[]'::jsonb NOT NULL,
    fingerprint text NOT NULL,
    first_seen_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT writer_schema_language_check CHECK ((language = ANY (ARRAY['AVRO'::text, 'PROTOBUF'::text, 'JSON'::text]))),
    CONSTRAINT writer_schema_schema_id_check CHECK ((schema_id >= 0))
);
CREATE UNLOGGED TABLE offset_ledger_staging.b2_e1 (
    event_id text COLLATE pg_catalog."C",
    publish_at timestamp with time zone,
    state text,
    amount numeric(8,2),
    _partition integer,
    _offset bigint,
    _timestamp timestamp with time zone,
    _key bytea,
    _headers jsonb,
    _deleted boolean,
    _value bytea
)
WITH (autovacuum_enabled='false');
CREATE UNLOGGED TABLE offset_ledger_staging.b2_e1_refused (
    _partition integer,
    _offset bigint,
    _timestamp timestamp with time zone,
    _key bytea,
    _headers jsonb,
    _value bytea,
    reasons jsonb
)
WITH (autovacuum_enabled='false');
CREATE TABLE public.orders (
    event_id text NOT NULL COLLATE pg_catalog."C",
    publish_at timestamp with time zone NOT NULL,
    state text,
    amount numeric(8,2),
    _partition integer NOT NULL,
    _offset bigint NOT NULL,
    _timestamp timestamp with time zone,
    _key bytea,
    _headers jsonb,
    _deleted boolean NOT NULL,
    _batch_id bigint NOT NULL
);
CREATE TABLE public.planned (
    event_id text NOT NULL COLLATE pg_catalog."C",
    publish_at timestamp with time zone NOT NULL,
    state text,
    amount numeric(8,2),
    _partition integer NOT NULL,
    _offset bigint NOT NULL,
    _timestamp timestamp with time zone,
    _key bytea,
    _headers jsonb,
    _deleted boolean NOT NULL,
    _batch_id bigint NOT NULL
);
INSERT INTO offset_ledger.batch OVERRIDING SYSTEM VALUE VALUES
	(1, 'orders', 'head', 'committed', 1, '@topic_id@', '8145c4c6441c3ebe2702dcdd05861fcfed78705c1d2a95cb7c9fb61611a154a8', NULL, NULL, NULL, '0.2.0', 2, NULL, 5, 1, 0, '{"rows": 5, "moved": {}, "notes": [], "suite": null, "deleted": 0, "history": [], "reasons": [], "refused": 1, "seconds": 0.02, "success": true, "findings": [], "gx_version": null, "quarantined": 0, "suite_sha256": null, "quarantined_share": 0.16666666666666666, "great_expectations": {}, "max_quarantined_share": 1.0}', '769', 'root@vm', NULL, '2026-11-30 09:12:59.738679+00', '2026-11-30 09:13:02.725019+00', '2026-11-30 09:13:12.779677+00', '2026-11-30 09:13:14.108485+00', '2026-11-30 09:13:14.449808+00', NULL, NULL, NULL, 'process', '6 offsets, fewer than stage.process_below: 10,000', NULL),
	(2, 'orders', 'head', 'validated', 1, '@topic_id@', '8145c4c6441c3ebe2702dcdd05861fcfed78705c1d2a95cb7c9fb61611a154a8', NULL, NULL, NULL, '0.2.0', 2, NULL, 4, 1, 0, '{"rows": 3, "moved": {}, "notes": [], "suite": null, "deleted": 1, "history": [], "reasons": [], "refused": 1, "seconds": 0.054, "success": true, "findings": [], "gx_version": null, "quarantined": 0, "suite_sha256": null, "quarantined_share": 0.2, "great_expectations": {}, "max_quarantined_share": 1.0}', NULL, 'root@vm', NULL, '2026-11-30 09:13:21.012911+00', '2026-11-30 09:13:24.342779+00', '2026-11-30 09:13:34.487607+00', '2026-11-30 09:13:36.912383+00', NULL, NULL, NULL, NULL, 'process', '5 offsets, fewer than stage.process_below: 10,000', NULL),
	(3, 'planned', 'head', 'planned', 0, '@topic_id@', '9f21b07ac5542ed52d5a7cc68308c795f99a79f1153a91c4a8228a1c95311a32', NULL, NULL, NULL, '0.2.0', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'root@vm', NULL, '2026-11-30 09:13:47.25046+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO offset_ledger.batch_event OVERRIDING SYSTEM VALUE VALUES
	(1, 1, '2026-11-30 09:12:59.843621+00', NULL, 'planned', 0, 'root@vm', NULL),
	(2, 1, '2026-11-30 09:13:02.793133+00', 'planned', 'staging', 1, 'root@vm', NULL),
	(3, 1, '2026-11-30 09:13:12.782082+00', 'staging', 'staged', 1, 'root@vm', NULL),
	(4, 1, '2026-11-30 09:13:14.110743+00', 'staged', 'validated', 1, 'root@vm', NULL),
	(5, 1, '2026-11-30 09:13:14.45247+00', 'validated', 'committed', 1, 'root@vm', NULL),
	(6, 2, '2026-11-30 09:13:21.150585+00', NULL, 'planned', 0, 'root@vm', NULL),
	(7, 2, '2026-11-30 09:13:24.408865+00', 'planned', 'staging', 1, 'root@vm', NULL),
	(8, 2, '2026-11-30 09:13:34.492173+00', 'staging', 'staged', 1, 'root@vm', NULL),
	(9, 2, '2026-11-30 09:13:36.915141+00', 'staged', 'validated', 1, 'root@vm', NULL),
	(10, 3, '2026-11-30 09:13:47.376233+00', NULL, 'planned', 0, 'root@vm', NULL);
INSERT INTO offset_ledger.batch_profile VALUES
	(1, 1, 6, 5, '{"state": 0, "amount": 2}', '2026-01-01 12:00:05+00', '2026-01-01 12:00:01+00', '2026-01-01 12:00:05+00'),
	(2, 1, 5, 3, '{"state": 0, "amount": 1}', '2026-01-01 12:00:10+00', '2026-01-01 12:00:01+00', '2026-01-01 12:00:10+00');
INSERT INTO offset_ledger.batch_range VALUES
	(1, 'orders', '@topic_id@', 0, 0, 3, 0, 3, 3, 0, 2, 0, 1, 0, 0, 0, 0, 0, NULL, '2026-01-01 12:00:01+00', '2026-01-01 12:00:03+00', 0, 3, 0, NULL, 2),
	(1, 'orders', '@topic_id@', 1, 0, 3, 0, 3, 3, 0, 2, 0, 0, 0, 0, 1, 0, 0, NULL, '2026-01-01 12:00:04+00', '2026-01-01 12:00:05+00', 0, 3, 0, NULL, 2),
	(2, 'orders', '@topic_id@', 0, 3, 5, 0, 5, 5, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(2, 'orders', '@topic_id@', 1, 3, 6, 0, 6, 6, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(3, 'planned', '@topic_id@', 0, 0, 5, 0, 5, 5, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(3, 'planned', '@topic_id@', 1, 0, 6, 0, 6, 6, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO offset_ledger.beginning VALUES
	('orders', '@topic_id@', 0, 0, '2026-11-30 09:12:59.738679+00', 0),
	('orders', '@topic_id@', 1, 0, '2026-11-30 09:12:59.738679+00', 0),
	('planned', '@topic_id@', 0, 0, '2026-11-30 09:13:47.25046+00', 0),
	('planned', '@topic_id@', 1, 0, '2026-11-30 09:13:47.25046+00', 0);
INSERT INTO offset_ledger.cursor VALUES
	('orders', '@topic_id@', 0, 3, 0, 1, '2026-11-30 09:13:14.177983+00', '2026-01-01 12:00:03+00', '2026-01-01 12:00:05+00'),
	('orders', '@topic_id@', 1, 3, 0, 1, '2026-11-30 09:13:14.177983+00', '2026-01-01 12:00:05+00', '2026-01-01 12:00:05+00');
INSERT INTO offset_ledger.declared_column VALUES
	('orders', 'state', '2026-11-30 09:13:14.177983+00'),
	('orders', 'amount', '2026-11-30 09:13:14.177983+00');
INSERT INTO offset_ledger.migration VALUES
	(1, '0001_ledger', '2026-11-30 09:12:51.55202+00'),
	(2, '0002_redrive', '2026-11-30 09:12:51.55202+00'),
	(3, '0003_dead_letters', '2026-11-30 09:12:51.55202+00'),
	(4, '0004_quality', '2026-11-30 09:12:51.55202+00'),
	(5, '0005_decisions', '2026-11-30 09:12:51.55202+00'),
	(6, '0006_audit', '2026-11-30 09:12:51.55202+00'),
	(7, '0007_audit_origin', '2026-11-30 09:12:51.55202+00'),
	(8, '0008_truncated_log', '2026-11-30 09:12:51.55202+00'),
	(9, '0009_order_of_rows', '2026-11-30 09:12:51.55202+00'),
	(10, '0010_tombstones', '2026-11-30 09:12:51.55202+00'),
	(11, '0011_approval', '2026-11-30 09:12:51.55202+00'),
	(12, '0012_declared_columns', '2026-11-30 09:12:51.55202+00'),
	(14, '0014_verify_and_dismiss', '2026-11-30 09:12:51.55202+00'),
	(15, '0015_records_without_timestamp', '2026-11-30 09:12:51.55202+00'),
	(16, '0016_long_history', '2026-11-30 09:12:51.55202+00'),
	(17, '0017_prune', '2026-11-30 09:12:51.55202+00'),
	(18, '0018_stage_failure', '2026-11-30 09:12:51.55202+00'),
	(19, '0019_schemas', '2026-11-30 09:12:51.55202+00'),
	(20, '0020_topics', '2026-11-30 09:12:51.55202+00'),
	(21, '0021_followed_columns', '2026-11-30 09:12:51.55202+00'),
	(22, '0022_unread_fields', '2026-11-30 09:12:51.55202+00'),
	(23, '0023_notifications', '2026-11-30 09:12:51.55202+00'),
	(24, '0024_prune_quarantine', '2026-11-30 09:12:51.55202+00'),
	(25, '0025_chain_lookups', '2026-11-30 09:12:51.55202+00'),
	(26, '0026_stage_engine', '2026-11-30 09:12:51.55202+00'),
	(27, '0027_without_bytes', '2026-11-30 09:12:51.55202+00'),
	(28, '0028_topic_gone', '2026-11-30 09:12:51.55202+00'),
	(29, '0029_schema_guids', '2026-11-30 09:12:51.55202+00'),
	(30, '0030_server_away', '2026-11-30 09:12:51.55202+00'),
	(31, '0031_input_error', '2026-11-30 09:12:51.55202+00'),
	(32, '0032_rows_beside', '2026-11-30 09:12:51.55202+00'),
	(33, '0033_group_orders', '2026-11-30 09:12:51.55202+00'),
	(34, '0034_batch_ahead', '2026-11-30 09:12:51.55202+00'),
	(35, '0035_key_places', '2026-11-30 09:12:51.55202+00');
INSERT INTO offset_ledger.pipeline VALUES
	('orders', '@cluster_id@', '@topic@', '@topic_id@', 'public.orders', '8145c4c6441c3ebe2702dcdd05861fcfed78705c1d2a95cb7c9fb61611a154a8', '2026-11-30 09:12:59.738679+00', '2026-11-30 09:13:21.012911+00', 'kafka_timestamp', 2, DEFAULT, '{"event_id": ["the Kafka key"]}'),
	('planned', '@cluster_id@', '@topic@', '@topic_id@', 'public.planned', '9f21b07ac5542ed52d5a7cc68308c795f99a79f1153a91c4a8228a1c95311a32', '2026-11-30 09:13:47.25046+00', '2026-11-30 09:13:47.25046+00', 'kafka_timestamp', 1, DEFAULT, '{"event_id": ["the Kafka key"]}');
INSERT INTO offset_ledger.quarantine OVERRIDING SYSTEM VALUE VALUES
	(1, 'orders', '@topic_id@', 1, 1, '2026-01-01 12:00:05+00', '\x78', NULL, '\x7b227374617465223a20377d', '[{"code": "type", "path": "$.state", "detail": "expected text, got number"}]', 1, '2026-11-30 09:13:14.177983+00', NULL, NULL, NULL, NULL, NULL);
INSERT INTO offset_ledger.slice VALUES
	(1, 1, 0, 0, 3, 0, 0, 0, 2, '2026-01-01 12:00:01+00', '2026-01-01 12:00:03+00', '2026-11-30 09:13:12.692625+00', '{"more": false, "fields": [], "records": 3, "sampled": 3}'),
	(1, 1, 1, 1, 2, 1, 0, 0, 2, '2026-01-01 12:00:04+00', '2026-01-01 12:00:05+00', '2026-11-30 09:13:12.696634+00', '{"more": false, "fields": [], "records": 2, "sampled": 2}'),
	(2, 1, 0, 0, 2, 0, 0, 3, 4, '2026-01-01 12:00:01+00', '2026-01-01 12:00:08+00', '2026-11-30 09:13:34.05274+00', '{"more": false, "fields": [], "records": 2, "sampled": 2}'),
	(2, 1, 1, 1, 2, 1, 0, 3, 5, '2026-01-01 12:00:09+00', '2026-01-01 12:00:10+00', '2026-11-30 09:13:34.136357+00', '{"more": false, "fields": [], "records": 1, "sampled": 1}');
INSERT INTO offset_ledger.target_table VALUES
	('public.orders', 'orders'),
	('public.planned', 'planned');
INSERT INTO offset_ledger.topic_look OVERRIDING SYSTEM VALUE VALUES
	(1, 'orders', '@topic_id@', '2026-11-30 09:12:59.408096+00', '{3,3}', NULL),
	(2, 'orders', '@topic_id@', '2026-11-30 09:13:20.668097+00', '{5,6}', NULL),
	(3, 'planned', '@topic_id@', '2026-11-30 09:13:46.874948+00', '{5,6}', NULL);
INSERT INTO offset_ledger_staging.b2_e1 VALUES
	('b', '2026-01-01 12:00:01+00', 'late', NULL, 0, 3, '2026-01-01 12:00:01+00', '\x62', NULL, false, '\x7b227374617465223a20226c617465227d'),
	('c', '2026-01-01 12:00:08+00', 'sent', 4.00, 0, 4, '2026-01-01 12:00:08+00', '\x63', NULL, false, '\x7b227374617465223a202273656e74222c2022616d6f756e74223a20347d'),
	('d', '2026-01-01 12:00:09+00', NULL, NULL, 1, 3, '2026-01-01 12:00:09+00', '\x64', NULL, true, NULL),
	('e', '2026-01-01 12:00:10+00', 'new', 99.00, 1, 5, '2026-01-01 12:00:10+00', '\x65', NULL, false, '\x7b227374617465223a20226e6577222c2022616d6f756e74223a2039397d');
INSERT INTO offset_ledger_staging.b2_e1_refused VALUES
	(1, 4, '2026-01-01 12:00:09+00', '\x79', NULL, '\x7b', '[{"code": "syntax", "path": "$", "detail": "expected a JSON object: Input data was truncated"}]');
INSERT INTO public.orders VALUES
	('a', '2026-01-01 12:00:03+00', 'paid', 2.00, 0, 2, '2026-01-01 12:00:03+00', '\x61', NULL, false, 1),
	('b', '2026-01-01 12:00:02+00', 'new', NULL, 0, 1, '2026-01-01 12:00:02+00', '\x62', NULL, false, 1),
	('c', '2026-01-01 12:00:04+00', 'new', 3.00, 1, 0, '2026-01-01 12:00:04+00', '\x63', NULL, false, 1),
	('d', '2026-01-01 12:00:05+00', 'new', NULL, 1, 2, '2026-01-01 12:00:05+00', '\x64', NULL, false, 1);
SELECT pg_catalog.setval('offset_ledger.batch_batch_id_seq', 3, true);
SELECT pg_catalog.setval('offset_ledger.batch_event_event_id_seq', 10, true);
SELECT pg_catalog.setval('offset_ledger.decision_decision_id_seq', 1, false);
SELECT pg_catalog.setval('offset_ledger.dismissal_dismissal_id_seq', 1, false);
SELECT pg_catalog.setval('offset_ledger.followed_column_column_id_seq', 1, false);
SELECT pg_catalog.setval('offset_ledger.notification_notification_id_seq', 1, false);
SELECT pg_catalog.setval('offset_ledger.pruned_dismissal_pruned_dismissal_id_seq', 1, false);
SELECT pg_catalog.setval('offset_ledger.pruning_pruning_id_seq', 1, false);
SELECT pg_catalog.setval('offset_ledger.quarantine_quarantine_id_seq', 1, true);
SELECT pg_catalog.setval('offset_ledger.table_count_count_id_seq', 1, false);
SELECT pg_catalog.setval('offset_ledger.target_change_change_id_seq', 1, false);
SELECT pg_catalog.setval('offset_ledger.topic_audit_audit_id_seq', 1, false);
SELECT pg_catalog.setval('offset_ledger.topic_look_look_id_seq', 3, true);
ALTER TABLE ONLY offset_ledger.accepted_difference
    ADD CONSTRAINT accepted_difference_pkey PRIMARY KEY (pipeline, path, difference);
ALTER TABLE ONLY offset_ledger.batch
    ADD CONSTRAINT batch_batch_id_pipeline_topic_id_key UNIQUE (batch_id, pipeline, topic_id);
ALTER TABLE ONLY offset_ledger.batch_event
    ADD CONSTRAINT batch_event_pkey PRIMARY KEY (event_id);
ALTER TABLE ONLY offset_ledger.batch
    ADD CONSTRAINT batch_pkey PRIMARY KEY (batch_id);
ALTER TABLE ONLY offset_ledger.batch_profile
    ADD CONSTRAINT batch_profile_pkey PRIMARY KEY (batch_id);
ALTER TABLE ONLY offset_ledger.batch_range
    ADD CONSTRAINT batch_range_pkey PRIMARY KEY (batch_id, partition);
ALTER TABLE ONLY offset_ledger.batch_schema
    ADD CONSTRAINT batch_schema_pkey PRIMARY KEY (batch_id, partition, schema_id);
ALTER TABLE ONLY offset_ledger.beginning
    ADD CONSTRAINT beginning_pipeline_topic_id_partition_start_offset_key UNIQUE (pipeline, topic_id, partition, start_offset);
ALTER TABLE ONLY offset_ledger.beginning
    ADD CONSTRAINT beginning_pkey PRIMARY KEY (pipeline, topic_id, partition);
ALTER TABLE ONLY offset_ledger.column_group
    ADD CONSTRAINT column_group_pkey PRIMARY KEY (file, name);
ALTER TABLE ONLY offset_ledger.batch_range
    ADD CONSTRAINT committed_ends_are_unique UNIQUE (pipeline, topic_id, partition, committed_until);
ALTER TABLE ONLY offset_ledger.batch_range
    ADD CONSTRAINT committed_starts_are_unique UNIQUE (committed_from, partition, topic_id, pipeline);
ALTER TABLE ONLY offset_ledger.cursor
    ADD CONSTRAINT cursor_pkey PRIMARY KEY (pipeline, topic_id, partition);
ALTER TABLE ONLY offset_ledger.dead_letter_mark
    ADD CONSTRAINT dead_letter_mark_pkey PRIMARY KEY (pipeline, topic_id, partition);
ALTER TABLE ONLY offset_ledger.dead_letter
    ADD CONSTRAINT dead_letter_pkey PRIMARY KEY (quarantine_id);
ALTER TABLE ONLY offset_ledger.decision
    ADD CONSTRAINT decision_pkey PRIMARY KEY (decision_id);
ALTER TABLE ONLY offset_ledger.declared_column
    ADD CONSTRAINT declared_column_pkey PRIMARY KEY (pipeline, name);
ALTER TABLE ONLY offset_ledger.dismissal
    ADD CONSTRAINT dismissal_pkey PRIMARY KEY (dismissal_id);
ALTER TABLE ONLY offset_ledger.dismissal_record
    ADD CONSTRAINT dismissal_record_pkey PRIMARY KEY (dismissal_id, quarantine_id);
ALTER TABLE ONLY offset_ledger.followed_column
    ADD CONSTRAINT followed_column_pipeline_batch_id_name_key UNIQUE (pipeline, batch_id, name);
ALTER TABLE ONLY offset_ledger.followed_column
    ADD CONSTRAINT followed_column_pkey PRIMARY KEY (column_id);
ALTER TABLE ONLY offset_ledger.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (number);
ALTER TABLE ONLY offset_ledger.notification
    ADD CONSTRAINT notification_pkey PRIMARY KEY (notification_id);
ALTER TABLE ONLY offset_ledger.pipeline
    ADD CONSTRAINT pipeline_pkey PRIMARY KEY (pipeline);
ALTER TABLE ONLY offset_ledger.pruned_dismissal
    ADD CONSTRAINT pruned_dismissal_pkey PRIMARY KEY (pruned_dismissal_id);
ALTER TABLE ONLY offset_ledger.pruned_reread
    ADD CONSTRAINT pruned_reread_pkey PRIMARY KEY (batch_id, partition);
ALTER TABLE ONLY offset_ledger.pruning
    ADD CONSTRAINT pruning_pkey PRIMARY KEY (pruning_id);
ALTER TABLE ONLY offset_ledger.quarantine
    ADD CONSTRAINT quarantine_pipeline_topic_id_partition_offset_key UNIQUE (pipeline, topic_id, partition, "offset");
ALTER TABLE ONLY offset_ledger.quarantine
    ADD CONSTRAINT quarantine_pkey PRIMARY KEY (quarantine_id);
ALTER TABLE ONLY offset_ledger.redrive
    ADD CONSTRAINT redrive_pkey PRIMARY KEY (batch_id);
ALTER TABLE ONLY offset_ledger.redrive_record
    ADD CONSTRAINT redrive_record_pkey PRIMARY KEY (batch_id, quarantine_id);
ALTER TABLE ONLY offset_ledger.schema_boundary
    ADD CONSTRAINT schema_boundary_pkey PRIMARY KEY (batch_id, partition, schema_id, message);
ALTER TABLE ONLY offset_ledger.schema_guid
    ADD CONSTRAINT schema_guid_pkey PRIMARY KEY (pipeline, guid);
ALTER TABLE ONLY offset_ledger.slice
    ADD CONSTRAINT slice_pkey PRIMARY KEY (batch_id, epoch, slice_no);
ALTER TABLE ONLY offset_ledger.stage_failure
    ADD CONSTRAINT stage_failure_pkey PRIMARY KEY (submission);
ALTER TABLE ONLY offset_ledger.subscribed_topic
    ADD CONSTRAINT subscribed_topic_pkey PRIMARY KEY (file, topic);
ALTER TABLE ONLY offset_ledger.table_count
    ADD CONSTRAINT table_count_pkey PRIMARY KEY (count_id);
ALTER TABLE ONLY offset_ledger.target_change
    ADD CONSTRAINT target_change_pkey PRIMARY KEY (change_id);
ALTER TABLE ONLY offset_ledger.target_table
    ADD CONSTRAINT target_table_pkey PRIMARY KEY (target);
ALTER TABLE ONLY offset_ledger.target_table
    ADD CONSTRAINT target_table_target_file_key UNIQUE (target, file);
ALTER TABLE ONLY offset_ledger.topic_audit
    ADD CONSTRAINT topic_audit_pipeline_topic_audited_at_rule_key UNIQUE NULLS NOT DISTINCT (pipeline, topic, audited_at, rule);
ALTER TABLE ONLY offset_ledger.topic_audit
    ADD CONSTRAINT topic_audit_pkey PRIMARY KEY (audit_id);
ALTER TABLE ONLY offset_ledger.topic_look
    ADD CONSTRAINT topic_look_pkey PRIMARY KEY (look_id);
ALTER TABLE ONLY offset_ledger.writer_schema
    ADD CONSTRAINT writer_schema_pkey PRIMARY KEY (pipeline, schema_id);
ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_pkey PRIMARY KEY (event_id);
ALTER TABLE ONLY public.planned
    ADD CONSTRAINT planned_pkey PRIMARY KEY (event_id);
CREATE INDEX batch_abandoned ON offset_ledger.batch USING btree (pipeline, ((- batch_id))) WHERE (state = 'abandoned'::text);
CREATE INDEX batch_by_end ON offset_ledger.batch USING btree (pipeline, ended_at);
CREATE INDEX batch_by_run ON offset_ledger.batch USING btree (pipeline, run_id, ((- batch_id)));
CREATE INDEX batch_event_by_batch ON offset_ledger.batch_event USING btree (batch_id, event_id);
CREATE INDEX batch_newest ON offset_ledger.batch USING btree (pipeline, ((- batch_id)));
CREATE INDEX batch_not_head ON offset_ledger.batch USING btree (pipeline, kind, ((- batch_id))) WHERE (kind <> 'head'::text);
CREATE INDEX batch_of_remerge ON offset_ledger.batch USING btree (pipeline) WHERE (request ? 'remerge'::text);
CREATE UNIQUE INDEX batch_one_ahead ON offset_ledger.batch USING btree (pipeline) WHERE (after IS NOT NULL);
CREATE UNIQUE INDEX batch_one_open_head ON offset_ledger.batch USING btree (pipeline) WHERE ((kind = 'head'::text) AND (state <> ALL (ARRAY['committed'::text, 'abandoned'::text])) AND (after IS NULL));
CREATE INDEX batch_open ON offset_ledger.batch USING btree (pipeline, batch_id) WHERE (state <> ALL (ARRAY['committed'::text, 'abandoned'::text]));
CREATE INDEX batch_range_follows ON offset_ledger.batch_range USING btree (follows, partition, topic_id, pipeline);
CREATE INDEX batch_range_uncounted ON offset_ledger.batch_range USING btree (pipeline) WHERE ((inserted IS NOT NULL) AND (added IS NULL));
CREATE INDEX batch_schema_by_schema ON offset_ledger.batch_schema USING btree (schema_id);
CREATE INDEX dead_letter_waiting ON offset_ledger.dead_letter USING btree (quarantine_id) WHERE (delivered_at IS NULL);
CREATE INDEX decision_by_batch ON offset_ledger.decision USING btree (batch_id) WHERE (batch_id IS NOT NULL);
CREATE INDEX decision_by_pipeline ON offset_ledger.decision USING btree (pipeline, decision_id DESC);
CREATE INDEX dismissal_record_by_quarantine ON offset_ledger.dismissal_record USING btree (quarantine_id);
CREATE INDEX notification_by_pipeline ON offset_ledger.notification USING btree (pipeline, notification_id);
CREATE UNIQUE INDEX notification_once ON offset_ledger.notification USING btree (pipeline, cause, md5(key), notifier) WHERE (ended_at IS NULL);
CREATE INDEX notification_unsent ON offset_ledger.notification USING btree (pipeline) WHERE ((sent_at IS NULL) AND (ended_at IS NULL));
CREATE INDEX pipeline_by_file ON offset_ledger.pipeline USING btree (file);
CREATE INDEX pipeline_by_target ON offset_ledger.pipeline USING btree (target);
CREATE INDEX pruned_dismissal_by_log ON offset_ledger.pruned_dismissal USING btree (pipeline, topic_id, partition, until_offset);
CREATE INDEX pruning_by_pipeline ON offset_ledger.pruning USING btree (pipeline, topic_id, until_batch_id);
CREATE INDEX quarantine_by_batch ON offset_ledger.quarantine USING btree (batch_id);
CREATE INDEX quarantine_by_schema ON offset_ledger.quarantine USING btree (pipeline, schema_id) WHERE (schema_id IS NOT NULL);
CREATE INDEX quarantine_dismissed ON offset_ledger.quarantine USING btree (pipeline) WHERE (dismissed_by IS NOT NULL);
CREATE INDEX quarantine_resolved ON offset_ledger.quarantine USING btree (resolved_by) WHERE (resolved_by IS NOT NULL);
CREATE INDEX quarantine_retried ON offset_ledger.quarantine USING btree (retried_by) WHERE (retried_by IS NOT NULL);
CREATE INDEX quarantine_settled ON offset_ledger.quarantine USING btree (pipeline, topic_id, quarantine_id) WHERE ((resolved_by IS NOT NULL) OR (dismissed_by IS NOT NULL));
CREATE INDEX quarantine_unresolved ON offset_ledger.quarantine USING btree (pipeline, topic_id) WHERE ((resolved_by IS NULL) AND (dismissed_by IS NULL));
CREATE INDEX redrive_record_by_quarantine ON offset_ledger.redrive_record USING btree (quarantine_id);
CREATE UNIQUE INDEX redrive_record_one_open ON offset_ledger.redrive_record USING btree (quarantine_id) WHERE (outcome IS NULL);
CREATE INDEX schema_boundary_by_schema ON offset_ledger.schema_boundary USING btree (schema_id);
CREATE INDEX stage_failure_by_batch ON offset_ledger.stage_failure USING btree (batch_id);
CREATE INDEX table_count_by_pipeline ON offset_ledger.table_count USING btree (pipeline, count_id DESC);
CREATE INDEX target_change_by_pipeline ON offset_ledger.target_change USING btree (pipeline, change_id);
CREATE INDEX topic_audit_by_pipeline ON offset_ledger.topic_audit USING btree (pipeline, audit_id);
CREATE INDEX topic_audit_by_rule ON offset_ledger.topic_audit USING btree (pipeline, topic, rule, audited_at) INCLUDE (severity);
CREATE INDEX topic_look_by_pipeline ON offset_ledger.topic_look USING btree (pipeline, seen_at DESC);
CREATE TRIGGER batch_guard BEFORE DELETE OR UPDATE ON offset_ledger.batch FOR EACH ROW EXECUTE FUNCTION offset_ledger.guard_batch();
CREATE TRIGGER batch_head_counted AFTER INSERT ON offset_ledger.batch FOR EACH ROW WHEN ((new.kind = 'head'::text)) EXECUTE FUNCTION offset_ledger.count_head();
CREATE TRIGGER batch_moved AFTER UPDATE ON offset_ledger.batch FOR EACH ROW WHEN (((old.state IS DISTINCT FROM new.state) OR (old.epoch IS DISTINCT FROM new.epoch))) EXECUTE FUNCTION offset_ledger.record_transition();
CREATE TRIGGER batch_planned AFTER INSERT ON offset_ledger.batch FOR EACH ROW EXECUTE FUNCTION offset_ledger.record_transition();
CREATE TRIGGER batch_range_guard BEFORE DELETE OR UPDATE ON offset_ledger.batch_range FOR EACH ROW WHEN ((old.inserted IS NOT NULL)) EXECUTE FUNCTION offset_ledger.guard_range();
CREATE TRIGGER batch_settles_ahead AFTER UPDATE ON offset_ledger.batch FOR EACH ROW WHEN (((new.kind = 'head'::text) AND (new.state = ANY (ARRAY['staging'::text, 'committed'::text, 'abandoned'::text])) AND ((old.state IS DISTINCT FROM new.state) OR (old.epoch IS DISTINCT FROM new.epoch)))) EXECUTE FUNCTION offset_ledger.settle_ahead();
CREATE TRIGGER cursor_guard BEFORE UPDATE ON offset_ledger.cursor FOR EACH ROW WHEN ((new.next_offset < old.next_offset)) EXECUTE FUNCTION offset_ledger.guard_cursor();
CREATE TRIGGER decision_guard BEFORE DELETE OR UPDATE ON offset_ledger.decision FOR EACH ROW EXECUTE FUNCTION offset_ledger.guard_decision();
CREATE TRIGGER redrive_abandoned AFTER UPDATE ON offset_ledger.batch FOR EACH ROW WHEN (((new.kind = 'redrive'::text) AND (new.state = 'abandoned'::text))) EXECUTE FUNCTION offset_ledger.release_redrive();
ALTER TABLE ONLY offset_ledger.batch
    ADD CONSTRAINT a_batch_ahead_follows_its_own_log FOREIGN KEY (after, pipeline, topic_id) REFERENCES offset_ledger.batch(batch_id, pipeline, topic_id);
ALTER TABLE ONLY offset_ledger.accepted_difference
    ADD CONSTRAINT accepted_difference_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES offset_ledger.pipeline(pipeline);
ALTER TABLE ONLY offset_ledger.batch_event
    ADD CONSTRAINT batch_event_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES offset_ledger.batch(batch_id);
ALTER TABLE ONLY offset_ledger.batch
    ADD CONSTRAINT batch_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES offset_ledger.pipeline(pipeline);
ALTER TABLE ONLY offset_ledger.batch_profile
    ADD CONSTRAINT batch_profile_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES offset_ledger.batch(batch_id);
ALTER TABLE ONLY offset_ledger.batch_range
    ADD CONSTRAINT batch_range_batch_id_pipeline_topic_id_fkey FOREIGN KEY (batch_id, pipeline, topic_id) REFERENCES offset_ledger.batch(batch_id, pipeline, topic_id);
ALTER TABLE ONLY offset_ledger.batch_schema
    ADD CONSTRAINT batch_schema_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES offset_ledger.batch(batch_id) ON DELETE CASCADE;
ALTER TABLE ONLY offset_ledger.beginning
    ADD CONSTRAINT beginning_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES offset_ledger.pipeline(pipeline);
ALTER TABLE ONLY offset_ledger.batch_range
    ADD CONSTRAINT committed_ranges_are_contiguous FOREIGN KEY (pipeline, topic_id, partition, follows) REFERENCES offset_ledger.batch_range(pipeline, topic_id, partition, committed_until);
ALTER TABLE ONLY offset_ledger.batch_range
    ADD CONSTRAINT committed_ranges_begin_at_the_beginning FOREIGN KEY (pipeline, topic_id, partition, begins) REFERENCES offset_ledger.beginning(pipeline, topic_id, partition, start_offset);
ALTER TABLE ONLY offset_ledger.cursor
    ADD CONSTRAINT cursor_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES offset_ledger.batch(batch_id);
ALTER TABLE ONLY offset_ledger.cursor
    ADD CONSTRAINT cursor_is_a_committed_end FOREIGN KEY (pipeline, topic_id, partition, next_offset) REFERENCES offset_ledger.batch_range(pipeline, topic_id, partition, committed_until);
ALTER TABLE ONLY offset_ledger.cursor
    ADD CONSTRAINT cursor_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES offset_ledger.pipeline(pipeline);
ALTER TABLE ONLY offset_ledger.dead_letter_mark
    ADD CONSTRAINT dead_letter_mark_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES offset_ledger.pipeline(pipeline);
ALTER TABLE ONLY offset_ledger.dead_letter
    ADD CONSTRAINT dead_letter_quarantine_id_fkey FOREIGN KEY (quarantine_id) REFERENCES offset_ledger.quarantine(quarantine_id);
ALTER TABLE ONLY offset_ledger.decision
    ADD CONSTRAINT decision_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES offset_ledger.batch(batch_id);
ALTER TABLE ONLY offset_ledger.decision
    ADD CONSTRAINT decision_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES offset_ledger.pipeline(pipeline);
ALTER TABLE ONLY offset_ledger.declared_column
    ADD CONSTRAINT declared_column_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES offset_ledger.pipeline(pipeline);
ALTER TABLE ONLY offset_ledger.dismissal
    ADD CONSTRAINT dismissal_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES offset_ledger.pipeline(pipeline);
ALTER TABLE ONLY offset_ledger.dismissal_record
    ADD CONSTRAINT dismissal_record_dismissal_id_fkey FOREIGN KEY (dismissal_id) REFERENCES offset_ledger.dismissal(dismissal_id);
ALTER TABLE ONLY offset_ledger.dismissal_record
    ADD CONSTRAINT dismissal_record_quarantine_id_fkey FOREIGN KEY (quarantine_id) REFERENCES offset_ledger.quarantine(quarantine_id);
ALTER TABLE ONLY offset_ledger.followed_column
    ADD CONSTRAINT followed_column_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES offset_ledger.pipeline(pipeline);
ALTER TABLE ONLY offset_ledger.pipeline
    ADD CONSTRAINT one_file_for_each_table FOREIGN KEY (target, file) REFERENCES offset_ledger.target_table(target, file);
ALTER TABLE ONLY offset_ledger.pruned_dismissal
    ADD CONSTRAINT pruned_dismissal_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES offset_ledger.pipeline(pipeline);
ALTER TABLE ONLY offset_ledger.pruned_reread
    ADD CONSTRAINT pruned_reread_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES offset_ledger.batch(batch_id);
ALTER TABLE ONLY offset_ledger.pruning
    ADD CONSTRAINT pruning_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES offset_ledger.pipeline(pipeline);
ALTER TABLE ONLY offset_ledger.quarantine
    ADD CONSTRAINT quarantine_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES offset_ledger.batch(batch_id);
ALTER TABLE ONLY offset_ledger.quarantine
    ADD CONSTRAINT quarantine_dismissed_by_fkey FOREIGN KEY (dismissed_by) REFERENCES offset_ledger.dismissal(dismissal_id);
ALTER TABLE ONLY offset_ledger.quarantine
    ADD CONSTRAINT quarantine_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES offset_ledger.pipeline(pipeline);
ALTER TABLE ONLY offset_ledger.quarantine
    ADD CONSTRAINT quarantine_resolved_by_fkey FOREIGN KEY (resolved_by) REFERENCES offset_ledger.batch(batch_id);
ALTER TABLE ONLY offset_ledger.quarantine
    ADD CONSTRAINT quarantine_retried_by_fkey FOREIGN KEY (retried_by) REFERENCES offset_ledger.batch(batch_id);
ALTER TABLE ONLY offset_ledger.redrive
    ADD CONSTRAINT redrive_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES offset_ledger.batch(batch_id);
ALTER TABLE ONLY offset_ledger.redrive_record
    ADD CONSTRAINT redrive_record_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES offset_ledger.redrive(batch_id);
ALTER TABLE ONLY offset_ledger.redrive_record
    ADD CONSTRAINT redrive_record_quarantine_id_fkey FOREIGN KEY (quarantine_id) REFERENCES offset_ledger.quarantine(quarantine_id);
ALTER TABLE ONLY offset_ledger.schema_boundary
    ADD CONSTRAINT schema_boundary_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES offset_ledger.batch(batch_id) ON DELETE CASCADE;
ALTER TABLE ONLY offset_ledger.schema_guid
    ADD CONSTRAINT schema_guid_pipeline_schema_id_fkey FOREIGN KEY (pipeline, schema_id) REFERENCES offset_ledger.writer_schema(pipeline, schema_id) ON DELETE CASCADE;
ALTER TABLE ONLY offset_ledger.slice
    ADD CONSTRAINT slice_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES offset_ledger.batch(batch_id);
ALTER TABLE ONLY offset_ledger.stage_failure
    ADD CONSTRAINT stage_failure_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES offset_ledger.batch(batch_id) ON DELETE CASCADE;
ALTER TABLE ONLY offset_ledger.table_count
    ADD CONSTRAINT table_count_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES offset_ledger.pipeline(pipeline);
ALTER TABLE ONLY offset_ledger.target_change
    ADD CONSTRAINT target_change_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES offset_ledger.pipeline(pipeline);
ALTER TABLE ONLY offset_ledger.topic_look
    ADD CONSTRAINT topic_look_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES offset_ledger.pipeline(pipeline);
ALTER TABLE ONLY offset_ledger.writer_schema
    ADD CONSTRAINT writer_schema_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES offset_ledger.pipeline(pipeline);

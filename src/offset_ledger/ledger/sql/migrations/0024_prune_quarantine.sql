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
CREATE OR REPLACE FUNCTION offset_ledger.may_be_pruned(q offset_ledger.quarantine, ended_before timestamptz, up_to bigint)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM offset_ledger.batch b
                   WHERE b.batch_id = q.resolved_by AND b.batch_id <= up_to AND b.ended_at < ended_before)
           AND NOT EXISTS (SELECT FROM offset_ledger.dead_letter d
                           WHERE d.quarantine_id = q.quarantine_id AND d.delivered_at IS NULL)
        OR EXISTS (SELECT FROM offset_ledger.dismissal s
                   WHERE s.dismissal_id = q.dismissed_by AND s.decided_at < ended_before)
$$;

-- A prune walks by these, a bounded number of rows at a time.
CREATE INDEX quarantine_settled ON offset_ledger.quarantine (pipeline, topic_id, quarantine_id)
    WHERE resolved_by IS NOT NULL OR dismissed_by IS NOT NULL;
CREATE INDEX topic_audit_by_pipeline ON offset_ledger.topic_audit (pipeline, audit_id);
CREATE INDEX notification_by_pipeline ON offset_ledger.notification (pipeline, notification_id);

-- Whether anything names a schema.
CREATE INDEX batch_schema_by_schema ON offset_ledger.batch_schema (schema_id);
CREATE INDEX schema_boundary_by_schema ON offset_ledger.schema_boundary (schema_id);
CREATE INDEX quarantine_by_schema ON offset_ledger.quarantine (pipeline, schema_id) WHERE schema_id IS NOT NULL;

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
    CHECK ((severity = 'ok') = (remedy IS NULL)),
    UNIQUE NULLS NOT DISTINCT (pipeline, topic, audited_at, rule)
);

-- What people were, or are still to be, notified of (`notify` in the pipeline file), for each notifier. While a cause with a key has
-- not ended, it is notified of once. Not of a pipeline in the ledger: one can fail before its first plan.
CREATE TABLE offset_ledger.notification (
    notification_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline        text NOT NULL,
    cause           text NOT NULL CHECK (cause IN ('batch_rejected', 'approval_needed', 'freshness_missed', 'audit_error',
        'loss_ahead', 'registry_away', 'run_failed')),
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

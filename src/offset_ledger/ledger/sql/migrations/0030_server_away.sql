-- Any server that does not answer is a cause of notifications, not only the registry.
ALTER TABLE offset_ledger.notification DROP CONSTRAINT notification_cause_check;
UPDATE offset_ledger.notification SET cause = 'server_away' WHERE cause = 'registry_away';
ALTER TABLE offset_ledger.notification ADD CONSTRAINT notification_cause_check CHECK (cause IN
    ('batch_rejected', 'approval_needed', 'freshness_missed', 'audit_error', 'loss_ahead', 'server_away', 'run_failed'));

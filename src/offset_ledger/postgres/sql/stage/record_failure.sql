-- A driver that is started again records its last failure.
INSERT INTO offset_ledger.stage_failure (submission, batch_id, error, message)
VALUES (%(submission)s, %(batch_id)s, %(error)s, %(message)s)
ON CONFLICT (submission) DO UPDATE
SET error = excluded.error, message = excluded.message, failed_at = now();

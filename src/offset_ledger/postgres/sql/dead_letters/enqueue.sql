INSERT INTO offset_ledger.dead_letter (quarantine_id, topic)
SELECT quarantine_id, %(topic)s FROM offset_ledger.quarantine WHERE batch_id = %(batch_id)s
ON CONFLICT (quarantine_id) DO NOTHING

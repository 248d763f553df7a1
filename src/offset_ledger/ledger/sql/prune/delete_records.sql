DELETE FROM offset_ledger.redrive_record WHERE quarantine_id = ANY(%(records)s);
DELETE FROM offset_ledger.dismissal_record WHERE quarantine_id = ANY(%(records)s);
DELETE FROM offset_ledger.dead_letter WHERE quarantine_id = ANY(%(records)s);
DELETE FROM offset_ledger.quarantine WHERE quarantine_id = ANY(%(records)s)

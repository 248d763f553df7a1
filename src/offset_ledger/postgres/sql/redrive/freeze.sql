INSERT INTO offset_ledger.redrive_record (batch_id, quarantine_id)
SELECT %(batch_id)s, quarantine_id FROM redrive_choice WHERE held_by IS NULL AND place <= %(limit)s

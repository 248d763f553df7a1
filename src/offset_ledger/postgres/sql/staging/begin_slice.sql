-- No row where the batch has another epoch or state by now, or another claim of the same epoch (a database that went back).
INSERT INTO offset_ledger.slice (batch_id, epoch, slice_no)
SELECT batch_id, epoch, %(slice_no)s FROM offset_ledger.batch
WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s AND state = 'staging' AND claimed_at = coalesce(%(claimed_at)s, claimed_at)

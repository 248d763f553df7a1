-- The offsets between the chosen ones, as one slice a partition, so that slices and balance sheet cover the range.
INSERT INTO offset_ledger.slice (batch_id, epoch, slice_no, partition, skipped, min_offset, max_offset)
SELECT batch_id, epoch, %(slices)s + row_number() OVER (ORDER BY partition) - 1, partition, left_out, from_offset, until_offset - 1
FROM (SELECT b.batch_id, b.epoch, r.partition, r.from_offset, r.until_offset, r.until_offset - r.from_offset - count(*) AS left_out
      FROM offset_ledger.batch b
      JOIN offset_ledger.batch_range r USING (batch_id)
      JOIN offset_ledger.redrive_record c USING (batch_id)
      JOIN offset_ledger.quarantine q ON q.quarantine_id = c.quarantine_id AND q.partition = r.partition
      WHERE b.batch_id = %(batch_id)s AND b.epoch = %(epoch)s AND b.state = 'staging'
      GROUP BY b.batch_id, r.batch_id, r.partition) AS ranges
WHERE left_out > 0

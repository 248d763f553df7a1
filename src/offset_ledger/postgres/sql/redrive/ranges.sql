-- One range a partition, with what the last batch that quarantined one of the records saw of its log.
SELECT partition, chosen.from_offset, chosen.until_offset, log_start, last_stable, high_watermark, leader_epoch
FROM (SELECT partition, min("offset") AS from_offset, max("offset") + 1 AS until_offset,
             max(batch_id) AS batch_id
      FROM redrive_choice JOIN offset_ledger.quarantine USING (quarantine_id, partition, "offset") WHERE held_by IS NULL AND place <= %(limit)s GROUP BY partition) AS chosen
JOIN offset_ledger.batch_range USING (batch_id, partition)
ORDER BY partition

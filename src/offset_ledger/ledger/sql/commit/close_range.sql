UPDATE offset_ledger.batch_range SET
    inserted = %(inserted)s, updated = %(updated)s, superseded = %(superseded)s, duplicate = %(duplicate)s,
    deleted = %(deleted)s, quarantined = %(quarantined)s, skipped = %(skipped)s, gap = %(gap)s,
    added = %(added)s, gap_reason = %(gap_reason)s, min_timestamp = s.min_timestamp, max_timestamp = s.max_timestamp,
    committed_from  = CASE WHEN %(head)s THEN from_offset END,
    committed_until = CASE WHEN %(head)s THEN until_offset END,
    begins  = CASE WHEN %(head)s AND NOT %(follows)s THEN from_offset END,
    follows = CASE WHEN %(head)s AND %(follows)s THEN from_offset END
FROM (SELECT min(min_timestamp) AS min_timestamp, max(max_timestamp) AS max_timestamp
      FROM offset_ledger.slice
      WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s AND partition = %(partition)s) AS s
WHERE batch_id = %(batch_id)s AND partition = %(partition)s

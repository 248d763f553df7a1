UPDATE offset_ledger.batch_range AS r SET
    inserted = c.inserted, updated = c.updated, superseded = c.superseded, duplicate = c.duplicate,
    deleted = c.deleted, quarantined = c.quarantined, skipped = c.skipped, gap = c.gap, added = c.added,
    gap_reason = CASE WHEN c.gap > 0 THEN %(gap_reason)s END, min_timestamp = s.min_timestamp, max_timestamp = s.max_timestamp,
    committed_from  = CASE WHEN %(head)s THEN from_offset END,
    committed_until = CASE WHEN %(head)s THEN until_offset END,
    begins  = CASE WHEN %(head)s AND NOT c.follows THEN from_offset END,
    follows = CASE WHEN %(head)s AND c.follows THEN from_offset END
FROM unnest(%(partition)s::integer[], %(follows)s::boolean[], %(added)s::bigint[], %(inserted)s::bigint[],
            %(updated)s::bigint[], %(superseded)s::bigint[], %(duplicate)s::bigint[], %(deleted)s::bigint[],
            %(quarantined)s::bigint[], %(skipped)s::bigint[], %(gap)s::bigint[])
    AS c (partition, follows, added, inserted, updated, superseded, duplicate, deleted, quarantined, skipped, gap)
LEFT JOIN (SELECT partition, min(min_timestamp) AS min_timestamp, max(max_timestamp) AS max_timestamp
           FROM offset_ledger.slice WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s
           GROUP BY partition) AS s ON s.partition = c.partition
WHERE r.batch_id = %(batch_id)s AND r.partition = c.partition

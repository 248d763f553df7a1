SELECT b.batch_id, b.kind, b.state, b.epoch, b.engine, r.*, b.planned_at, b.ended_at, b.engine_reason
FROM (SELECT * FROM offset_ledger.batch WHERE pipeline = %(pipeline)s ORDER BY -batch_id LIMIT %(limit)s) AS b
CROSS JOIN LATERAL (
    SELECT sum(until_offset - from_offset)::bigint AS offsets,
           sum(inserted)::bigint AS inserted, sum(updated)::bigint AS updated, sum(superseded)::bigint AS superseded,
           sum(duplicate)::bigint AS duplicate, sum(deleted)::bigint AS deleted,
           sum(quarantined)::bigint AS quarantined, sum(skipped)::bigint AS skipped, sum(gap)::bigint AS gap
    FROM offset_ledger.batch_range WHERE batch_id = b.batch_id
) AS r
ORDER BY b.batch_id DESC

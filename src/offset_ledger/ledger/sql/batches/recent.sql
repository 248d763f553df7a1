SELECT b.batch_id, b.kind, b.state, b.epoch, sum(r.until_offset - r.from_offset)::bigint AS offsets,
       sum(r.inserted)::bigint AS inserted, sum(r.updated)::bigint AS updated, sum(r.superseded)::bigint AS superseded,
       sum(r.duplicate)::bigint AS duplicate, sum(r.deleted)::bigint AS deleted,
       sum(r.quarantined)::bigint AS quarantined, sum(r.skipped)::bigint AS skipped, sum(r.gap)::bigint AS gap,
       b.planned_at, b.ended_at
FROM offset_ledger.batch b LEFT JOIN offset_ledger.batch_range r USING (batch_id)
WHERE b.pipeline = %(pipeline)s
GROUP BY b.batch_id ORDER BY b.batch_id DESC LIMIT %(limit)s

WITH page AS (
    SELECT * FROM offset_ledger.batch
    WHERE pipeline = %(pipeline)s AND -batch_id > -%(before)s::bigint
      AND (%(batch_id)s::bigint IS NULL OR batch_id = %(batch_id)s)
      AND (%(kind)s::text IS NULL OR kind = %(kind)s)
      AND (%(state)s::text IS NULL OR state = %(state)s)
      AND (%(run_id)s::text IS NULL OR (dag_id, run_id) = (%(dag_id)s, %(run_id)s))
    ORDER BY -batch_id LIMIT %(limit)s
)
SELECT p.batch_id, p.kind, p.state, p.epoch, p.after, p.dag_id, p.run_id, p.planned_at, p.claimed_at, p.staged_at,
       p.validated_at, p.ended_at, d.decided_at, p.changed_by, p.changed_why, p.engine, p.engine_reason,
       (p.verdict->>'success')::boolean AS success, p.verdict->'reasons' AS reasons, p.verdict->'notes' AS notes,
       (p.verdict->>'quarantined_share')::double precision AS quarantined_share,
       r.partitions, r.offsets, r.inserted, r.updated, r.superseded, r.duplicate, r.deleted, r.quarantined, r.skipped,
       r.gap, r.min_timestamp, r.max_timestamp
FROM page p
CROSS JOIN LATERAL (
    SELECT count(*) AS partitions, coalesce(sum(until_offset - from_offset), 0)::bigint AS offsets,
           sum(inserted)::bigint AS inserted, sum(updated)::bigint AS updated, sum(superseded)::bigint AS superseded,
           sum(duplicate)::bigint AS duplicate, sum(deleted)::bigint AS deleted,
           sum(quarantined)::bigint AS quarantined, sum(skipped)::bigint AS skipped, sum(gap)::bigint AS gap,
           min(min_timestamp) AS min_timestamp, max(max_timestamp) AS max_timestamp
    FROM offset_ledger.batch_range WHERE batch_id = p.batch_id
) r
CROSS JOIN LATERAL (
    SELECT max(at) AS decided_at FROM offset_ledger.batch_event
    WHERE batch_id = p.batch_id AND from_state = 'rejected' AND to_state = 'validated'
) d
ORDER BY p.batch_id DESC

WITH batches AS (
    SELECT b.kind, b.state, b.planned_at, coalesce(b.ended_at, b.planned_at) AS at, r.waiting, r.left_over,
           r.records, r.quarantined,
           coalesce(r.quarantined::double precision / nullif(r.records, 0),
                    (b.verdict->>'quarantined_share')::double precision) AS share
    FROM offset_ledger.batch b
    CROSS JOIN LATERAL (
        SELECT sum(last_stable - from_offset)::bigint AS waiting, sum(last_stable - until_offset)::bigint AS left_over,
               sum(until_offset - from_offset - gap)::bigint AS records, sum(quarantined)::bigint AS quarantined
        FROM offset_ledger.batch_range WHERE batch_id = b.batch_id
    ) r
    WHERE b.pipeline = %(pipeline)s AND (b.ended_at >= %(since)s OR b.ended_at IS NULL AND b.planned_at >= %(since)s)
)
SELECT date_bin(%(step)s, at, 'epoch'::timestamptz) AS at,
       coalesce(sum(records) FILTER (WHERE kind = 'head' AND state = 'committed'), 0)::bigint AS head,
       coalesce(sum(records) FILTER (WHERE kind <> 'head' AND state = 'committed'), 0)::bigint AS again,
       max(share) FILTER (WHERE kind <> 'redrive') AS quarantined_share,
       max(waiting) FILTER (WHERE kind = 'head') AS lag,
       min(left_over) FILTER (WHERE kind = 'head' AND state = 'committed') AS lag_after
FROM batches GROUP BY 1 ORDER BY 1

-- By partition and step of record time. A range counts in the step of its newest record; the steps from its oldest record
-- on are covered by it.
WITH done AS (
    SELECT batch_id, kind = 'head' AS head FROM offset_ledger.batch
    WHERE pipeline = %(pipeline)s AND state = 'committed' AND ended_at >= %(since)s
    ORDER BY ended_at DESC LIMIT %(batches)s
)
SELECT r.partition, date_bin(%(step)s, r.max_timestamp, 'epoch'::timestamptz) AS at,
       date_bin(%(step)s, min(r.min_timestamp), 'epoch'::timestamptz) AS since,
       coalesce(sum(r.until_offset - r.from_offset - r.gap) FILTER (WHERE d.head), 0)::bigint AS records,
       coalesce(sum(r.until_offset - r.from_offset - r.gap) FILTER (WHERE NOT d.head), 0)::bigint AS again,
       coalesce(sum(r.quarantined) FILTER (WHERE d.head), 0)::bigint AS quarantined,
       coalesce(sum(r.gap) FILTER (WHERE d.head), 0)::bigint AS gap,
       min(r.from_offset) AS from_offset, max(r.until_offset) AS until_offset
FROM done d JOIN offset_ledger.batch_range r USING (batch_id)
WHERE r.max_timestamp >= %(since)s AND r.max_timestamp < %(until)s
GROUP BY 1, 2 ORDER BY 1, 2

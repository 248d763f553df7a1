-- By partition and step of record time, the records that head batches refused. What is no longer in quarantine, has no
-- timestamp or is beyond the limit of a range is where the newest record of its range is.
WITH refused AS (
    SELECT r.batch_id, r.partition, r.max_timestamp, r.quarantined, q."timestamp"
    FROM (
        SELECT batch_id FROM offset_ledger.batch
        WHERE pipeline = %(pipeline)s AND state = 'committed' AND kind = 'head' AND ended_at >= %(since)s
        ORDER BY ended_at DESC LIMIT %(batches)s
    ) done
    JOIN offset_ledger.batch_range r USING (batch_id)
    LEFT JOIN LATERAL (
        SELECT "timestamp" FROM offset_ledger.quarantine
        WHERE pipeline = %(pipeline)s AND topic_id = r.topic_id AND partition = r.partition
          AND "offset" >= r.from_offset AND "offset" < r.until_offset
        ORDER BY "offset" LIMIT %(records)s
    ) q ON true
    WHERE r.quarantined > 0 AND r.max_timestamp >= %(since)s AND r.max_timestamp < %(until)s
), placed AS (
    SELECT partition, "timestamp" AS at, 1 AS records FROM refused WHERE "timestamp" IS NOT NULL
    UNION ALL
    SELECT partition, max_timestamp, quarantined - count("timestamp") FROM refused
    GROUP BY batch_id, partition, max_timestamp, quarantined
)
SELECT partition, date_bin(%(step)s, at, 'epoch'::timestamptz) AS at, sum(records)::bigint AS records
FROM placed WHERE at >= %(since)s AND at < %(until)s AND records > 0 GROUP BY 1, 2 ORDER BY 1, 2

-- The timestamp as a number, because a moment of Kafka's may lie outside of the years that Python knows; what Postgres
-- cannot hold is in the reason that was given for it.
SELECT q.key, q.value, q."offset", q.headers, coalesce(
    (extract(epoch FROM q."timestamp") * 1000)::bigint,
    (SELECT max(substring(r ->> 'detail' FROM 'got (-?[0-9]+) ms$')::bigint) FROM jsonb_array_elements(q.reasons) AS r
     WHERE (r ->> 'path', r ->> 'code') = ('_timestamp', 'range'))) AS milliseconds
FROM offset_ledger.redrive_record r JOIN offset_ledger.quarantine q USING (quarantine_id)
WHERE r.batch_id = %(batch_id)s AND q.partition = %(partition)s
ORDER BY q."offset"
